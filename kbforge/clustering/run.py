"""A run: all fragments through `step`, then the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np

from kbforge.clustering.online.scoring import make_scorer
from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.state import Block, State
from kbforge.clustering.step import Rules, step
from kbforge.contracts import (
    Ending,
    Fragment,
    Interrupted,
    OnStep,
    Particle,
    Posterior,
    Problem,
    Progress,
    Subproblem,
)
from kbforge.errors import LikelihoodError, quoted


def run(
    fragments: Sequence[Fragment],
    problem: Problem,
    rules: Rules,
    rng: np.random.Generator,
    on_step: OnStep | None = None,
) -> Posterior:
    """Cluster the fragments one after another.

    Raises:
        LikelihoodError: as `step`; the message names the fragment.

    """
    state = State(DirichletProcess(problem.alpha))
    rules = rules.settled(problem.index is not None)
    # a resampler that looks at more than the heaviest P must be shown all putative particles
    limit = rules.particles if rules.resampler.keeps_heaviest else None
    scorer = make_scorer(problem, fragments, limit)
    try:
        for fragment in fragments:
            try:
                step(state, scorer, rules, rng)
            except LikelihoodError as error:
                raise LikelihoodError(f'fragment "{quoted(fragment.id)}": {error}') from error
            if on_step is not None:
                on_step(
                    Progress(
                        state.n_fragments,
                        len(fragments),
                        len(state.blocks),
                        state.log10_effective_particles,
                        scorer.evaluations,
                        partial(posterior_of, state, scorer.evaluations, Ending.INTERRUPTED),
                    )
                )
    except Interrupted:
        pass  # what has been taken in is the result
    done = state.n_fragments == len(fragments)
    return posterior_of(state, scorer.evaluations, Ending.DONE if done else Ending.INTERRUPTED)


def posterior_of(state: State, evaluations: int, ended: Ending) -> Posterior:
    """The state as plain tuples."""
    blocks = [state.blocks[name] for name in sorted(state.blocks)]
    return Posterior(
        subproblems=tuple(_subproblem(state, block) for block in blocks),
        log_posterior=float(
            sum(state.term[block.cells[: block.row_start[1]]].sum() for block in blocks)
        ),
        n_fragments=state.n_fragments,
        model_evaluations=evaluations,
        ended=ended,
    )


def _subproblem(state: State, block: Block) -> Subproblem:
    cells = block.cells.tolist()
    bounds = block.row_start.tolist()
    members = {slot: state.members(slot) for slot in block.slots.tolist()}
    particles = tuple(
        Particle(weight, tuple(members[slot] for slot in cells[begin:end]))
        for weight, begin, end in zip(block.weights.tolist(), bounds[:-1], bounds[1:], strict=True)
    )
    fragments = sorted(fragment for cluster in particles[0].clusters for fragment in cluster)
    return Subproblem(tuple(fragments), particles)
