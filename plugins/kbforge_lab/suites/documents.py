"""The suite `documents`: the comparison of the FastEx poster, on generated documents.

Documents from the Dirichlet-multinomial model, sparse, with up to a thousand clusters.

Every cluster has its own distribution over V words, drawn from a symmetric Dirichlet of total
concentration c; a document's cluster is drawn evenly, its length is Poisson distributed. Words are
drawn without the distribution, by the urn of the model (Blackwell and MacQueen, 1973): the t-th
word of a cluster is a new draw from all V with probability c / (c + t - 1), and otherwise one of
those before it.

The FastEx poster has 292,000 articles with 2.5 million words in 100 clusters, and 710,000 with 5.6
million in 1,000: some 8 words of the vocabulary to a document, which is the default here.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.likelihood import IntArray
from kbforge.errors import UsageError
from kbforge_lab.suites.plan import Method, Model, Suite, SuitePlan, Task

WORDS_A_DOCUMENT = 8


@dataclass(frozen=True, slots=True)
class DocumentMixture:
    """What documents are drawn from."""

    documents: int = 2000
    clusters: int = 20  # K
    concentration: float = 1000.0  # c
    length: float = 60.0  # mean words of a document, of which there are at least 5
    vocabulary: int | None = None  # V; None is `WORDS_A_DOCUMENT` for each document

    @property
    def words(self) -> int:
        """V."""
        return self.vocabulary or WORDS_A_DOCUMENT * self.documents

    def draw(self, rng: np.random.Generator) -> tuple[IntArray, list[IntArray]]:
        """The cluster of each document, shape [n], and its words as numbers."""
        clusters = rng.integers(self.clusters, size=self.documents)
        lengths = np.maximum(rng.poisson(self.length, self.documents), 5)
        words: list[IntArray] = [np.zeros(0, dtype=np.int64)] * self.documents
        for cluster in range(self.clusters):
            members = np.flatnonzero(clusters == cluster)
            ends = lengths[members].cumsum()
            drawn = self._urn(int(ends[-1]) if len(ends) else 0, rng)
            for member, part in zip(members.tolist(), np.split(drawn, ends[:-1]), strict=False):
                words[member] = part
        return clusters, words

    def _urn(self, n: int, rng: np.random.Generator) -> IntArray:
        """n words of one cluster."""
        before = np.arange(n)
        at = rng.random(n) * (self.concentration + before) - self.concentration
        source = np.where(at < 0, before, at.astype(np.int64))  # itself: a new draw
        fresh = rng.integers(self.words, size=n)
        while True:  # where copies of copies come from
            further = source[source]
            if (further == source).all():
                return np.asarray(fresh[source])
            source = further

    def fragments(self, rng: np.random.Generator) -> list[Fragment]:
        """The documents as labelled fragments, `document-0` first."""
        clusters, words = self.draw(rng)
        names = [f"w{word}" for word in range(self.words)]
        return [
            Fragment(
                f"document-{i}",
                {"words": tuple([names[word] for word in text.tolist()])},
                label=f"cluster-{cluster}",
            )
            for i, (cluster, text) in enumerate(zip(clusters.tolist(), words, strict=True))
        ]


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
        documents: number of documents.
        clusters: number of their clusters.
        seed: random seed of the documents.

    """

    def __init__(self, documents: int = 20_000, clusters: int = 100, seed: int = 0) -> None:
        if seed < 0 or clusters < 1 or documents < clusters:
            raise UsageError(
                "suite documents: expected a seed of at least 0, a cluster or more, and no fewer "
                f"documents than clusters, got {seed}, {clusters} and {documents}"
            )
        self._documents, self._clusters, self._seed = documents, clusters, seed

    def plan(self, quick: bool = False) -> SuitePlan:
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
        return SuitePlan(
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
