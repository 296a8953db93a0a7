"""What a store keeps of models can be read again, or the store is not made; refit replaces it."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest

from kbforge.contracts import Fragment, LearnedState
from kbforge.errors import ModelError
from kbforge.fit.choices import Choices
from kbforge.jobs.refit import refit
from kbforge.jobs.update import take_in
from kbforge.jobs.views import entities_of
from kbforge.store.database import Database
from kbforge.store.pages import kept_from_bytes
from kbforge.store.store import Store, kept_row
from kbforge.store.tables import insert_rows, write_rows
from kbforge_plugins.likelihoods.pairs.bags import Bags
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from tests.likelihoods.test_kept_whole import spellings
from tests.people import people


def test_a_store_of_many_spellings_by_pairs_is_opened_and_goes_on(tmp_path: Path) -> None:
    path = str(tmp_path / "kb.sqlite")
    found = spellings(2100, 1)
    choices = Choices(likelihood="pairs", alpha=1e9)
    take_in(path, found[:2050], choices)
    assert take_in(path, found[2050:], Choices()).fragments == 2100
    assert len({id for entity in entities_of(path) for id in entity.fragments}) == 2100


def test_what_cannot_be_read_back_is_refused_before_any_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Bags.kept

    def lossy(self: Bags) -> dict[str, Any]:
        sizes = self.starts.copy()
        self.starts[-1] -= 1
        kept = plain(self)
        self.starts[:] = sizes
        return kept

    monkeypatch.setattr(Bags, "kept", lossy)
    path = tmp_path / "kb.sqlite"
    with pytest.raises(ModelError, match="likelihood pairs cannot read what it keeps, so no store"):
        take_in(str(path), people(20, 1), Choices(likelihood="pairs", alpha=1.0))
    assert not path.exists()


def test_what_reads_something_else_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Pairs.kept
    asked: list[LearnedState] = []

    def other(self: Pairs) -> LearnedState:
        asked.append(plain(self))
        facts = asked[0].arrays["facts"] + len(asked)
        return LearnedState(asked[0].values, {**asked[0].arrays, "facts": facts})

    monkeypatch.setattr(Pairs, "kept", other)
    with pytest.raises(ModelError, match="likelihood pairs reads something else than it keeps"):
        take_in(str(tmp_path / "kb"), people(20, 1), Choices(likelihood="pairs", alpha=1.0))


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
    take_in(path, found, Choices(likelihood="pairs", alpha=1.0))
    before = [entity.fragments for entity in entities_of(path)]
    damage(path)
    later = [Fragment("later", found[0].properties)]
    with pytest.raises(ModelError, match=r"version 0\.1 wrote this.*kbforge refit fits it again"):
        take_in(path, later, Choices())
    refit(path)
    assert [entity.fragments for entity in entities_of(path)] == before
    assert take_in(path, later, Choices()).fragments == len(found) + 1
