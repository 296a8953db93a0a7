"""Rules of how two attributes differ say what plain Python counts, and of hostile files nothing."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from inspect import signature
from itertools import combinations, islice, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.errors import ModelError
from kbforge.kernel.binding import WORKERS
from kbforge.models.trees import Trees
from kbforge.testing.likelihood import stored
from kbforge_plugins.likelihoods.pairs.bags import PartReader, flattened
from kbforge_plugins.likelihoods.pairs.differences import (
    _BINS,
    _MOST_NATS,
    _MOST_RULES,
    DIFFERENCE_FEATURES,
    Differences,
    measure,
)
from kbforge_plugins.likelihoods.pairs.file import FEATURES, File
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs, model_bytes
from kbforge_plugins.likelihoods.pairs.table import (
    RecordTable,
    StatementReader,
    statements_of,
)
from tests.likelihoods.pairs.oracle import difference_features
from tests.profile import examples

CENTURY = range(1870, 1970)


def table_of(rows: Sequence[Mapping[str, str]]) -> RecordTable:
    """The table of these rows, whose statements differ by name, in their order."""
    names = ["".join(letters) for letters in islice(product("abcdefgh", repeat=4), len(rows))]
    said = statements_of(
        [
            Fragment(name, {"0 name": (name,), **{a: (v,) for a, v in row.items()}})
            for name, row in zip(names, rows, strict=True)
        ]
    )[0]
    table = StatementReader.fitted(said, np.ones(len(said), np.int64))[1]
    assert len(table) == len(rows)
    return table


def person(birth: int, debut: int, died: int | None = None) -> dict[str, str]:
    return {"born": str(birth), "debut": str(debut)} | ({} if died is None else {"died": str(died)})


PEOPLE = [person(b, b + 18 + k % 9, b + 40 + 7 * k % 50) for k, b in enumerate([*CENTURY] * 3)]


def told(rules: Differences, table: RecordTable, i: int, j: int) -> list[float]:
    measures = rules.read(table)
    return told_of(rules, measures[[i]], measures[[j]])


def same(one: Differences, other: Differences) -> bool:
    arrays = ("which", "bounds", "log_ratio")
    return one.attributes == other.attributes and all(
        np.array_equal(getattr(one, name), getattr(other, name)) for name in arrays
    )


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("1947", 1947.0),
        ("-44", -44.0),
        ("1,234.5", 1234.5),
        ("$ 12", 12.0),
        ("0.6000000238418579", 0.6000000238418579),
        ("1947-01-01", 1947.0),
        ("1947-07", 1947.5),
        ("3 may 1947", 1947 + (4 + 2 / 31) / 12),
        ("1947-86-99", 1947 + (11 + 30 / 31) / 12),
        ("1947-00-00", 1947.0),
    ],
)
def test_a_measure_is_a_number_or_a_date_in_years(value, expected):
    assert measure(value) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize(
    "value",
    ["", "nan", "inf", "-inf", "1e308", "1_000", "9" * 99, "1914-1918", "1\n2", "½"],
)
def test_other_values_state_no_measure(value):
    assert math.isnan(measure(value))


@given(st.text(max_size=30) | st.text("0123456789-/., $e:t", max_size=30))
def test_a_measure_is_finite_or_missing(value):
    assert math.isnan(measure(value)) or abs(measure(value)) < 1e16


def test_a_career_before_birth_is_the_worst_that_a_rule_says():
    rows = [*PEOPLE, {"born": "1947"}, {"debut": "1885"}, {"debut": "1969"}]
    table = table_of(rows)
    rules = Differences.fitted(table)
    assert {*rules.attributes} == {"born", "debut", "died"}
    born, before, after = range(len(PEOPLE), len(rows))
    assert told(rules, table, born, before)[0] == rules.log_ratio.min() < -5
    assert told(rules, table, born, after)[0] > 1
    assert told(rules, table, before, after)[2] == 0


def test_what_an_own_comparison_covers_is_no_further_evidence():
    rows = [*PEOPLE, person(1900, 1920), {"debut": "1921"}, {"born": "1900"}]
    table = table_of(rows)
    rules = Differences.fitted(table)
    whole, debut, born = range(len(PEOPLE), len(rows))
    for other in (debut, born):
        evidence, least, compared = told(rules, table, whole, other)
        assert math.isnan(evidence)
        assert least > 1
        assert compared == 1
    assert told(rules, table, born, debut)[0] == told(rules, table, debut, born)[0] > 1


def plain(
    rows: Sequence[Mapping[str, str]], a: str, b: str
) -> tuple[float, list[float], list[float]]:
    """The gain, bounds and log ratios of a rule."""
    both = [(measure(row.get(a, "")), measure(row.get(b, ""))) for row in rows]
    both = [(x, y) for x, y in both if not math.isnan(x + y)]
    n = len(both)

    def spread(values: Sequence[float]) -> list[float]:
        return [sorted(values)[int((k + 0.5) * len(values) / 256)] for k in range(256)]

    within = [y - x for x, y in both]
    xs, ys = spread([x for x, _ in both]), spread([y for _, y in both])
    chance = [y - x for x in xs for y in ys]
    mixed = sorted([*spread(within), *spread(chance)])
    bins = min(_BINS, int(math.sqrt(n)))
    bounds = [mixed[512 * (k * bins // _BINS) // bins] for k in range(1, _BINS)]

    def share(values: Sequence[float], k: int) -> int:
        low, high = ([-math.inf, *bounds][k], [*bounds, math.inf][k])
        return sum(low <= value < high for value in values)

    ratios, gain = [], -float(bins)
    for k in range(_BINS):
        u = (share(chance, k) + 0.5) / (len(chance) + _BINS / 2)
        m = (share(within, k) + 2 * u) / (n + 2)
        ratios.append(min(max(math.log(m / u), -_MOST_NATS), _MOST_NATS))
        gain += n * m * ratios[-1]
    return gain, bounds, ratios


def test_a_rule_is_what_plain_python_counts():
    rows = [*PEOPLE[::5], {"born": "1900"}, {"died": "x"}]
    rules = Differences.fitted(table_of(rows))
    assert len(rules) == 3
    for at, (a, b) in enumerate(rules.which):
        gain, bounds, ratios = plain(rows, rules.attributes[a], rules.attributes[b])
        assert gain > 0
        np.testing.assert_allclose(rules.bounds[at], bounds)
        np.testing.assert_allclose(rules.log_ratio[at], ratios, rtol=1e-9, atol=1e-9)


def test_an_attribute_has_what_its_differences_say(tmp_path):
    """By trees that read nothing but the evidence of differences."""
    read = np.array([FEATURES.index("difference evidence")], np.int32)
    left, right, root = np.array([[-1], [-2], [0]], np.int32)
    leaves, below = np.array([-4.0, 1.0]), np.array([-2.0])
    trees = Trees(
        FEATURES, read, below, np.zeros(1, np.uint8), left, right, leaves, root, np.zeros(1)
    )
    (tmp_path / "trees").write_bytes(model_bytes(trees, trees))
    model = Pairs(str(tmp_path / "trees"))
    people = [{"name": f"Bo {k}", **row} for k, row in enumerate(PEOPLE)]
    rows = [*people, {"name": "Ada Lee", "born": "1947"}, {"name": "Ada Lee", "debut": "1885"}]
    fragments = [
        Fragment(str(k), {a: (value,) for a, value in row.items()}) for k, row in enumerate(rows)
    ]
    model.fit(fragments)
    *_, born, debut = fragments
    for x, other, attribute in ((born, debut, "born"), (debut, born, "debut")):
        said = model.contributions(x, [other])
        assert said[attribute] == pytest.approx(-2.5)  # below the mean of the leaves
        assert sum(said.values()) == pytest.approx(-4)


numbers = st.one_of(
    st.integers(1850, 1990).map(float),
    st.just(math.nan),
    st.floats(-1e15, 1e15),
)


@st.composite
def hand_made(draw: st.DrawFn) -> tuple[Differences, np.ndarray]:
    """Some rules, and the measures of some rows."""
    width = draw(st.integers(2, 4))
    which = [pair for pair in combinations(range(width), 2) if draw(st.booleans())]
    steps = st.integers(-100, 100).map(float)
    bounds = [sorted(draw(st.lists(steps, min_size=31, max_size=31))) for _ in which]
    ratios = draw(st.lists(st.floats(-8, 8), min_size=32 * len(which), max_size=32 * len(which)))
    rules = Differences(
        tuple("abcd"[:width]),
        np.array(which, np.int64).reshape(-1, 2),
        np.array(bounds, np.float64).reshape(-1, 31),
        np.array(ratios, np.float64).reshape(-1, 32),
    )
    rows = draw(st.lists(st.lists(numbers, min_size=width, max_size=width), min_size=1, max_size=6))
    return rules, np.array(rows, np.float64)


@pytest.mark.parametrize("workers", ["1", "3"])
@examples(60, deadline=None)
@given(made=hand_made())
def test_the_kernel_describes_rows_as_plain_python(made, workers):
    rules, measures = made
    i, j = (some.ravel() for some in np.meshgrid(*2 * (np.arange(len(measures)),)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(WORKERS, workers)
        found = described(rules, measures, i, j)
    expected = [
        difference_features(rules, measures[x], measures[y]) for x, y in zip(i, j, strict=True)
    ]
    np.testing.assert_array_equal(found, expected)


@examples(60, deadline=None)
@given(made=hand_made())
def test_what_is_compared_is_shared_by_the_attributes_of_the_first_rows(made):
    rules, measures = made
    i, j = (some.ravel() for some in np.meshgrid(*2 * (np.arange(len(measures)),)))
    found = rules.compared(measures, i, measures, j)
    for k, (x, y) in enumerate(zip(i, j, strict=True)):
        expected = np.zeros(len(rules.attributes))
        for at, (a, b) in enumerate(rules.which.tolist()):
            alone = Differences(
                rules.attributes, rules.which[[at]], rules.bounds[[at]], rules.log_ratio[[at]]
            )
            for mine, theirs in ((a, b), (b, a)):
                one, other = (np.full((1, len(expected)), np.nan) for _ in "ab")
                one[0, mine], other[0, theirs] = measures[x, mine], measures[y, theirs]
                evidence = told_of(alone, one, other)[0]
                expected[mine] += 0.0 if math.isnan(evidence) else abs(evidence)
        np.testing.assert_allclose(found[:, k], expected)


def told_of(rules: Differences, one: np.ndarray, other: np.ndarray) -> list[float]:
    return described(rules, np.concatenate([one, other]), np.array([0]), np.array([1]))[0].tolist()


@lru_cache
def file_of(n: int) -> File:
    return File.fitted([Fragment(str(k), {"name": (f"Bo {k}",)}) for k in range(n)])[0]


def described(rules: Differences, measures: np.ndarray, i: np.ndarray, j: np.ndarray) -> np.ndarray:
    """What the kernel says of pairs of rows with these measures, in a file with these rules."""
    plain = file_of(len(measures))
    given = {**vars(plain), "differences": rules}
    told = {name: given.get(name, given.get(f"_{name}")) for name in signature(File).parameters}
    rows = replace(plain.rows, measures=np.ascontiguousarray(measures))
    columns = [FEATURES.index(name) for name in DIFFERENCE_FEATURES]
    return File(**told).describe(rows, i, rows, j)[:, columns]


def test_attributes_that_have_nothing_to_do_with_each_other_make_no_rule():
    """By chance a rule is found in fewer than one of a thousand such files; these have none."""
    for seed in range(150):
        rng = np.random.default_rng(seed)
        drawn = rng.integers(1, rng.integers(3, 202), size=(2, 300)).tolist()
        rows = [{"a": str(x), "b": str(y)} for x, y in zip(*drawn, strict=True)]
        assert len(Differences.fitted(table_of(rows))) == 0


@pytest.mark.parametrize(
    "rows",
    [
        [],
        [{}],
        [person(1900, 1920)] * 19,
        [person(1900, 1920)] * 300,
        [{"born": "x", "debut": "1900"}] * 100,
        [{"born": "9" * 399, "debut": "1e308"}] * 100,
        [{"born": "nan", "debut": "inf"}] * 100,
    ],
)
def test_files_that_teach_nothing_have_no_rule_and_no_evidence(rows):
    table = table_of(rows)
    rules = Differences.fitted(table)
    assert len(rules) == 0
    assert rules.read(table).shape == (len(rows), 0)
    for row in range(len(rows[:1])):
        evidence, least, compared = told(rules, table, row, row)
        assert math.isnan(evidence)
        assert math.isnan(least)
        assert compared == 0


def test_huge_and_negative_measures_are_compared_like_others():
    big = 10**14
    rows = [{"a": str(k * big // 300 - big // 2), "b": str(k * big // 300)} for k in range(300)]
    table = table_of([*rows, {"a": str(-big)}, {"b": str(big)}])
    rules = Differences.fitted(table)
    assert len(rules) == 1
    assert np.isfinite(rules.bounds).all()
    assert told(rules, table, 300, 301)[0] == rules.log_ratio.min()


def test_there_are_as_many_rules_as_bounded():
    columns = "abcdefg"
    rows = [{c: str(1900 + (k * 37) % 90 + at) for at, c in enumerate(columns)} for k in range(200)]
    rules = Differences.fitted(table_of(rows))
    assert len(rules) == _MOST_RULES < len([*combinations(columns, 2)])


def reader(rules: Differences, **others: object) -> PartReader:
    return PartReader(stored(flattened(rules.dump() | others)))


def test_what_is_kept_is_read_as_it_was():
    rules = Differences.fitted(table_of(PEOPLE))
    assert same(Differences.load(reader(rules), ["died", "born", "debut"]), rules)
    nothing = Differences.fitted(table_of([]))
    assert same(Differences.load(reader(nothing), []), nothing)


RULES = Differences.fitted(table_of(PEOPLE))


@pytest.mark.parametrize(
    "damage",
    [
        {"attributes": ["born", "debut", "other"]},
        {"attributes": ["born", "born", "debut"]},
        {"which": RULES.which + 1},
        {"which": RULES.which[:, :1]},
        {"bounds": RULES.bounds[:, ::-1].copy()},
        {"bounds": RULES.bounds[:, 1:].copy()},
        {"log_ratio": RULES.log_ratio * 9},
        {"log_ratio": RULES.log_ratio * np.nan},
    ],
)
def test_damaged_rules_are_refused(damage):
    with pytest.raises(ModelError, match=next(iter(damage))):
        Differences.load(reader(RULES, **damage), ["born", "debut", "died"]).told.sum()
