"""Values pooled: which texts say the same, and that facts and times agree about it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

import kbforge
from kbforge.contracts import Fragment, Particle, Posterior, Subproblem, Value
from kbforge.files.columns import in_metadata, statements_of
from kbforge.jobs.cluster import KnowledgeBase, Times
from kbforge.jobs.views import entities_of
from kbforge.kb.pools import Pools, _joined
from kbforge.kb.times import StatedTimes

SHORT, LONG, OTHER = "Blackthorn Island", "Blackthorn Island, New Mexico", "Harrow"


def said_of(texts: list[str]) -> list[int]:
    """Numbers of what an entity's texts say, in their order."""
    fragments = [Fragment(f"f{k}", {"x": (text,)}) for k, text in enumerate(texts)]
    stated = statements_of(fragments)
    pools = Pools.of(stated, np.zeros(len(texts), np.int64))
    zeros = np.zeros(len(texts), np.int64)
    return list(pools.says(stated, zeros, zeros, stated.value))


def test_spellings_and_partial_dates_say_the_same() -> None:
    a, b, c = said_of(["Ann Lee", "Lee, Ann", "Bo Lee"])
    assert a == b != c
    year, month, date, other = said_of(["1928", "1928-02", "26 February 1928", "1931-05-01"])
    assert year == month == date != other
    year, one, two = said_of(["1928", "1928-02-26", "1928-03-05"])
    assert len({year, one, two}) == 3


texts = st.tuples(st.integers(0, 2), st.integers(0, 3), st.integers(-1, 2))


@given(st.lists(texts, max_size=12))
def test_values_join_that_mean_one_entity(rows: list[tuple[int, int, int]]) -> None:
    cell, value, meant = np.array(sorted(rows), np.int64).reshape(-1, 3).T
    found = list(zip(cell.tolist(), _joined(cell, value, meant, 4).tolist(), strict=True))
    entity: dict[tuple[int, int], int] = {}
    for c, v, m in zip(cell.tolist(), value.tolist(), meant.tolist(), strict=True):
        if m >= 0:
            entity.setdefault((c, v), m)
    pools = list(zip(cell.tolist(), value.tolist(), strict=True))
    for one, said in zip(pools, found, strict=True):
        for other, says in zip(pools, found, strict=True):
            meet = one[0] == other[0] and one in entity and entity.get(other) == entity[one]
            assert (said == says) == (one == other or meet)


def fragments_of(places: list[str]) -> list[Fragment]:
    """A firm with these headquarters in turn, and the places themselves."""
    firm = [
        Fragment(f"f{k}", {"name": ("Acme",), "seat": (place,), "seen": (f"{2015 + k}",)})
        for k, place in enumerate(places)
    ]
    return [*firm, *(Fragment(f"p{k}", {"name": (p,)}) for k, p in enumerate((SHORT, LONG, OTHER)))]


def seats(places: list[str], refers: str = "seat", dated: bool = False) -> dict[str, Value]:
    """The firm's headquarters, if the two spellings name one entity."""
    fragments, n = fragments_of(places), len(places)
    fragments = list(in_metadata(fragments, "seen"))
    groups = tuple(range(n)), (n, n + 1), (n + 2,)
    blocks = tuple(Subproblem(group, (Particle(0.0, (group,)),)) for group in groups)
    posterior = Posterior(blocks, 0.0, len(fragments), 0)
    times = StatedTimes(fragments, "seen") if dated else None
    kb = KnowledgeBase(fragments, posterior, Times(), 1.0, None, (), refers=refers, dated=times)
    return {value.value: value for value in kb.entities[0].properties["seat"]}


def test_values_of_one_entity_do_not_contradict_each_other() -> None:
    assert all(v.confidence is not None for v in seats([SHORT, LONG], refers="none").values())
    alike = seats([SHORT, LONG])
    assert len({value.meanings[0].entity for value in alike.values()}) == 1
    assert {value.confidence for value in alike.values()} == {None}
    found = seats([SHORT, LONG, OTHER])
    apart = seats([SHORT, LONG, OTHER], refers="none")
    assert found[SHORT].confidence == found[LONG].confidence
    assert (found[SHORT].confidence or 0) > (apart[SHORT].confidence or 0)


def test_a_later_spelling_of_one_entity_ends_nothing() -> None:
    assert seats([SHORT, LONG], "none", dated=True)[SHORT].until == "2016"
    assert seats([SHORT, LONG], dated=True)[SHORT].until is None
    found = seats([SHORT, LONG, OTHER], dated=True)
    assert [found[place].until for place in (SHORT, LONG, OTHER)] == ["2017", "2017", None]
    back = seats([SHORT, OTHER, LONG], dated=True)
    assert [back[place].until for place in (SHORT, OTHER, LONG)] == ["2016", "2017", None]


def test_a_store_says_the_same_as_a_file(tmp_path) -> None:
    """Also of dates alone, of which none is in question."""
    store, choices = tmp_path / "kb.sqlite", {"likelihood": "names", "alpha": 1.0, "time": "seen"}
    fragments = fragments_of([SHORT, LONG, OTHER, SHORT])
    fragments += [
        Fragment(f"b{k}", {"name": ("Ann Lee",), "born": (text,), "seen": (f"{2015 + k}",)})
        for k, text in enumerate(("1928", "26 February 1928", "1928-02-26"))
    ]
    kbforge.update(store, fragments, refers="seat", **choices)
    kb = kbforge.cluster(fragments, refers="seat", **choices)
    told = [
        {
            e.fragments: {name: [v.to_json() for v in of] for name, of in e.properties.items()}
            for e in read
        }
        for read in (entities_of(str(store)), kb.entities)
    ]
    assert told[0] == told[1]
    born = [of["born"] for of in told[0].values() if "born" in of]
    assert born
    assert all("until" not in value for of in born for value in of)
