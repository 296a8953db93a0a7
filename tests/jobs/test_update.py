"""Fragments come into a store: in pieces, changed, refused; and its models can be read again."""

from __future__ import annotations

import sqlite3
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from kbforge import registry
from kbforge.contracts import Fragment, Interrupted, LearnedState, Progress
from kbforge.errors import KBForgeError, LikelihoodError, ModelError, OutputError, UsageError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.confidence import write_confidence
from kbforge.jobs.refit import refit
from kbforge.jobs.report import status_of
from kbforge.jobs.update import UpdateResult, add_fragments
from kbforge.jobs.views import entities_of, view_of
from kbforge.store.database import Database
from kbforge.store.pages import kept_from_bytes
from kbforge.store.store import Store, kept_row
from kbforge.store.tables import insert_rows, write_rows
from tests.likelihoods.test_kept_whole import spellings
from tests.people import people
from tests.registry.distributions import Distribution, forget
from tests.store.dump import dump

ATTRIBUTES = RunOptions(likelihood="attributes", alpha=30.0)


def exported(store: Path) -> list[dict[str, object]]:
    return [entity.to_json() for entity in entities_of(str(store))]


def made(path: Path, fragments: list[Fragment], choices: RunOptions = ATTRIBUTES) -> UpdateResult:
    return add_fragments(str(path), fragments, choices)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("likelihood", "pieces"),
    [("attributes", 7), ("attributes", 100), ("pairs", 7), ("names", 7), ("bigram", 7)],
)
def test_pieces_give_the_same_bytes(tmp_path: Path, likelihood: str, pieces: int) -> None:
    found = people(60, 2)
    first, rest = found[:60], found[60:160]
    whole, parts = tmp_path / "whole.sqlite", tmp_path / "parts.sqlite"
    for path in (whole, parts):
        made(path, first, RunOptions(likelihood=likelihood, alpha=20.0))
    made(whole, rest, RunOptions())
    size = -(-len(rest) // pieces)
    for start in range(0, len(rest), size):
        made(parts, rest[start : start + size], RunOptions())
    assert exported(parts) == exported(whole)
    kept = ("page", "led", "entity", "fragment", "kept")
    same = [[line for line in dump(path) if line.startswith(kept)] for path in (whole, parts)]
    assert same[0] == same[1]


def test_the_default_is_chosen_once_and_kept(tmp_path: Path) -> None:
    path, found = tmp_path / "kb.sqlite", people(60, 4)
    first = made(path, found[:100], RunOptions())
    then = made(path, found[100:], RunOptions())
    assert (first.likelihood, first.alpha) == (then.likelihood, then.alpha)
    assert first.notes
    assert not then.notes
    assert then.fragments == len(found)
    entities = list(entities_of(str(path)))
    assert sorted(id for entity in entities for id in entity.fragments) == sorted(
        fragment.id for fragment in found
    )
    assert all(entity.reported is not None for entity in entities)


def test_the_exponent_of_sizes_is_kept(tmp_path: Path) -> None:
    found, powered = people(60, 4), replace(ATTRIBUTES, size_exponent=0.5)
    path, whole = tmp_path / "kb.sqlite", tmp_path / "whole.sqlite"
    first = made(path, found[:100], powered)
    assert first.summary()["size_exponent"] == 0.5
    then = made(path, found[100:], RunOptions())
    assert then.size_exponent == 0.5
    made(whole, found[:100], powered)
    made(whole, found[100:], powered)
    assert exported(path) == exported(whole)
    assert status_of(str(path)).size_exponent == 0.5
    provenance = next(entities_of(str(path))).made
    assert provenance is not None
    assert provenance.to_json()["size_exponent"] == 0.5
    with pytest.raises(UsageError, match=r"size-exponent: .* was made with 0\.5, got 1\.0"):
        made(path, found, RunOptions(size_exponent=1.0))
    refit(str(path))
    assert status_of(str(path)).size_exponent == 0.5


def test_what_is_there_is_passed_over(tmp_path: Path) -> None:
    path, found = tmp_path / "kb.sqlite", people(30, 1)
    made(path, found)
    before = dump(path)
    again = made(path, found, RunOptions())
    assert (again.added, again.skipped) == (0, len(found))
    changed = [line for line in dump(path) if line not in before]
    assert {line.split()[0] for line in changed} <= {"run", "meta"}


def test_other_content_is_refused_before_anything_is_taken_in(tmp_path: Path) -> None:
    path, found = tmp_path / "kb.sqlite", people(30, 1)
    made(path, found[:50])
    before = dump(path)
    other = Fragment(found[3].id, {"name": ("someone else",)})
    with pytest.raises(UsageError, match=r"--set store\.on-duplicate=replace"):
        made(path, [*found[50:60], other], RunOptions())
    assert dump(path) == before


def test_one_that_replaces_takes_the_place_of_the_other(tmp_path: Path) -> None:
    path, found = tmp_path / "kb.sqlite", people(30, 1)
    made(path, found)
    other = Fragment(found[0].id, {"name": ("someone else",)}, source="correction")
    taken = add_fragments(str(path), [other], RunOptions(), on_duplicate="replace")
    assert (taken.added, taken.replaced, taken.fragments) == (1, 1, len(found))
    assert exported(path)[0]["fragments"] == [other.id]
    view = view_of(str(path))
    entity = next(view.entities())
    assert list(view.fragments(entity)) == [other]


def test_fragments_come_by_place_wherever_they_were_replaced(tmp_path: Path) -> None:
    path, found = tmp_path / "kb.sqlite", people(20, 1)
    made(path, found)
    for k in (7, 3, 12, 3, len(found) - 1):
        found[k] = Fragment(found[k].id, {"name": (f"someone else {k}",)})
        add_fragments(str(path), [found[k]], RunOptions(), on_duplicate="replace")
    with Database(str(path)) as database:
        assert [one.id for one in Store(database).fragments()] == [one.id for one in found]


@pytest.mark.parametrize(
    ("given", "option"),
    [
        (RunOptions(likelihood="bigram"), "--likelihood"),
        (RunOptions(alpha=31.0), "--alpha"),
        (RunOptions(particles=7), "--set particles"),
        (RunOptions(link="source"), "--link"),
        (RunOptions(options={"likelihood": {"attributes": "name"}}), "--set"),
    ],
)
def test_other_choices_are_refused(tmp_path: Path, given: RunOptions, option: str) -> None:
    path, found = tmp_path / "kb.sqlite", people(20, 1)
    made(path, found[:40])
    with pytest.raises(UsageError, match=f"{option}: .*leave the option out"):
        made(path, found[40:], given)
    made(path, found[40:], ATTRIBUTES)


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    found = people(60, 6)
    one_by_one = replace(ATTRIBUTES, clusterer="split-smc")
    whole, stopped = tmp_path / "whole.sqlite", tmp_path / "stopped.sqlite"
    made(whole, found, one_by_one)

    def stop(progress: Progress) -> None:
        if progress.fragments == 41:
            raise Interrupted

    taken = add_fragments(str(stopped), found, one_by_one, on_step=stop)
    assert (taken.complete, taken.added, taken.run) == (False, 41, 1)
    rest = add_fragments(str(stopped), found, one_by_one)
    assert (rest.complete, rest.skipped, rest.run) == (True, 41, 1)
    assert dump(stopped) == dump(whole)


def test_an_interrupted_file_is_clustered_again(tmp_path: Path) -> None:
    found = people(60, 6)
    whole, stopped = tmp_path / "whole.sqlite", tmp_path / "stopped.sqlite"
    made(whole, found)

    def stop(progress: Progress) -> None:
        assert progress.rounds is not None
        raise Interrupted

    taken = add_fragments(str(stopped), found, ATTRIBUTES, on_step=stop)
    assert (taken.complete, taken.added, taken.fragments) == (False, 0, 0)
    rest = add_fragments(str(stopped), found, ATTRIBUTES)
    assert (rest.complete, rest.added, rest.skipped, rest.run) == (True, len(found), 0, 1)
    assert dump(stopped) == dump(whole)


def test_a_fragment_that_is_refused_leaves_those_before_it(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    points = [Fragment(f"p{k}", {}, vector=(float(k), 0.0)) for k in range(6)]
    bad = Fragment("bad", {}, vector=(1.0, 2.0, 3.0))
    made(path, points[:3], RunOptions(likelihood="gaussian"))
    with pytest.raises(LikelihoodError, match="bad"):
        made(path, [points[3], bad, points[4]], RunOptions())
    taken = made(path, points, RunOptions())
    assert (taken.skipped, taken.fragments) == (4, 6)


def test_a_full_disk_keeps_what_was_committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, path, found = tmp_path / "whole.sqlite", tmp_path / "kb.sqlite", people(80, 7)
    for store in (whole, path):
        made(store, found[:60])
    made(whole, found[60:], RunOptions())
    opened = Database._opened

    def nearly_full(self: Database) -> object:
        connection = opened(self)
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages + 2}")
        return connection

    monkeypatch.setattr(Database, "_opened", nearly_full)
    monkeypatch.setattr("kbforge.jobs.opening.COMMIT_FRAGMENTS", 20)
    with pytest.raises(OutputError, match="free some space"):
        made(path, found[60:], RunOptions())
    monkeypatch.undo()
    rest = made(path, found[60:], RunOptions())
    assert rest.complete
    assert dump(path) == dump(whole)


def test_vectors_and_likelihoods_that_keep_nothing(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    points = [Fragment(f"p{k}", {}, vector=(float(k % 3) * 9, k / 100)) for k in range(30)]
    made(path, points[:20], RunOptions())
    made(path, points[20:], RunOptions())
    assert [len(entity.fragments) for entity in entities_of(str(path))] == [10, 10, 10]


def test_choices_that_are_objects_are_refused(tmp_path: Path) -> None:
    from kbforge_plugins.likelihoods.names import Names

    with pytest.raises(UsageError, match="a store keeps names"):
        made(tmp_path / "kb.sqlite", people(10, 1), RunOptions(likelihood=Names(), alpha=2.0))


def test_a_store_that_is_damaged_is_told(tmp_path: Path) -> None:
    path, found = tmp_path / "kb.sqlite", people(20, 1)
    made(path, found[:40])
    with Database(str(path), write=True) as database:
        database.transaction(lambda rows: rows.execute("UPDATE kept SET content = x'00'"))
    with pytest.raises(KBForgeError, match="damaged"):
        made(path, found[40:], RunOptions())


def test_linked_fragments_stay_apart(tmp_path: Path) -> None:
    path = tmp_path / "kb.sqlite"
    found = [
        Fragment(f"{source}-{k}", {"name": ("ann lee",), "born": ("1928-03-14",)}, source=source)
        for source in ("a", "b")
        for k in range(2)
    ]
    made(path, [*people(30, 1), *found[:3]], RunOptions(likelihood="attributes", link="source"))
    made(path, found[3:], RunOptions())
    with Database(str(path)) as database:
        assert Store(database).pages.totals.constraints.link == "source"
    for entity in entities_of(str(path)):
        sources = [id[0] for id in entity.fragments if id[0] in "ab"]
        assert len(set(sources)) == len(sources)


@pytest.mark.slow
def test_a_store_of_many_spellings_by_pairs_is_opened_and_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    found = spellings(2100, 1)
    choices = RunOptions(likelihood="pairs", alpha=1e9)
    add_fragments(path, found[:2050], choices)
    assert add_fragments(path, found[2050:], RunOptions()).fragments == 2100
    assert len({id for entity in entities_of(path) for id in entity.fragments}) == 2100


STRANGERS = """
from kbforge.contracts import LearnedState
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs

class Lossy(Pairs):
    def dump(self):
        kept = super().dump()
        sizes = kept.arrays["table/trigrams/sizes"].copy()
        sizes[-1] -= 1
        return LearnedState(kept.values, {**kept.arrays, "table/trigrams/sizes": sizes})

class Changing(Pairs):
    asked = 0

    def dump(self):
        kept = super().dump()
        Changing.asked += 1
        facts = kept.arrays["facts"] + Changing.asked
        return LearnedState(kept.values, {**kept.arrays, "facts": facts})
"""


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("Lossy", "likelihood Lossy cannot read what it keeps, so no store"),
        ("Changing", "likelihood Changing reads something else than it keeps"),
    ],
)
def test_what_cannot_be_read_back_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    entry = {"kbforge.likelihoods": {name: f"strange_pairs:{name}"}}
    Distribution("strange", "1.0", entry, {"strange_pairs": STRANGERS}).write(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    forget(registry)
    path = tmp_path / "kb.sqlite"
    try:
        with pytest.raises(ModelError, match=said):
            add_fragments(str(path), people(20, 1), RunOptions(likelihood=name, alpha=1.0))
    finally:
        monkeypatch.undo()
        sys.modules.pop("strange_pairs", None)
        forget(registry)
    assert not path.exists()


def damage(path: str) -> None:
    """Make the sizes of rows what version 0.1 wrote: less than there are columns."""
    with Database(path, write=True) as database:
        store = Store(database)
        frozen = store.fact("frozen")
        kept = store.kept(frozen["kept"]["likelihood"])
        sizes = kept.arrays["table/trigrams/sizes"].copy()
        sizes[np.flatnonzero(sizes)[0]] -= 1
        digest, content = kept_row(
            LearnedState(kept.values, {**kept.arrays, "table/trigrams/sizes": sizes})
        )
        assert kept_from_bytes(content).arrays["table/trigrams/sizes"].sum() < len(
            kept.arrays["table/trigrams/columns"]
        )
        frozen["kept"]["likelihood"] = digest

        def write(rows: sqlite3.Connection) -> None:
            insert_rows(rows, "kept", [(digest, content)])
            write_rows(rows, "meta", {"frozen": (orjson.dumps(frozen),)})

        database.transaction(write)


def test_a_store_of_version_0_1_with_the_fault_is_mended_by_refit(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    found = people(30, 1)
    add_fragments(path, found, RunOptions(likelihood="pairs", alpha=1.0))
    before = [entity.fragments for entity in entities_of(path)]
    damage(path)
    later = [Fragment("later", found[0].properties)]
    with pytest.raises(ModelError, match=r"version 0\.1 wrote this.*kbforge refit fits it again"):
        add_fragments(path, later, RunOptions())
    refit(path)
    assert [entity.fragments for entity in entities_of(path)] == before
    assert add_fragments(path, later, RunOptions()).fragments == len(found) + 1


def test_the_seconds_of_a_run_include_telling_confidence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Confidence is written last, and takes up to a quarter of the time of a run."""

    def told_slowly(*given: Any) -> None:
        time.sleep(1.0)
        write_confidence(*given)

    monkeypatch.setattr("kbforge.jobs.confidence.write_confidence", told_slowly)
    path = tmp_path / "kb.sqlite"
    taken = made(path, people(10, 2)).seconds
    with Database(str(path)) as database:
        (run,) = Store(database).runs()
    assert taken > 1.0
    assert run.seconds > 1.0
