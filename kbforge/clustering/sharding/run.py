"""A run on shards: what `OnlineClusterer.cluster` gives, from workers of an executor."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TypeAlias

from kbforge.clustering.paging.reading import posterior_of
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.rules import Rules
from kbforge.clustering.sharding.conductor import Conductor, Pace
from kbforge.clustering.sharding.shard import require_shardable
from kbforge.clustering.sharding.worker import ShardWorker
from kbforge.contracts import (
    CandidateIndex,
    Ending,
    Fragment,
    Interrupted,
    OnStep,
    Posterior,
    Problem,
    Progress,
)
from kbforge.contracts.executor import Executor

_AT_ONCE = 512
"""Fragments whose keys are asked for at once."""
_OFTEN = 64
"""Fragments after which a callback is told that need not be told of every step."""

_Keyed: TypeAlias = tuple[Fragment, Sequence[int]]


def cluster_on_workers(
    executor: Executor,
    workers: int | None,
    rules: Rules,
    fragments: Sequence[Fragment],
    problem: Problem,
    on_step: OnStep | None = None,
    pace: Pace | None = None,
) -> Posterior:
    """Cluster fragments on several workers; the posterior is that of one session, bit for bit.

    But of a black box, sets that went from worker to worker may be asked for and counted again.

    Args:
        executor: starts the workers.
        workers: how many; None leaves it to the executor.
        rules: how to cluster.
        fragments: in order, one at least.
        problem: what to cluster by, its models fitted.
        on_step: is told now and then; it may raise `Interrupted` to end the run there.
        pace: how much is on its way at once.

    Raises:
        UsageError: the problem or the rules cannot be clustered in parts.
        LikelihoodError: the likelihood failed on a fragment, which the message names.
        KBForgeError: the workers cannot be started, or are lost again and again.

    """
    require_shardable(problem, rules)
    index = problem.index
    assert index is not None
    crew = executor.start(partial(ShardWorker, problem, rules, fragments[0]), workers)
    try:
        conductor = Conductor(crew, index.families, pace or Pace())
        ended, taken = Ending.DONE, 0
        try:
            for x, keys in _keyed(fragments, index):
                conductor.add(x, keys)
                taken += 1
                if on_step is not None and taken % _OFTEN == 0:
                    on_step(_progress(conductor, taken, len(fragments)))
        except Interrupted:
            ended = Ending.INTERRUPTED
        pages = conductor.finish()
        prior = DirichletProcess(problem.alpha)
        posterior = posterior_of(pages, prior, taken, conductor.evaluations)
        return Posterior(
            posterior.subproblems,
            posterior.log_posterior,
            taken,
            posterior.model_evaluations,
            ended,
        )
    finally:
        crew.close()


def _keyed(fragments: Sequence[Fragment], index: CandidateIndex) -> Iterator[_Keyed]:
    """Fragments, each with its keys."""
    for begin in range(0, len(fragments), _AT_ONCE):
        part = fragments[begin : begin + _AT_ONCE]
        starts, keys = index.keys_of(part)
        bounds, flat = starts.tolist(), keys.tolist()
        for k, x in enumerate(part):
            yield x, flat[bounds[k] : bounds[k + 1]]


def _progress(conductor: Conductor, taken: int, total: int) -> Progress:
    """How far the run has come; how many groupings it stands for is not known before the end."""
    return Progress(taken, total, conductor.n_subproblems, 0.0, conductor.evaluations)
