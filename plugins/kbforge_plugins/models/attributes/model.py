"""The likelihood once the rates of all its attributes are known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ctypes import CDLL

import numpy as np

from kbforge.contracts import ConjugateLikelihood, FloatArray
from kbforge.contracts.fragment import Fragment
from kbforge_plugins.models.attributes.compiled import CompiledUrns
from kbforge_plugins.models.attributes.live_urns import AttributeTable, Encoder
from kbforge_plugins.models.attributes.rates import Rates
from kbforge_plugins.models.attributes.urn import Urns
from kbforge_plugins.models.attributes.vocabulary import Vocabulary


class AttributeModel(ConjugateLikelihood):
    """What its tables have in common: records as numbers, and urns.

    Args:
        vocabularies: by attribute.
        rates: of each of these attributes, and maybe of others.

    """

    def __init__(self, vocabularies: Mapping[str, Vocabulary], rates: Rates) -> None:
        self._encoder = Encoder(vocabularies)
        self._urns = [Urns(vocabulary, rates[name]) for name, vocabulary in vocabularies.items()]

    def log_marginal(self, clusters: Sequence[Sequence[Fragment]]) -> FloatArray:
        """L(C), nats, shape [len(clusters)]."""
        table = self.live_clusters()
        return np.array(
            [table.log_marginal([table.encode(x) for x in cluster]) for cluster in clusters],
            dtype=np.float64,
        )

    def live_clusters(self) -> AttributeTable:
        """A new, empty table."""
        return AttributeTable(self._encoder, self._urns)

    def compiled_clusters(self, kernel: CDLL) -> CompiledUrns | None:
        """See `kbforge.contracts.likelihood`."""
        return CompiledUrns(kernel, self._encoder, self._urns)
