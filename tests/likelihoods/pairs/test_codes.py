"""Codes, units and figures that a record states."""

import numpy as np

from kbforge.contracts import Fragment
from kbforge_plugins.likelihoods.pairs.bags import codes_of, spelt
from kbforge_plugins.likelihoods.pairs.file import CODE_FEATURES, FEATURES, File
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.odds import Odds
from kbforge_plugins.likelihoods.pairs.table import statement_of, table_of


def test_a_record_states_codes_units_and_figures():
    found = codes_of('denon tu-1500rd tuner, 40 stations, 17" 500 gb, 8mp 3,5 in 12345 ab')
    assert found == {
        "codes": ["tu1500rd", "12345"],
        "units": ["in=17", "gb=500", "mp=8", "in=3.5"],
        "measures": ["in", "gb", "mp"],
        "figures": ["40", "17", "500", "3", "5", "12345"],
    }
    assert spelt("tu 1500-rd") == "tu1500rd"


def test_what_is_read_of_a_record_is_bounded():
    found = codes_of(" ".join(f"ab{number}" for number in range(10_000)))
    assert all(len(tokens) <= 24 for tokens in found.values())
    assert len(spelt("a" * 10_000)) == 600


def _features(*names: str) -> dict[str, float]:
    fragments = [Fragment(str(k), {"name": (name,)}) for k, name in enumerate(names)]
    file, _ = File.fitted(fragments)
    first, second = (file.row(statement_of(fragment)) for fragment in fragments[:2])
    assert first is not None
    assert second is not None
    one, other = np.array([first]), np.array([second])
    row = file.describe(file.rows, one, file.rows, other)[0]
    return {name: float(row[FEATURES.index(name)]) for name in CODE_FEATURES}


def test_a_code_is_found_however_it_is_broken_up():
    found = _features("Panasonic phone KX-TS208W", "phone by Panasonic KX TS208W white", "other")
    assert found["codes contained"] == 2  # kxts208w in the second, ts208w in the first
    assert found["codes shared"] == 0
    same = _features("Panasonic KX-TS208W", "phone KXTS208W", "other")
    assert same["codes shared"] > 0
    assert same["codes unmatched most"] == 0


def test_units_agree_or_conflict():
    assert _features("disk 500gb", "disk 500 GB", "other")["units equal"] == 1
    found = _features("disk 500gb", "disk 250 GB", "other")
    assert (found["units equal"], found["units conflict"]) == (0, 1)


def _tables() -> list[Fragment]:
    names = ["Ada Byron", "Ada Byron", "Alan Turing", "Allan Turing"]
    return [
        Fragment(str(k), {"name": (name,)}, source="ab"[k % 2]) for k, name in enumerate(names)
    ] + [Fragment("4", {"name": ("Ada Byron",)}, source="a")]


def test_rows_of_one_table_are_not_compared():
    file, pairs = File.fitted(_tables(), "source")
    linked = file.rows.table.linked
    assert len(file.counts) == 4  # equal records of two tables are two rows
    assert len(pairs)
    assert (linked[pairs[:, 0]] != linked[pairs[:, 1]]).all()
    _, all_pairs = File.fitted(_tables())
    assert len(all_pairs) > 0


def test_a_later_record_is_compared_with_the_other_table_only():
    file, _ = File.fitted(_tables(), "source")
    said = statement_of(Fragment("5", {"name": ("Alan Turing!",)}, source="a"), "source")
    assert table_of(said) == "a"
    rows, near = file.placed(said)
    assert len(near)
    assert (file.rows.table.linked[near] != rows.table.linked[0]).all()


def test_later_records_of_one_table_are_apart():
    pairs = Pairs(link="source")
    pairs.fit(_tables())
    odds: Odds = pairs._odds
    first = odds.encode(Fragment("6", {"name": ("Grace Hopper",)}, source="a"))
    second = odds.encode(Fragment("7", {"name": ("Grace  Hoper",)}, source="a"))
    third = odds.encode(Fragment("8", {"name": ("Grace Hoper",)}, source="b"))
    assert first not in odds.near(second)
    assert {first, second} <= {*odds.near(third)}
