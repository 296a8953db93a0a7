"""Suite `documents`: the comparison of the FastEx poster, on generated documents."""

from __future__ import annotations

import numpy as np

from kbforge.errors import UsageError
from kbforge_lab.contracts.suite import Method, Model, Plan, Suite, Task
from kbforge_lab.suites.document_mixture import DocumentMixture

_BITS = (8, 16, 32, 128)
_QUICK_DOCUMENTS, _QUICK_CLUSTERS = 2000, 20
_SECONDS, _QUICK_SECONDS = 300.0, 30.0
_SWEEPS, _QUICK_SWEEPS = 200, 60
_STREAM = 16


class Documents(Suite):
    """Documents of the Dirichlet-multinomial model, and the samplers of the FastEx poster. Task:
    documents. Methods: FastEx from its own start and from a random one; as published; Uncollapsed
    (memberships and parameters in turn), the poster's baseline; Gibbs, exact. All but the first and
    the last have as many components as there are clusters, and start at random. The curves need
    FastEx with shorter hashes. Quick: 2,000 documents of 20 clusters.

    Args:
        documents: how many.
        clusters: how many they are of.
        seed: of the generated documents.

    """

    def __init__(self, documents: int = 20_000, clusters: int = 100, seed: int = 0) -> None:
        if seed < 0 or clusters < 1 or documents < clusters:
            raise UsageError(
                "suite documents: expected a seed of at least 0, a cluster or more, and no fewer "
                f"documents than clusters, got {seed}, {clusters} and {documents}"
            )
        self._documents, self._clusters, self._seed = documents, clusters, seed

    def plan(self, quick: bool = False) -> Plan:
        """See `kbforge_lab.contracts.suite`."""
        n, k = self._documents, self._clusters
        if quick:
            n, k = min(n, _QUICK_DOCUMENTS), min(k, _QUICK_CLUSTERS)
        mixture = DocumentMixture(n, k)
        # not what a sampler of the same seed begins with: its first draws are a random grouping
        rng = np.random.default_rng([_STREAM, self._seed])
        fragments = tuple(mixture.fragments(rng))
        likelihood = Model("dirichlet-multinomial", {"concentration": mixture.concentration})
        sweeps = {"sweeps": _QUICK_SWEEPS if quick else _SWEEPS}
        at_random = {"components": k, "start": "random", **sweeps}
        published = {"temperature": 1.0, "taylor": "tangent", "bits": 32, "tries": 1}
        return Plan(
            # as many components, evenly weighted
            tasks=(Task("documents", fragments, likelihood, float(k)),),
            methods=(
                Method("FastEx", "fastex", sweeps),
                Method("FastEx (random start)", "fastex", at_random),
                Method("FastEx (as published)", "fastex", at_random | published),
                Method("Uncollapsed", "uncollapsed", at_random),
                Method("Gibbs", "gibbs", {"start": "sequential", **sweeps}),
            ),
            sweeps=tuple(
                Method(f"FastEx ({bits} bits)", "fastex", at_random | {"bits": bits})
                for bits in _BITS
            ),
            shuffles=1,
            seconds=_QUICK_SECONDS if quick else _SECONDS,
            reference="FastEx",
        )
