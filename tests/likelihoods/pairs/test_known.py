"""What is known about names in general: what two names say beyond their letters."""

import json
import random
from importlib.resources import files

import numpy as np
import pytest
from rapidfuzz import fuzz

from kbforge.texts.kinds import normalised
from kbforge_plugins.likelihoods.pairs.known import (
    KNOWN_FEATURES,
    Reading,
    known_features,
    reading,
    shortens,
)
from kbforge_plugins.likelihoods.pairs.table import folded


def told(one: str, other: str) -> dict[str, float]:
    """What is known of two names, the same whichever is first."""
    a, b = (folded(normalised(name)) for name in (one, other))
    there, back = (np.array(known_features([x], [y]))[:, 0] for x, y in ((a, b), (b, a)))
    np.testing.assert_array_equal(there, back)
    return dict(zip(KNOWN_FEATURES, there.tolist(), strict=True))


@pytest.mark.parametrize(
    ("one", "other", "feature", "value"),
    [
        ("Bob Smith", "Smith, Robert", "nicknames agree", 1),
        ("Peggy Lee", "Margaret Lee", "nicknames agree", 1),
        ("James Smith", "Robert Smith", "nicknames agree", 0),
        ("Siemens AG", "Siemens", "core equal", 1),
        ("The Acme Company, Ltd.", "Acme Co. Limited", "core equal", 1),
        ("Maersk A/S", "Maersk", "core equal", 1),
        ("Gazprom OAO", "ОАО Gazprom", "core equal", 1),
        ("Marks & Spencer", "Marks and Spencer", "core equal", 1),
        ("Vitamin A", "Vitamin E", "core equal", 0),
        ("Acme Ltd", "Acme Limited", "legal forms agree", 1),
        ("Acme Ltd", "Acme GmbH", "legal forms agree", 0),
        ("Massachusetts Institute of Technology", "M.I.T.", "acronym of part", 2),
        ("Universidad de los Andes", "UA", "acronym of part", 2),
        ("Gesellschaft für Internationale Zusammenarbeit", "GIZ", "acronym of part", 2),
        ("School of Law, University of New South Wales, Sydney", "UNSW", "acronym of part", 2),
        ("MIT Media Lab", "Massachusetts Institute of Technology Media Lab", "acronym of part", 1),
        ("Massachusetts Institute of Technology", "MTI", "acronym of part", 0),
        ("Massachusetts Institute of Technology (MIT)", "MIT", "is tail", 1),
        ("Massachusetts Institute of Technology (MIT)", "IBM", "is tail", 0),
        ("MIT (Massachusetts Institute of Technology)", "M.I.T.", "is head", 1),
        ("Department of Physics, University of Oslo, Norway", "University of Oslo", "is tail", 1),
        ("Institut für Physik, Universität Wien, Wien", "Institut für Physik", "is head", 1),
        ("New York Times", "New York", "is head", 0),
        ("Henry IV", "Henry VI", "numbers agree", 0),
        ("Henry IV", "Henry the 4th", "numbers agree", 1),
        ("Third Avenue", "3rd Avenue", "numbers agree", 1),
        ("Section 3", "Section 04", "numbers agree", 0),
        ("Dept. Physics", "Department of Physics", "short forms", 1),
        ("Univ. Calif.", "University of California", "short forms", 2),
        ("St Louis", "Saint Louis", "short forms", 1),
    ],
)
def test_what_two_names_have_in_common(one, other, feature, value):
    assert told(one, other)[f"name {feature}"] == value


def test_nothing_is_said_of_what_a_name_does_not_have():
    known = told("Section 3", "Acme GmbH")
    assert all(
        np.isnan(known[f"name {feature}"])
        for feature in ("nicknames agree", "legal forms agree", "numbers agree", "part shared")
    )


@pytest.mark.parametrize(
    ("one", "other", "left"),
    [
        ("Bob Smith", "Robert Smyth", (0, 0)),
        ("B. Smith", "Robert Smith", (1, 1)),
        ("NHS England", "National Health Service England", (0, 3)),
        ("University of Oslo", "University of Bergen", (1, 1)),
    ],
)
def test_words_that_nothing_explains_are_counted(one, other, left):
    known = told(one, other)
    assert (
        known["name words unexplained least"],
        known["name words unexplained most"],
    ) == left


def test_a_part_is_shared_by_two_departments_of_one_institution():
    shared = told("University of California at Davis", "University of California at Irvine")
    other = told("University of California at Davis", "Institute of Physics at Irvine")
    assert shared["name part shared"] > 0.5 > other["name part shared"]


@pytest.mark.parametrize(
    ("short", "long", "does"),
    [
        *(("dept", "department", True), ("intl", "international", True), ("b", "bob", False)),
        *(("jon", "john", False), ("smth", "jones", False), ("dept", "departments", False)),
    ],
)
def test_abbreviations(short, long, does):
    assert shortens(short, long) == does


@pytest.mark.parametrize("name", ["", " ", "()", "ltd", "ltd ltd", "of", "a, " * 40, "x" * 120])
def test_any_name_can_be_read(name):
    known = np.array(known_features([name, name], ["acme of the x", name]))
    assert known.shape == (len(KNOWN_FEATURES), 2)
    assert not np.isinf(known).any()


def test_the_tables_say_where_they_are_from():
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    tables = json.loads(text)
    assert {one["table"]: one["licence"] for one in tables["origins"]} == {
        "legal forms": "MIT",
        "nicknames": "Apache-2.0",
    }
    assert tables["legal forms"] == sorted(set(tables["legal forms"]))
    assert list(tables["nicknames"]) == sorted(tables["nicknames"])


def nicknames() -> dict[str, set[str]]:
    """By given name, what it may be short for."""
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    known: dict[str, set[str]] = {}
    for name, short in json.loads(text)["nicknames"].items():
        for one in (name, *short):
            known.setdefault(one, {one}).add(name)
    return known


def plainly(a: Reading, b: Reading, known: dict[str, set[str]]) -> dict[str, float]:
    """The features of two readings that come from their words, one pair of words at a time."""
    only = a.words - b.words, b.words - a.words
    pairs = [(x, y) for x in only[0] for y in only[1]]
    pairs = pairs if len(pairs) <= 36 else []
    given = [bool(known[x] & known[y]) for x, y in pairs if x in known and y in known]
    short = {(x, y) for x, y in pairs if x[0] == y[0] and (shortens(x, y) or shortens(y, x))}
    met = {
        (x, y)
        for x, y in pairs
        if (x, y) in short
        or fuzz.ratio(x, y) >= 80
        or (x in known and y in known and known[x] & known[y])
    }
    left = [
        len(words - {pair[side] for pair in met} - other.runs)
        for side, (words, other) in enumerate(zip(only, (b, a), strict=True))
    ]
    made = [(bool(w & o.runs) + bool(w & o.acronyms)) for w, o in zip(only, (b, a), strict=True)]
    return {
        "name nicknames agree": float(any(given)) if given else np.nan,
        "name short forms": len(short),
        "name words unexplained least": min(left),
        "name words unexplained most": max(left),
        "name acronym of part": max(made),
    }


def test_many_pairs_of_names_are_compared_as_each_is():
    rng = random.Random(5)
    words = [
        *("bob", "robert", "peggy", "margaret", "al", "albert", "alfred", "jon", "john", "smith"),
        *("smyth", "dept", "department", "of", "physics", "phys", "university", "univ", "uop"),
        *("up", "oslo", "ua", "inc", "ltd", "ii", "2", "second", "b", "institute,", "national"),
    ]
    names = [" ".join(rng.choices(words, k=rng.randrange(9))) for _ in range(300)]
    one, other = (rng.choices(names, k=3000) for _ in range(2))
    found = dict(zip(KNOWN_FEATURES, known_features(one, other), strict=True))
    known = nicknames()
    expected = [plainly(reading(a), reading(b), known) for a, b in zip(one, other, strict=True)]
    for feature in expected[0]:
        np.testing.assert_array_equal(found[feature], [row[feature] for row in expected], feature)
        assert len(np.unique(found[feature])) > 1
