"""The verbs that cluster or explain make their choices by one function."""

import re
from dataclasses import fields, replace
from typing import Any

import pytest
import torch
import typer

from kbforge import registry
from kbforge.cli.options import OF_A_RUN, choices_of, complete_setting
from kbforge.errors import UsageError, as_option
from kbforge.fit.choices import RunOptions

VERBS = ("cluster", "calibrate", "evaluate", "explain")


def context_of(verb: str, *arguments: str) -> typer.Context:
    """The context that Typer hands to the verb."""
    command: Any = typer.main.get_command(registry.load("commands", verb))
    needed = ["x.jsonl", *(["-o", "x.toml"] if verb == "calibrate" else [])]
    made: typer.Context = command.make_context(verb, [*arguments, *needed])
    return made


@pytest.mark.parametrize("verb", VERBS)
def test_no_option_means_the_defaults(verb):
    found = choices_of(context_of(verb))
    assert replace(found, options={}) == RunOptions()


VALUES = {
    "clusterer": "smc",
    "likelihood": "bigram",
    "surrogate": "attributes",
    "index": "selective",
    "exact": True,
    "particles": 7,
    "max_evals": 9,
    "alpha": 2.5,
    "size_exponent": 0.5,
    "calibration": "c.toml",
    "confidence_map": "m.toml",
    "defaults": "models/",
    "answers": "a.jsonl",
    "labels_from": "l.csv",
    "estimate": "vi",
    "alternatives": "all",
    "link": "source",
    "rules": "r.toml",
    "refers": "employer",
    "time": "observed",
    "seed": 3,
    "device": "cuda",
}


def option(name: str, value: object) -> list[str]:
    """A choice on the command line."""
    if name == "device":
        return ["--gpu"]
    return as_option(name, value).split(" ", 1)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_that_the_verb_has_is_chosen(verb, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    declared = context_of(verb).params
    declared |= {"device": True} if "gpu" in declared else {}
    declared |= {name.replace("-", "_"): True for name in OF_A_RUN}
    values = {name: value for name, value in VALUES.items() if name in declared}
    values.pop("labels_from", None)  # instead of answers
    assert {"likelihood", "alpha"} & values.keys()
    given = [word for name, value in values.items() for word in option(name, value)]
    found = choices_of(context_of(verb, *given))
    assert replace(found, options={}) == RunOptions(**values)


def test_the_values_cover_the_choices():
    assert [*VALUES, "options"] == [field.name for field in fields(RunOptions)]


KINDS = {
    "cluster x": "clusterer, index, likelihood, source, store, surrogate",
    "calibrate x -o y": "calibrator, clusterer, index, likelihood, source, surrogate",
    "evaluate --reliability x": "clusterer, index, likelihood, source, surrogate",
    "explain x --fragment y": "likelihood",
    "link x y": "clusterer, index, likelihood, source, surrogate",
}


@pytest.mark.parametrize("command", KINDS)
def test_set_reaches_the_plugins_that_the_verb_uses(program, command):
    ran = program(*command.split(), "--set", "exporter.x=1")
    ran.require_refusal(f'unknown kind "exporter", expected one of {KINDS[command]}\n', 2)


def test_the_options_of_plugins_have_underscores():
    found = choices_of(context_of("cluster", "--set", "likelihood.a-b=2"))
    assert found.of("likelihood") == {"a_b": "2"}


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("particels=3", 'unknown name "particels" (did you mean "particles"?), expected one of al'),
        ("particles=many", "--set: particles: expected a whole number, got many"),
        ("exact=perhaps", "--set: exact: expected true or false, got perhaps"),
        ("max-evals=-1", "--set max-evals: expected a whole number from 0, got -1"),
        ("estimate=best", "--set estimate: expected map or binder"),
        ("alpha=3", 'unknown name "alpha"'),
        ("exact", 'expected name=value or kind.option=value, got "exact"'),
    ],
)
def test_a_wrong_setting_of_a_run_is_a_sentence(setting, said):
    with pytest.raises(UsageError, match=re.escape(said)):
        choices_of(context_of("cluster", "--set", setting))


def test_a_name_that_begins_is_completed():
    assert [name for name, _ in complete_setting("c")] == [
        "clusterer=",
        "calibration=",
        "confidence-map=",
    ]
    assert [value for value, _ in complete_setting("alternatives=f")] == ["alternatives=few"]
    assert "clusterer=split-smc" in [value for value, _ in complete_setting("clusterer=s")]
    assert [value for value, _ in complete_setting("index=n")] == ["index=ngrams", "index=none"]
    assert list(complete_setting("likelihood.")) == []
