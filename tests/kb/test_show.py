"""Entities as people read them: panels on a terminal, plain lines elsewhere, data never obeyed."""

import io
from collections import Counter
from dataclasses import replace

import pytest
from rich.cells import cell_len
from rich.console import Console

from kbforge.contracts import Alternative, Entity, Meaning, Value
from kbforge.errors import counted, listed, percent
from kbforge.kb.edges import Surroundings
from kbforge.kb.show import grouping, outsiders, show

ADA = Entity(
    id="e-1",
    name="Ada Lovelace",
    properties={
        "born": (Value("1815", ("f2",)),),
        "name": (Value("Ada Lovelace", ("f1", "f2")), Value("Countess", ("f3",))),
    },
    fragments=("f1", "f2", "f3"),
    confidence=0.6,
    subproblem=4,
    alternatives=(
        Alternative(0.3, (("f1", "f2"), ("f3", "g1"))),
        Alternative(0.1, (("f1", "f2", "f3", "g1", "g2"),)),
    ),
)
HOSTILE = Entity(
    id="\x1b]0;owned\x07",
    name="[red]n[/red]\x1b[2J",
    properties={
        "a\x1b[31m[/]": (Value("[link=http://x]v[/link]\r\n\x9b" + "w" * 500, ("\x1b[1mf",)),)
    },
    fragments=("\x1b[1mf",),
    confidence=1.0,
    subproblem=0,
    alternatives=(Alternative(0.5, (("\x1b[1mf", "[bold]g"),)),),
)


def shown(entity, sources=None, terminal=False, width=80, around=None):
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=width, color_system=None)
    show([entity], sources or {}, console, around=around)
    return out.getvalue()


def test_values_in_question_say_how_probable_they_are():
    names = (Value("Ada Lovelace", ("f1", "f2"), 0.93), Value("Countess", ("f3",), 0.06))
    lines = shown(replace(ADA, properties={**ADA.properties, "name": names})).splitlines()
    assert lines[3:7] == [
        "  attribute  value         right  count  stated by",
        "  born       1815                     1  f2",
        "  name       Ada Lovelace   93 %      2  f1, f2",
        "             Countess        6 %      1  f3",
    ]


def test_plain_output_word_for_word():
    assert shown(ADA, {"f1": "a book"}) == (
        "Ada Lovelace (e-1)\n"
        "  3 fragments, confidence 60 % as reported, subproblem 4\n"
        "\n"
        "  attribute  value         count  stated by\n"
        "  born       1815              1  f2\n"
        "  name       Ada Lovelace      2  f1 (a book), f2\n"
        "             Countess          1  f3\n"
        "\n"
        "  other groupings, as reported\n"
        "    30 %  2 entities: f3 joined with g1 | f1, f2\n"
        "    10 %  joined with g1, g2\n"
        "\n"
    )


def test_a_value_that_names_an_entity_is_told_with_it():
    meanings = (Meaning("e-2", 0.75), Meaning("e-3", 0.25))
    values = (
        Value("Byron", ("f1",), meanings=meanings),
        Value("B.", ("f2",), meanings=meanings[:1]),
    )
    likely = replace(ADA, properties={"father": values}, alternatives=())
    around = Surroundings({"e-2": "Lord Byron"}, {"e-1": Counter({"child": 2, "friend": 1_400})})
    assert shown(likely, around=around) == (
        "Ada Lovelace (e-1)\n"
        "  3 fragments, confidence 60 % as reported, subproblem 4\n"
        "  stated as friend by 1,400, child by 2\n"
        "\n"
        "  attribute  value                                      count  stated by\n"
        "  father     Byron → Lord Byron (e-2) 75 % or e-3 25 %      1  f1\n"
        "             B. → Lord Byron (e-2) 75 %                     1  f2\n"
        "\n"
    )
    unlikely = (meanings[0], Meaning("e-3", 0.05))
    values = (Value("Byron", ("f1",), meanings=unlikely),)
    assert "75 %  " in shown(replace(likely, properties={"father": values}), around=around)


def test_calibrated_confidence_comes_first_and_the_raw_one_is_told():
    said = shown(replace(ADA, confidence=0.25, reported=0.6))
    assert "3 fragments, confidence 25 %, reported as 60 %, subproblem 4\n" in said


@pytest.mark.parametrize("width", [20, 40, 80, 120, 200])
def test_panels_fit_the_terminal(width):
    for entity in (ADA, HOSTILE):
        lines = shown(entity, terminal=True, width=width).splitlines()
        assert {cell_len(line) for line in lines} == {min(width, 120)}
        assert lines[0].startswith("╭")
        assert lines[-1].endswith("╯")


@pytest.mark.parametrize("terminal", [False, True])
def test_data_reach_the_terminal_escaped(terminal):
    text = shown(HOSTILE, {"\x1b[1mf": "[red]\x1b[0m"}, terminal, 120)
    assert all(c.isprintable() or c == "\n" for c in text)
    assert "[red]n[/red]\\x1b[2J" in text
    assert "[link=http://x]v[/link]" in text


def test_long_lists_are_cut_and_counted():
    values = tuple(Value(f"v{i}", (f"f{i}",)) for i in range(10))
    everything = Value("all", tuple(f"f{i}" for i in range(10)))
    entity = Entity("e", "x", {"a": (everything, *values)}, everything.fragments, 1.0, 0)
    text = shown(entity)
    assert "f0, f1, f2, f3 and 6 more" in text
    assert "5 more values" in text
    assert "no other grouping kept" in text


def test_vectors_are_shown():
    text = shown(Entity("e", "p", {}, ("p", "q"), 1.0, 0, vector=(0.25, -1e-9, 12345.678)))
    assert "mean vector  0.25, -1e-09, 12345.7      2" in text


@pytest.mark.parametrize(
    ("probability", "text"),
    [
        (0.0, "0 %"),
        (0.0099, "under 1 %"),
        (0.01, "1 %"),
        (0.65, "65 %"),
        (0.994, "99 %"),
        (0.9999, "over 99 %"),
        (1.0, "100 %"),
    ],
)
def test_percent(probability, text):
    assert percent(probability) == text


def test_words():
    assert counted(1, "fragment") == "1 fragment"
    assert counted(1_000, "fragment") == "1,000 fragments"
    assert listed(["a", "b"], 2) == "a, b"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
    apart = Alternative(0.1, (("f1",), ("f2",), ("f3",)))
    assert grouping(apart, ADA) == "3 entities: f1 | f2 | f3"
    two = Alternative(0.1, (("f1", "f2"), ("f3", "g1")))
    assert grouping(two, ADA, most=1) == "2 entities: f3 joined with g1 | the other 2"
    assert grouping(two, ADA, names={"g1": "Byron"}) == (
        "2 entities: f3 joined with Byron (g1) | f1, f2"
    )
    more = Alternative(0.1, (("f1", "f2", "f3", "g1", "g2", "g3"),))
    assert grouping(more, ADA, names={"g1": "Byron", "g3": "Byron"}) == (
        "joined with Byron (g1, g3), g2"
    )
    assert outsiders([ADA]) == {"g1", "g2"}
