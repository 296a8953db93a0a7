"""Every plugin of the laboratory has contract tests."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any, ClassVar

import pytest

from kbforge import registry
from kbforge.models.bundle import make_likelihood
from kbforge.testing import CommandContract, Contract, LikelihoodContract
from tests.contracts.conftest import Plugins, plugins_of
from tests.lab.models.supervised import models as supervised_models
from tests.lab.training import circles_models

PLUGINS = {
    (p.kind, p.name)
    for p in registry.installed()
    if p.entry_point.module.startswith("kbforge_lab.")
}


def covered() -> set[tuple[str, str]]:
    modules = (
        importlib.import_module(f"{__package__}.{path.stem}")
        for path in sorted(Path(__file__).parent.glob("test_*.py"))
    )
    members = (member for module in modules for member in vars(module).values())
    contracts = (m for m in members if isinstance(m, type) and issubclass(m, Contract))
    return {
        (c.kind, name)
        for c in contracts
        for name in (getattr(c, "name", ""), *(name for name, _ in plugins_of(c)))
        if name
    }


def test_contract_tests_are_of_the_plugins_that_there_are():
    assert covered() == PLUGINS


class TestLab(CommandContract):
    name = "lab"


class TestDiscrete(LikelihoodContract):
    plugins: ClassVar[Plugins] = [
        *("trigram", "beta-bernoulli", "dirichlet-multinomial"),
        ("dirichlet-multinomial", {"reads": "words"}),
    ]


class TestDiffusion(LikelihoodContract):
    name = "diffusion"


class TestDiffusionOfABundle(LikelihoodContract):
    name = "diffusion"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("diffusion") / "model"
        cls.folder = circles_models.write(circles_models.random_model(), folder)

    def make(self) -> Any:
        return make_likelihood(str(self.folder), {"probes": 1})


class TestSupervised(LikelihoodContract):
    name = "supervised"

    folder: ClassVar[Path]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _write(cls, tmp_path_factory):
        folder = tmp_path_factory.mktemp("supervised") / "model"
        cls.folder = supervised_models.write(supervised_models.small_model(), folder)

    def make(self) -> Any:
        return make_likelihood(str(self.folder))
