"""The contract tests of the plugins whose kits need nothing more than their names and options."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from kbforge.models.bundle import make_likelihood
from kbforge.testing import (
    CalibratorContract,
    CommandContract,
    GrammarContract,
    IndexContract,
    LikelihoodContract,
    OnlineClustererContract,
    ResamplerContract,
    SerializerContract,
)
from kbforge.testing.examples import fragments
from tests.contracts.conftest import Plugins
from tests.likelihoods.gpt.language_models import small_model, write


class TestCommands(CommandContract):
    plugins: ClassVar[Plugins] = [
        *(
            "backup",
            "calibrate",
            "changes",
            "check",
            "cluster",
            "decide",
            "evaluate",
            "explain",
            "export",
        ),
        *("link", "load", "mcp", "plugins", "refit", "remove", "report", "review", "run"),
        *("serve", "show", "status"),
        *("train-attributes", "train-lm", "train-ngram"),
    ]


class TestSerializers(SerializerContract):
    plugins: ClassVar[Plugins] = ["canonical-json", "flat-json"]


class TestGrammars(GrammarContract):
    plugins: ClassVar[Plugins] = ["canonical-json", "flat-json"]


class TestIndexes(IndexContract):
    plugins: ClassVar[Plugins] = [
        "selective",
        ("selective", {"rules": ("name+colour",), "common": 1}),
        "ngrams",
        ("ngrams", {"attributes": ("name",), "order": 4, "common": 1, "rarest": 5}),
        "projection",
        ("projection", {"angles": True, "tables": 10, "rows": 3}),
    ]


class TestCalibrators(CalibratorContract):
    plugins: ClassVar[Plugins] = ["pseudo-likelihood", "bcubed"]


class TestResamplers(ResamplerContract):
    plugins: ClassVar[Plugins] = ["greedy", "multinomial", "stratified", "optimal"]


class TestOnlineClusterers(OnlineClustererContract):
    plugins: ClassVar[Plugins] = [
        "greedy",
        ("smc", {"particles": 20}),
        ("split-smc", {"particles": 20}),
        ("split-smc", {"particles": 10, "weights": "marginal", "merge": "multinomial"}),
        ("split-smc", {"particles": 10, "resampler": "stratified"}),
    ]


class TestLikelihoods(LikelihoodContract):
    plugins: ClassVar[Plugins] = [
        *("attributes", "gaussian", "bigram", "names", "gpt"),
    ]


class TestPairs(LikelihoodContract):
    plugins: ClassVar[Plugins] = ["pairs", ("pairs", {"bias": -2.5})]
    signed = frozenset(
        {
            # log odds, and digests of 64 bits
            *("links/above", "links/own", "statements", "called/numbers"),
            *("table/names/numbers", "table/names/letters"),
            *(f"table/columns/{k}/numbers" for k in range(3)),
            *(f"worths/{k}/values" for k in range(3)),
        }
    )


class TestGptOfABundle(LikelihoodContract):
    name = "gpt"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        cls.folder = write(small_model(fragments()), tmp_path_factory.mktemp("gpt") / "model")

    def make(self) -> Any:
        return make_likelihood(str(self.folder))
