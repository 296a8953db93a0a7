from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from kbforge.models.bundle import make_likelihood
from kbforge.testing import CommandContract, LikelihoodContract
from kbforge.testing.examples import fragments
from tests.contracts.conftest import Plugins
from tests.lm.likelihoods.gpt.language_models import small_model, write


class TestCommands(CommandContract):
    plugins: ClassVar[Plugins] = ["train-attributes", "train-lm", "train-ngram", "train-pairs"]


class TestLikelihoods(LikelihoodContract):
    plugins: ClassVar[Plugins] = ["bigram", "gpt"]


class TestGptOfABundle(LikelihoodContract):
    name = "gpt"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory):
        cls.folder = write(small_model(fragments()), tmp_path_factory.mktemp("gpt") / "model")

    def make(self) -> Any:
        return make_likelihood(str(self.folder))
