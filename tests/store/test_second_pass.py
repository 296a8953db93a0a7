"""Identity as evidence in stores: the first fill takes two passes, and later fragments are read by
the names that it found."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import orjson
import pytest

from kbforge.contracts import Fragment, Interrupted, LearnedState, Progress
from kbforge.errors import ModelError
from kbforge.files.fragments import to_line
from kbforge.fit.choices import RunOptions
from kbforge.fit.description import Renaming
from kbforge.jobs.cluster import cluster
from kbforge.jobs.decide import decide, decisions_of
from kbforge.jobs.models import restore
from kbforge.jobs.refit import refit
from kbforge.jobs.remove import erase
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.database import Database
from kbforge.store.store import Store
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.fit.test_identity import one, world
from tests.jobs.killing import dies_at
from tests.jobs.test_killed import copy, left_of
from tests.store.dump import dump

WORLD = world()
NEW = [
    one("new 1", "text new", "C. Bauer", employer="Lublin University"),
    one("new 2", "text new", "Lublin University", city="Lublin"),
    one("new 3", "text newer", "Clara Bauer", employer="University of Lublin"),
]


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("second") / "filled.sqlite"
    made = add_fragments(str(path), WORLD, RunOptions())
    assert any(note.startswith("second pass: ") for note in made.notes)
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    copy(filled, tmp_path / "kb.sqlite")
    return tmp_path / "kb.sqlite"


def model_of(path: Path) -> Pairs:
    with Database(str(path)) as database:
        likelihood = restore(Store(database))[0].models.likelihood
    assert isinstance(likelihood, Pairs)
    return likelihood


def renaming_of(path: Path) -> Renaming | None:
    told = model_of(path).dump().values.get("renaming")
    return None if told is None else Renaming.from_json(told)


def test_the_first_fill_groups_as_a_file_is_grouped(path: Path) -> None:
    wanted = {frozenset(e.fragments) for e in cluster(WORLD, RunOptions()).entities}
    assert {frozenset(e.fragments) for e in entities_of(str(path))} == wanted
    with Database(str(path)) as database:
        assert list(Store(database).fragments()) == WORLD  # as they were stated


def test_a_new_fragment_is_read_by_what_its_values_name(path: Path, tmp_path: Path) -> None:
    def score(model: Pairs, employer: str) -> float:
        held = one("x", "text x", "Emil Graf", employer="University of Gdansk")
        came = one("y", "text y", "E. Graf", employer=employer)
        return float(model.log_marginal([[held, came]])[0])

    model = model_of(path)
    assert score(model, "Gdansk University") == score(model, "University of Gdansk")
    assert score(model, "Gdansk University") > score(model, "Torun University")
    other = tmp_path / "one pass.sqlite"
    add_fragments(str(other), WORLD, RunOptions(refers="none"))
    model = model_of(other)
    assert score(model, "Gdansk University") < score(model, "University of Gdansk")


def test_an_interrupted_update_goes_on(path: Path, tmp_path: Path) -> None:
    whole = tmp_path / "whole.sqlite"
    copy(path, whole)
    add_fragments(str(whole), NEW, RunOptions())

    def stop(progress: Progress) -> None:
        if progress.fragments == 2:
            raise Interrupted

    assert add_fragments(str(path), NEW, RunOptions(), on_step=stop).added == 2
    add_fragments(str(path), NEW, RunOptions())
    assert dump(path) == dump(whole)


def fill(path: str) -> None:
    add_fragments(path, WORLD, RunOptions())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked")
def test_a_killed_fill_given_again_ends_the_same(filled: Path, tmp_path: Path) -> None:
    killed, wanted = 0, dump(filled)
    while dies_at(killed + 1, fill, str(tmp_path / f"{killed}.sqlite")):
        fill(str(tmp_path / f"{killed}.sqlite"))
        assert dump(tmp_path / f"{killed}.sqlite") == wanted
        killed += 1
    assert killed >= 3


def test_an_interrupted_second_pass_stores_nothing(path: Path, tmp_path: Path) -> None:
    steps = list[Progress]()
    cluster(WORLD, RunOptions(refers="none"), on_step=steps.append)
    left = len(steps)

    def stop(progress: Progress) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise Interrupted

    other = tmp_path / "other.sqlite"
    assert add_fragments(str(other), WORLD, RunOptions(), on_step=stop).fragments == 0
    fill(str(other))
    assert dump(other) == dump(path)


def test_names_are_found_again_when_models_learn_again(path: Path) -> None:
    lines = [to_line(x).decode().replace("Lublin", "Rzeszow") for x in WORLD if "ublin" in str(x)]
    others = [Fragment.from_json(orjson.loads(line), "here") for line in lines]
    others = [replace(x, id=f"{x.id} again", source=f"{x.source} again") for x in others]
    add_fragments(str(path), others, RunOptions())
    before = renaming_of(path)
    refit(str(path))
    found = renaming_of(path)
    assert before is not None
    assert found is not None
    assert not any("rzeszow" in name for name in before.names)
    assert any("rzeszow" in name for name in found.names)
    again = dump(path)
    refit(str(path))
    assert dump(path) == again


def test_decisions_teach_a_model_that_learns_again_with_one_pass(path: Path) -> None:
    decide(str(path), decisions_of([("different", "p0", "o0")]))
    assert renaming_of(path) is not None  # until then
    refit(str(path))
    assert renaming_of(path) is None


def test_an_erasure_leaves_no_name_behind(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    secret = [
        one("id-verysecret", "text 0", "Secretname Verein", city="Lublin"),
        one("p-verysecret", "text 0", "Anna Abel", employer="Secretname Verein"),
    ]
    add_fragments(str(path), [*WORLD, *secret], RunOptions())
    assert left_of(path, [b"verysecret", b"ecretname"])
    erase(str(path), [x.id for x in secret])
    assert left_of(path, [b"verysecret", b"ecretname"]) == []
    assert renaming_of(path) is not None


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        [["a"], {}],
        [["a"], {"b": 1}, {}],
        [[1], {}, {}],
        [["a"], {}, {"x": {"b": None}}],
        [["a"], {}, {"x": "b"}],
        {"a": 1},
    ],
)
def test_damaged_names_are_one_sentence(damaged: object, path: Path) -> None:
    model = model_of(path)
    kept = model.dump()
    with pytest.raises(ModelError, match="names of values are damaged"):
        model.load(LearnedState({**kept.values, "renaming": damaged}, kept.arrays))


def test_a_fragment_is_read_by_its_own_text_first() -> None:
    renaming = Renaming(
        frozenset({"member", "home"}), {"eu": "union"}, {"x": {"eu": "eu", "un": "nations"}}
    )
    x = Fragment("x", {"name": ("EU",), "member": ("EU", "UN", "Union"), "motto": ("EU",)})
    y = Fragment("y", {"member": ("EU", "Union", "UN"), "home": ("Eu",)})
    assert renaming.of(x).properties == {**x.properties, "member": ("EU", "nations", "Union")}
    assert renaming.of(y).properties == {"member": ("union", "Union", "UN"), "home": ("union",)}
    assert Renaming.from_json(renaming.to_json()) == renaming
