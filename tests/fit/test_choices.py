"""The verbs that cluster or explain make their choices by one function."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest
import typer

from kbforge import registry
from kbforge.cli.options import choices_of
from kbforge.errors import UsageError
from kbforge.fit.choices import Choices

VERBS = ("cluster", "calibrate", "evaluate", "explain")


def context_of(verb: str, *arguments: str) -> typer.Context:
    """The context that Typer hands to the verb."""
    command: Any = typer.main.get_command(registry.load("commands", verb))
    needed = ["x.jsonl", *(["-o", "x.toml"] if verb == "calibrate" else [])]
    made: typer.Context = command.make_context(verb, [*arguments, *needed])
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_means_the_defaults(verb: str) -> None:
    found = choices_of(context_of(verb))
    assert replace(found, options={}) == Choices()


VALUES = {
    "clusterer": "smc",
    "likelihood": "bigram",
    "surrogate": "attributes",
    "index": "selective",
    "exact": True,
    "particles": 7,
    "max_evals": 9,
    "alpha": 2.5,
    "calibration": "c.toml",
    "confidence_map": "m.toml",
    "defaults": "models/",
    "answers": "a.jsonl",
    "estimate": "vi",
    "alternatives": "all",
    "link": "source",
    "seed": 3,
    "device": "cuda",
}


def option(name: str, value: object) -> list[str]:
    """A choice on the command line."""
    if name == "device":
        return ["--gpu"]
    return [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kbforge.models.bundle.require_device", lambda device: None)


@pytest.mark.usefixtures("gpu")
@pytest.mark.parametrize("verb", VERBS)
def test_every_option_that_the_verb_has_is_chosen(verb: str) -> None:
    declared = context_of(verb).params
    declared |= {"device": True} if "gpu" in declared else {}
    values = {name: value for name, value in VALUES.items() if name in declared}
    assert {"likelihood", "alpha"} & values.keys()
    given = [word for name, value in values.items() for word in option(name, value)]
    found = choices_of(context_of(verb, *given))
    assert replace(found, options={}) == Choices(**values)


def test_the_values_cover_the_choices() -> None:
    assert [*VALUES, "options"] == [field.name for field in fields(Choices)]


@pytest.mark.parametrize(
    ("verb", "kinds"),
    [
        ("cluster", {"likelihood", "surrogate", "index", "clusterer"}),
        ("calibrate", {"likelihood", "surrogate", "index", "clusterer", "calibrator"}),
        ("evaluate", {"likelihood", "surrogate", "index", "clusterer"}),
        ("explain", {"likelihood"}),
    ],
)
def test_set_reaches_the_plugins_that_the_verb_uses(verb: str, kinds: set[str]) -> None:
    found = choices_of(context_of(verb, "--set", "likelihood.a-b=2"))
    assert found.options.keys() == kinds
    assert found.of("likelihood") == {"a_b": "2"}
    with pytest.raises(UsageError, match='unknown kind "exporter"'):
        choices_of(context_of(verb, "--set", "exporter.x=1"))


@pytest.mark.usefixtures("gpu")
def test_gpu_is_a_device() -> None:
    assert choices_of(context_of("cluster", "--gpu")).device == "cuda"
