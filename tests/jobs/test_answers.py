"""What people answered holds in the result of a clustering, or a note says why not."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

import kbforge
from kbforge.errors import NotFoundError
from kbforge.files.answers import Answer, QuestionDetails
from kbforge.fit.choices import RunOptions
from kbforge.jobs.cluster import KnowledgeBase
from kbforge.jobs.decide import undo
from kbforge.jobs.refit import refit
from kbforge.jobs.update import add_fragments
from kbforge.jobs.views import entities_of
from kbforge.store.database import Database
from kbforge.store.store import Store
from tests.people import people
from tests.profile import examples

PEOPLE = people(9, 3)
IDS = [one.id for one in PEOPLE]
ESTIMATES = ("map", "binder", "vi")

Said = tuple[str, str, bool | None]


def write(path: Path, said: Sequence[Said]) -> Path:
    asked = QuestionDetails(1, "informative", 0.5, 0.5)
    path.write_bytes(b"".join(Answer(*one, asked, "0" * 64).to_line() for one in said))
    return path


def homes(kb: KnowledgeBase) -> dict[str, int]:
    return {id: at for at, entity in enumerate(kb.entities) for id in entity.fragments}


def clustered(path: Path, said: Sequence[Said], estimate: str = "map") -> KnowledgeBase:
    return kbforge.cluster(
        PEOPLE, likelihood="attributes", alpha=5.0, answers=write(path, said), estimate=estimate
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "answers.jsonl"


@given(seed=st.integers(0, 10**9), count=st.integers(1, 14), estimate=st.sampled_from(ESTIMATES))
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_answers_that_can_all_hold_do(path: Path, seed: int, count: int, estimate: str) -> None:
    """Whatever they say: the truth is a random grouping, and what follows from them holds, too."""
    rng = random.Random(seed)
    group = {id: rng.randrange(6) for id in IDS}
    pairs = rng.sample(list(itertools.combinations(IDS, 2)), count)
    said: list[Said] = [(a, b, group[a] == group[b]) for a, b in pairs]
    kb = clustered(path, said, estimate)
    home = homes(kb)
    assert [one for one in said if (home[one[0]] == home[one[1]]) != one[2]] == []
    assert not any("contradicts" in note for note in kb.notes)


@given(seed=st.integers(0, 10**9), estimate=st.sampled_from(ESTIMATES))
@examples(40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_an_answer_holds_or_a_note_says_what_it_contradicts(
    path: Path, seed: int, estimate: str
) -> None:
    rng = random.Random(seed)
    few = rng.sample(IDS, 6)
    said: list[Said] = [(*rng.sample(few, 2), rng.random() < 0.5) for _ in range(9)]
    kb = clustered(path, said, estimate)
    home, notes = homes(kb), "\n".join(kb.notes)
    broken = [n for n, (a, b, same) in enumerate(said, 1) if (home[a] == home[b]) != same]
    for number in broken:
        assert f"and answer {number} does not" in notes
    assert len(said) not in broken, "the last answer always holds"


def test_of_answers_that_contradict_each_other_the_later_one_holds(path: Path) -> None:
    a, b, c = IDS[:3]
    kb = clustered(path, [(a, b, True), (b, c, True), (c, a, False), (a, c, None)])
    home = homes(kb)
    assert home[b] == home[c] != home[a]
    (note,) = (note for note in kb.notes if "contradicts" in note)
    assert note == (
        f'answer 3 (different "{c}" "{a}") contradicts answer 2 (same "{b}" "{c}"), '
        f'answer 1 (same "{a}" "{b}"); the later one holds, and answer 1 does not'
    )


def test_many_contradictions_are_counted(path: Path) -> None:
    a, b = IDS[:2]
    kb = clustered(path, [(a, b, True)] * 500 + [(a, b, False)] * 2)
    assert homes(kb)[a] != homes(kb)[b]
    notes = [note for note in kb.notes if "contradict" in note]
    assert len(notes) == 7
    assert notes[-1] == "494 more contradict later ones and do not hold"


def test_an_answer_does_not_break_a_link(path: Path) -> None:
    linked = [replace(x, source="one" if at % 2 else "two") for at, x in enumerate(PEOPLE)]
    a, b, c = (linked[at].id for at in (0, 2, 1))
    kb = kbforge.cluster(
        linked,
        likelihood="attributes",
        alpha=5.0,
        link="source",
        answers=write(path, [(a, b, True), (a, c, True)]),
        estimate="binder",
    )
    sources = {x.id: x.source for x in linked}
    assert homes(kb)[a] == homes(kb)[c] != homes(kb)[b]
    for entity in kb.entities:
        assert len({sources[id] for id in entity.fragments}) == len(entity.fragments)
    (note,) = (note for note in kb.notes if "does not" in note)
    assert note.endswith("the later one holds, and answer 1 does not")
    assert 'have the same "source" and cannot be one entity' in note


def test_a_session_honours_answers_before_and_after_their_fragments_come(path: Path) -> None:
    a, b = IDS[0], IDS[-1]
    live = kbforge.open_session(PEOPLE, alpha=5.0, answers=write(path, [(a, b, True)]))
    live.add(PEOPLE[:-1])
    assert live.knowledge_base().posterior.n_fragments == len(PEOPLE) - 1
    live.add(PEOPLE[-1:])
    home = homes(live.knowledge_base())
    assert home[a] == home[b]


# --- a store has answers as decisions -------------------------------------------------------------


def in_store(store: Path) -> dict[str, int]:
    return {id: at for at, entity in enumerate(entities_of(str(store))) for id in entity.fragments}


def test_a_new_store_takes_answers_as_decisions(tmp_path: Path, path: Path) -> None:
    """They hold at once and later, are listed, and can be undone; the file is not needed again."""
    store, (a, b, c, *_, last) = tmp_path / "kb.sqlite", IDS
    choices = RunOptions(likelihood="attributes", alpha=5.0)
    said = write(path, [(a, b, True), (b, c, False), (a, last, True), (c, last, None)])
    made = add_fragments(str(store), PEOPLE, replace(choices, answers=str(said)))
    home = in_store(store)
    assert home[a] == home[b] == home[last] != home[c]
    assert not any("hold" in note for note in made.notes)
    again = add_fragments(str(store), PEOPLE, replace(choices, answers=str(said)))
    assert (again.run, again.added) == (made.run, 0)
    said.unlink()
    refit(str(store))
    home = in_store(store)
    assert home[a] == home[b] == home[last] != home[c]
    undo(str(store), 2)
    with Database(str(store)) as database:
        decided = [(one.decision.same, one.undone is None) for one in Store(database).decisions()]
    assert decided == [(True, True), (False, False), (True, True)]


def test_answers_reach_fragments_that_are_there_and_that_come(tmp_path: Path, path: Path) -> None:
    store, (a, b, *_, last) = tmp_path / "kb.sqlite", IDS
    add_fragments(str(store), PEOPLE[:-1], RunOptions(likelihood="attributes", alpha=5.0))
    said = write(path, [(a, b, True), (a, last, True), (b, last, False)])
    added = add_fragments(str(store), PEOPLE[-1:], RunOptions(answers=str(said)))
    home = in_store(store)
    assert (home[a] == home[b], home[b] == home[last]) in {(True, False), (False, False)}
    assert home[a] == home[last]
    (note,) = (note for note in added.notes if "contradicts" in note)
    assert note.endswith("the later one holds, and answer 1 does not")
    contrary = write(path, [(a, last, False)])
    (note,) = add_fragments(str(store), [], RunOptions(answers=str(contrary))).notes[-1:]
    assert note == (
        f'answer 1 does not hold: decision 3 (different "{a}" "{last}") contradicts decision 1 '
        f'(same "{a}" "{last}"); kbforge decide STORE --undo NUMBER withdraws a decision'
    )
    with pytest.raises(NotFoundError, match='has no fragment "nobody"'):
        add_fragments(str(store), [], RunOptions(answers=str(write(path, [(a, "nobody", True)]))))
