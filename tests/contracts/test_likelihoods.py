from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from kbforge.models.resolve import make_likelihood
from kbforge.testing import LikelihoodContract
from kbforge.testing.examples import fragments
from tests.likelihoods.gpt.language_models import small_model, write


class TestAttributes(LikelihoodContract):
    name = "attributes"


class TestGaussian(LikelihoodContract):
    name = "gaussian"


class TestBigram(LikelihoodContract):
    name = "bigram"


class TestTrigram(LikelihoodContract):
    name = "trigram"


class TestNames(LikelihoodContract):
    name = "names"


class TestDirichletMultinomial(LikelihoodContract):
    name = "dirichlet-multinomial"


class TestDirichletMultinomialOfWords(LikelihoodContract):
    name = "dirichlet-multinomial"
    options: ClassVar = {"reads": "words"}


class TestBetaBernoulli(LikelihoodContract):
    name = "beta-bernoulli"


class TestPairs(LikelihoodContract):
    name = "pairs"
    signed = frozenset(
        {
            # log odds, and digests of 64 bits
            *("links/above", "links/own", "statements", "called/numbers"),
            *("table/names/numbers", "table/names/letters"),
            *(f"table/columns/{k}/numbers" for k in range(3)),
            *(f"worths/{k}/values" for k in range(3)),
        }
    )


class TestGpt(LikelihoodContract):
    name = "gpt"


class TestGptOfABundle(LikelihoodContract):
    name = "gpt"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = write(small_model(fragments()), tmp_path_factory.mktemp("gpt") / "model")

    def make(self) -> Any:
        return make_likelihood(str(self.folder))
