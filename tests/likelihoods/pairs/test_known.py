"""What is known about names in general: what two names say beyond their letters."""

import json
from importlib.resources import files

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge_plugins.likelihoods.pairs.file import FEATURES, KNOWN_FEATURES, File


def told(one: str, other: str) -> dict[str, float]:
    """What is known of two names, the same whichever is first."""
    file, _ = File.fitted([Fragment(name, {"name": (name,)}) for name in (one, other)])
    i, j = np.array([0, len(file.counts) - 1]), np.array([len(file.counts) - 1, 0])
    there, back = file.describe(file.rows, i, file.rows, j)
    np.testing.assert_array_equal(there, back)
    known = dict(zip(FEATURES, there.tolist(), strict=True))
    return {feature: known[feature] for feature in KNOWN_FEATURES}


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
    assert told(short, long)["name short forms"] == does


@pytest.mark.parametrize("name", ["()", "ltd", "ltd ltd", "of", "a, " * 40, "x" * 120])
def test_any_name_can_be_read(name):
    assert not np.isinf([*told(name, "acme of the x").values(), *told(name, name).values()]).any()


def test_the_tables_say_where_they_are_from():
    text = files("kbforge_plugins.likelihoods.pairs").joinpath("known.json").read_text("utf-8")
    tables = json.loads(text)
    assert {one["table"]: one["licence"] for one in tables["origins"]} == {
        "legal forms": "MIT",
        "nicknames": "Apache-2.0",
    }
    assert tables["legal forms"] == sorted(set(tables["legal forms"]))
    assert list(tables["nicknames"]) == sorted(tables["nicknames"])
