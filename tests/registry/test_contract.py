"""A plugin's contract is checked when it is loaded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import pytest

from kbforge import registry
from kbforge.contracts import ConjugateLikelihood, Likelihood
from kbforge.errors import PluginError, UsageError
from kbforge.registry import checked
from kbforge.registry.options import PluginOption, bind_options, describe, parse_settings
from kbforge.testing import Categorical
from kbforge.version import DISTRIBUTION

WHO = 'the plugin "x" of kb-x 1.0'


class Bare:
    def log_marginal(self, clusters: Any) -> Any: ...


def test_a_class_has_its_base_class():
    assert checked(Categorical, "likelihoods", WHO) is Categorical
    says = "does not have the base class kbforge.contracts.Likelihood; derive Bare from it"
    with pytest.raises(PluginError, match=f"^{WHO} {says}"):
        checked(Bare, "likelihoods", WHO)
    with pytest.raises(PluginError, match="is a function, expected a class"):
        checked(lambda: Categorical(), "likelihoods", WHO)


class Half(ConjugateLikelihood):
    def log_marginal(self, clusters: Any) -> Any: ...


@pytest.mark.parametrize(
    ("kind", "plugin", "expected"),
    [
        ("likelihoods", object, r"log_marginal\(clusters\); .* kbforge.contracts.Likelihood says"),
        ("likelihoods", Half, r"live_clusters\(\)"),
        ("sources", object, r"read\(inputs, on_bad\); define it as kbforge.contracts.Source says"),
        ("clusterers", object, r"cluster\(fragments, spec, rng, on_step\)"),
        ("calibrators", object, r"calibrate\(fragments, spec, clusterer, search, rng"),
        ("serializers", object, r"(parse|serialize)\("),
        ("exporters", object, r"export\("),
    ],
)
def test_a_method_that_the_contract_needs_is_asked_for(kind, plugin, expected):
    with pytest.raises(PluginError, match=f"^{WHO} has no method .*{expected}"):
        checked(plugin, kind, WHO)


@pytest.mark.parametrize(
    ("base", "members", "says"),
    [
        (Likelihood, {"explains": True}, "states explains = True; define contributions"),
        (Likelihood, {"contributions": print}, "defines contributions; .* explains = True"),
        (Likelihood, {"keeps": True, "dump": print}, "define load"),
    ],
)
def test_an_ability_and_its_methods_come_together(base, members, says):
    with pytest.raises(TypeError, match=f"Mine .*{says}"):
        type(base)("Mine", (base,), members)


# What a plugin says of itself, and that ours say all of it.


OURS = [
    pytest.param(p.kind, p.name, id=f"{p.kind}-{p.name}")
    for p in registry.installed()
    if p.distribution == DISTRIBUTION and p.kind != "commands"
]


@pytest.mark.parametrize(("kind", "name"), OURS)
def test_every_option_of_our_plugins_is_documented(kind, name):
    summary, options = describe(registry.load(kind, name))
    assert len(summary) > 10
    assert [option.name for option in options if not option.help] == []


class Many:
    """Has options
    of many types.

    Args:
        size: how many
            at once.

    """

    def __init__(
        self,
        size: int,
        names: tuple[str, ...] = ("a", "b"),
        way: Literal["up", "down"] | None = None,
        path: Path | None = None,
        sure: bool = True,
        free: Any = "x",
    ) -> None: ...


class More(Many):
    """Has another option.

    Args:
        sure: or not
        depth: how deep

    """

    def __init__(self, depth: int = 3, **many: Any) -> None: ...


def test_a_constructor_with_options_of_its_base_takes_those():
    _, options = describe(More)
    assert [option.name for option in options] == [
        *("size", "names", "way", "path", "sure", "free", "depth")
    ]
    helps = {option.name: option.help for option in options}
    assert helps == {
        **dict.fromkeys(("names", "way", "path", "free"), ""),
        "size": "how many at once.",
        "sure": "or not",
        "depth": "how deep",
    }
    assert bind_options(More, "more", {"size": "2", "depth": "1"}) == {"size": 2, "depth": 1}
    with pytest.raises(UsageError, match="more needs the option size"):
        bind_options(More, "more", {"depth": "1"})


def test_types_and_defaults_are_shown_as_set_takes_them():
    summary, options = describe(Many)
    assert summary == "Has options of many types."
    assert options == [
        PluginOption("size", "int", None, "how many at once."),
        PluginOption("names", "tuple[str, ...]", "a,b", ""),
        PluginOption("way", "up | down | none", "none", ""),
        PluginOption("path", "Path | none", "none", ""),
        PluginOption("sure", "bool", "true", ""),
        PluginOption("free", "Any", "x", ""),
    ]


# Options: text and TOML values become what the constructor's annotations say.


class Plugin:
    def __init__(
        self,
        whole: int = 1,
        number: float = 0.5,
        flag: bool = False,
        text: str = "",
        path: Path = Path(),
        choice: Literal["a", "b", 3] = "a",
        maybe: float | None = None,
        either: int | str = 0,
        many: tuple[str, ...] = (),
        pair: tuple[int, float] = (0, 0.0),
        listed: list[int] | None = None,
        anything: Any = None,
    ) -> None: ...


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("whole", "7", 7),
        ("whole", 7, 7),
        ("whole", "-7", -7),
        ("number", "2", 2.0),
        ("number", 2, 2.0),
        ("number", "1e-3", 0.001),
        ("number", "inf", math.inf),
        ("flag", "yes", True),
        ("flag", "OFF", False),
        ("flag", True, True),
        ("text", "7", "7"),
        ("text", "", ""),
        ("path", "a/b", Path("a/b")),
        ("choice", "b", "b"),
        ("choice", "3", 3),
        ("maybe", "none", None),
        ("maybe", "0.5", 0.5),
        ("either", "7", 7),
        ("either", "seven", "seven"),
        ("many", "a,b", ("a", "b")),
        ("many", ["a", "b"], ("a", "b")),
        ("pair", "1,2", (1, 2.0)),
        ("listed", "1,2", [1, 2]),
        ("anything", "x", "x"),
    ],
)
def test_conversion(option, value, expected):
    bound = bind_options(Plugin, "thing p", {option: value})
    assert bound == {option: expected}
    assert type(bound[option]) is type(expected)


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("whole", "7.5", "thing p: whole: expected a whole number, got 7.5"),
        ("whole", 7.5, "thing p: whole: expected a whole number, got 7.5"),
        ("whole", True, "thing p: whole: expected a whole number, got True"),
        ("number", 10**400, "thing p: number: expected a number, got 1000"),
        ("number", "many", "thing p: number: expected a number, got many"),
        ("number", "nan", "thing p: number: expected a number, got nan"),
        ("flag", "maybe", "thing p: flag: expected true or false, got maybe"),
        ("text", ["a"], "thing p: text: expected str, got ['a']"),
        ("choice", "c", "thing p: choice: expected one of a, b, 3, got c"),
        ("maybe", "x", "thing p: maybe: expected a number, got x"),
        ("many", 3, "thing p: many: expected a list, got 3"),
        ("pair", "1,2,3", "thing p: pair: expected 2 values, got 3"),
        ("colour", "x", 'thing p has no option "colour"; options: whole, number, flag,'),
    ],
)
def test_a_wrong_value_is_one_sentence(option, value, message):
    with pytest.raises(UsageError) as error:
        bind_options(Plugin, "thing p", {option: value})
    assert str(error.value).startswith(message)


def test_a_plugin_without_a_constructor_has_no_options():
    assert bind_options(Bare, "thing p", {}) == {}
    with pytest.raises(UsageError, match="options: none"):
        bind_options(Bare, "thing p", {"a": 1})


def test_settings_go_to_their_kinds():
    found = parse_settings(["thing.a-b=1", "thing.c=x=y", "other.d="], ["thing", "other"])
    assert found == {"thing": {"a_b": "1", "c": "x=y"}, "other": {"d": ""}}


@pytest.mark.parametrize("setting", ["a=1", "thing.=1", "thing.a", "", "=", "sauce.a=1"])
def test_a_wrong_setting_is_quoted(setting):
    with pytest.raises(UsageError, match="--set"):
        parse_settings([setting], ["thing"])
