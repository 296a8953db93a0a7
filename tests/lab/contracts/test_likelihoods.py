from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from kbforge.models.resolve import make_likelihood
from kbforge.testing import LikelihoodContract
from tests.lab.models.supervised import models as supervised_models
from tests.lab.training import circles_models


class TestDiffusion(LikelihoodContract):
    name = "diffusion"


class TestDiffusionOfABundle(LikelihoodContract):
    name = "diffusion"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("diffusion") / "model"
        cls.folder = circles_models.write(circles_models.random_model(), folder)

    def make(self) -> Any:
        return make_likelihood(str(self.folder), {"probes": 1})


class TestSupervised(LikelihoodContract):
    name = "supervised"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory: pytest.TempPathFactory) -> None:
        folder = tmp_path_factory.mktemp("supervised") / "model"
        cls.folder = supervised_models.write(supervised_models.small_model(), folder)

    def make(self) -> Any:
        return make_likelihood(str(self.folder))
