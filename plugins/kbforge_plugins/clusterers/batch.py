"""The default: a file is clustered as a whole, and later fragments are added one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from kbforge.clustering.rounds import Agglomeration, DoubtRules, merges
from kbforge.contracts import (
    Ending,
    Fragment,
    Interrupted,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
    Snapshot,
)
from kbforge.contracts.clusterer import Rounds
from kbforge.errors import UsageError, require_least
from kbforge.indexes.selective import by_content
from kbforge.texts.statements import StatedValues, forget_values, values_read_once
from kbforge_plugins.clusterers.sequential import SplitSmc


class Batch(SplitSmc):
    """Best merges in rounds, then split SMC where they are in doubt (`kbforge.clustering.rounds`).

    The result does not depend on the order of the file. Streams and stores, and likelihoods whose
    clusters the kernel cannot merge, are clustered by split SMC.

    Args:
        particles: P, the maximum number of particles per subproblem.
        floor: drop putative particles below this fraction of the heaviest; 0 drops none. The
            default is 1e-3 with a candidate index, else 0.
        doubt: merges within so many nats of what they exclude are in doubt.
        largest: maximum number of fragments of a subproblem that several clusters form.

    """

    def __init__(
        self,
        particles: int = 100,
        floor: float | None = None,
        doubt: float = 5.0,
        largest: int = 200,
    ) -> None:
        require_least(1, largest=largest)
        if not doubt >= 0:
            raise UsageError(f"doubt: expected a number from 0, got {doubt}")
        super().__init__(particles, floor=floor)
        settled = self.rules.settled(indexed=True).floor
        self._doubt = DoubtRules(particles, settled or 0.0, doubt, largest)

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """Merge in rounds, and run split SMC on what is in doubt."""
        if not merges(spec):
            return super().cluster(fragments, spec, rng, on_step)
        run = self._rounds(fragments, spec)
        try:
            self._merge(run, spec)
            _follow(run, len(fragments), on_step)
            if spec.constraints.link is None:
                return run.posterior()
            # merges alone cannot exchange the partners of two records
            session = self.open(spec, rng, run.snapshot(self.rules, rng))
            session.revise(0)
            return replace(session.posterior(), merges_cut=run.cut)
        except Interrupted:
            return replace(run.without_doubt(), ended=Ending.INTERRUPTED)

    def begun(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Snapshot | None:
        if not merges(spec):
            return None
        run = self._rounds(fragments, spec)
        _follow(run, len(fragments), on_step)
        return run.snapshot(self.rules, rng)

    def _rounds(self, fragments: Sequence[Fragment], spec: ModelSpec) -> Agglomeration:
        with values_read_once():
            order = by_content(fragments)
            forget_values(but=(StatedValues,))
            run = Agglomeration(fragments, spec, self._doubt, order)
            forget_values()
        return run

    def _merge(self, run: Agglomeration, spec: ModelSpec) -> None:
        """Merge elsewhere, before the rounds here."""

    def finishes_with(self, spec: ModelSpec) -> bool:
        """A file is grouped in another way than a stream."""
        return merges(spec)


def _follow(run: Agglomeration, n: int, on_step: OnStep | None) -> None:
    """Run all rounds, and call `on_step` after each."""
    for done, clusters in enumerate(run.run(), 1):
        if on_step is not None:
            rounds = Rounds(done, None, clusters, run.log_posterior)
            on_step(Progress(n, n, clusters, 0.0, run.scored, run.without_doubt, rounds))
