"""A store is not a drain: records of other columns are refused, and never become one entity."""

from __future__ import annotations

from pathlib import Path

import pytest

import kbforge
from kbforge.contracts import Fragment
from kbforge.errors import StrangeAttributesError
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import UpdateResult, add_fragments
from kbforge.jobs.views import entities_of
from tests.people import people


def strangers(n: int, **shared: str) -> list[Fragment]:
    """People of a table with other columns, and what all of them share with the store."""
    same = {name: (value,) for name, value in shared.items()}
    return [
        Fragment(f"s{i}", {"Nombre": (f"Juan {i}",), "Calle": (f"Calle {i % 7}",), **same})
        for i in range(n)
    ]


def add(store: Path, fragments: list[Fragment], accepted: tuple[str, ...] = ()) -> UpdateResult:
    return add_fragments(str(store), fragments, RunOptions(), accepted=accepted)


def largest(store: Path) -> int:
    return max(len(entity.fragments) for entity in entities_of(str(store)))


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "kb.sqlite"
    add_fragments(str(path), people(10, 5), RunOptions(likelihood="attributes", alpha=2.0))
    return path


def test_strangers_are_refused_with_a_sentence_and_nothing_is_added(store: Path) -> None:
    before = len(list(entities_of(str(store))))
    with pytest.raises(StrangeAttributesError) as refused:
        add(store, strangers(500, town="york"))
    assert str(refused.value) == (
        "most values of the new records, 1,000 of 1,500, are of attributes that the store does not "
        "have: they have Nombre, Calle, it has born, name, town; --map COLUMN=ATTRIBUTE makes two "
        "columns one attribute; --map COLUMN=COLUMN adds a new one"
    )
    assert len(list(entities_of(str(store)))) == before


def test_a_few_new_columns_are_no_reason(store: Path) -> None:
    one = Fragment("n", {"name": ("ann",), "town": ("york",), "shoe size": ("41", "42")})
    assert add(store, [one]).added == 1
    # from now on the store has the attribute
    assert add(store, [Fragment("m", {"shoe size": ("43",)})]).added == 1


def test_strangers_who_are_accepted_stay_apart(store: Path) -> None:
    assert add(store, strangers(60), ("Nombre", "Calle")).added == 60
    assert largest(store) <= 5
    assert add(store, strangers(80)).added == 20  # the others are there


@pytest.mark.parametrize("likelihood", ["attributes", "bigram", "names", "pairs"])
def test_what_is_not_read_is_never_one_entity(likelihood: str) -> None:
    apart_if_not_read(likelihood, "split-smc", "none")


def apart_if_not_read(likelihood: str, clusterer: str, index: str | None) -> None:
    """Compared with everything, and with an alpha that every cluster outweighs."""
    named = [Fragment(f"f{i}", {"name": (f"ann {'abc'[i % 3]}",)}) for i in range(30)]
    others = [Fragment(f"s{i}", {f"column {i}": ("x",)}) for i in range(30)]
    reads = {"attributes": ("name",)} if likelihood in ("attributes", "beta-bernoulli") else {}
    kb = kbforge.cluster(
        [*named, *others],
        likelihood=likelihood,
        clusterer=clusterer,
        alpha=0.1,
        index=index,
        options={"likelihood": reads},
    )
    sizes = [len(e.fragments) for e in kb.entities if e.fragments[0].startswith("s")]
    assert sizes == [1] * 30
