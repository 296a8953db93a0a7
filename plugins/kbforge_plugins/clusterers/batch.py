"""Clusters a whole file at once (`kbforge.clustering.rounds`)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kbforge.clustering.rounds import Agglomeration, Doubt
from kbforge.contracts import (
    Clusterer,
    Fragment,
    ModelSpec,
    OnStep,
    Posterior,
    Progress,
)
from kbforge.contracts.clusterer import Rounds
from kbforge.errors import require_least

_FLOOR = 1e-3


class Batch(Clusterer):
    """Best merges in rounds, and split SMC where they leave a doubt; for files, not for streams.

    The result does not depend on the order of the file.

    Args:
        particles: P, the maximum number of particles per subproblem.
        doubt: merges within so many nats of what they exclude are in doubt.
        largest: maximum number of fragments of a subproblem that several clusters form.

    """

    def __init__(self, particles: int = 100, doubt: float = 5.0, largest: int = 200) -> None:
        require_least(1, particles=particles, largest=largest)
        self.particles = particles
        self._doubt = Doubt(particles, _FLOOR, doubt, largest)

    def cluster(
        self,
        fragments: Sequence[Fragment],
        spec: ModelSpec,
        rng: np.random.Generator,
        on_step: OnStep | None = None,
    ) -> Posterior:
        """See `kbforge.contracts.clusterer`."""
        rounds = Agglomeration(fragments, spec)
        for done, clusters in enumerate(rounds.run(), 1):
            if on_step is not None:
                n = len(fragments)
                told = Rounds(done, None, clusters, 0.0)
                on_step(Progress(n, n, clusters, 0.0, rounds.scored, None, told))
        return rounds.posterior(self._doubt)
