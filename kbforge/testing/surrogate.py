"""The laws of surrogates: those of a likelihood that has live clusters."""

from __future__ import annotations

from typing import ClassVar

from kbforge.contracts import ConjugateLikelihood
from kbforge.testing.likelihood import LikelihoodContract


class SurrogateContract(LikelihoodContract):
    """A surrogate must score one fragment against all live clusters at once."""

    kind: ClassVar[str] = "surrogates"

    def test_has_live_clusters(self) -> None:
        assert isinstance(self.fitted(), ConjugateLikelihood)
