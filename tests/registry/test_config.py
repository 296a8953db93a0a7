"""Options: text and TOML values become what the constructor's annotations say."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Literal

import pytest

from kbforge.errors import UsageError
from kbforge.registry.options import bind_options, parse_settings


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
def test_conversion(option: str, value: object, expected: object) -> None:
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
def test_a_wrong_value_is_one_sentence(option: str, value: object, message: str) -> None:
    with pytest.raises(UsageError) as error:
        bind_options(Plugin, "thing p", {option: value})
    assert str(error.value).startswith(message)


def test_an_option_without_default_is_needed() -> None:
    class Needs:
        def __init__(self, size: int) -> None: ...

    with pytest.raises(UsageError, match="thing p needs the option size"):
        bind_options(Needs, "thing p", {})


def test_a_plugin_without_a_constructor_has_no_options() -> None:
    class Bare: ...

    assert bind_options(Bare, "thing p", {}) == {}
    with pytest.raises(UsageError, match="options: none"):
        bind_options(Bare, "thing p", {"a": 1})


def test_settings_go_to_their_kinds() -> None:
    found = parse_settings(["thing.a-b=1", "thing.c=x=y", "other.d="], ["thing", "other"])
    assert found == {"thing": {"a_b": "1", "c": "x=y"}, "other": {"d": ""}}


@pytest.mark.parametrize("setting", ["a=1", "thing.=1", "thing.a", "", "=", "sauce.a=1"])
def test_a_wrong_setting_is_quoted(setting: str) -> None:
    with pytest.raises(UsageError, match="--set"):
        parse_settings([setting], ["thing"])
