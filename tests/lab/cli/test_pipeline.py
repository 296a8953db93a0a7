"""Pipelines hold the verbs of the laboratory."""

from __future__ import annotations

from pathlib import Path

import pytest

from kbforge.cli.verbs import InstalledVerb
from kbforge.recipe.read import read_pipeline


@pytest.mark.parametrize("verb", ["lab bench", "lab bench scale", "lab sample confusable"])
def test_a_verb_of_the_laboratory_is_a_step(tmp_path: Path, verb: str) -> None:
    path = tmp_path / "pipeline.toml"
    path.write_text(f'[[step]]\nverb = "{verb}"\n', encoding="utf-8")
    (step,) = read_pipeline(str(path), InstalledVerb).steps
    assert step.verb == tuple(verb.split())
