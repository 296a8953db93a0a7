"""The kernel finds and describes pairs of rows as the plain Python of `oracle`, to the last bit."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import Fragment
from kbforge.kernel.binding import WORKERS
from kbforge_plugins.likelihoods.pairs import near
from kbforge_plugins.likelihoods.pairs.file import (
    FEATURES,
    ODDS_FEATURES,
    File,
    Rows,
    _frequencies,
)
from kbforge_plugins.likelihoods.pairs.fitted import NO_ODDS
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs
from kbforge_plugins.likelihoods.pairs.odds import _LEAST, APART, OddsLinks, _leading
from kbforge_plugins.likelihoods.pairs.table import statement_of
from tests.likelihoods.pairs.oracle import bin_of, candidates, features_of, nearness
from tests.people import people
from tests.profile import examples

_WORDS = (
    *("bob", "robert", "peggy", "margaret", "al", "albert", "alfred", "jon", "john", "smith"),
    *("smyth", "dept", "department", "of", "physics", "phys", "university", "univ.", "uop", "up"),
    *("oslo", "ua", "inc", "ltd", "co", "gmbh", "s.a.", "a/s", "ii", "iv", "x", "2", "04", "3rd"),
    *(
        "second",
        "b",
        "institute,",
        "national",
        "-",
        "/",
        "(nhs)",
        "the",
        "Москва",
        "東京",
        "müller",
    ),
    *("tu-1500rd", "tu1500rd", "kx ts208w", "17in", "500 gb", "3,5", "1_a", "the one; the other"),
)
names = st.one_of(
    st.lists(st.sampled_from(_WORDS), min_size=1, max_size=9).map(" ".join),
    st.text(st.sampled_from("abc xyz019.,-/()"), min_size=1, max_size=150),
    st.text(min_size=1, max_size=12),
)
values = st.one_of(
    st.sampled_from(_WORDS),
    st.integers(0, 40).map(str),
    st.text(st.sampled_from("ab 01"), min_size=1, max_size=80),
)


@st.composite
def fragments(draw: st.DrawFn) -> list[Fragment]:
    """Fragments whose attributes are stated or not, some with several names."""
    naming = draw(st.sampled_from(["name", "full name", "a"]))
    rows = draw(
        st.lists(
            st.tuples(st.lists(names, max_size=3), st.lists(st.none() | values, max_size=4)),
            min_size=2,
            max_size=7,
        )
    )
    return [
        Fragment(
            str(k),
            {naming: tuple(dict.fromkeys(called)) or ("no name",)}
            | {f"{'bcde'[at]}": (value,) for at, value in enumerate(others) if value},
        )
        for k, (called, others) in enumerate(rows)
    ]


def require_equal(file: File, a: Rows, b: Rows, some: Sequence[Fragment]) -> None:
    """Some are the fragments of the file, and then those of later rows."""
    n = len(file.counts)
    said = {row: x for x in some if (row := file.row(statement_of(x))) is not None}
    later = [x for x in some if file.row(statement_of(x)) is None]
    said |= {n + k: x for k, x in enumerate(later)}
    i, j = (some.ravel() for some in np.meshgrid(*map(np.arange, (len(a.table), len(b.table)))))
    found = file.describe(a, i, b, j)
    expected = np.array([features_of(file, a, x, b, y, said) for x, y in zip(i, j, strict=True)])
    for feature, one, other in zip(FEATURES, found.T, expected.T, strict=True):
        if feature in ODDS_FEATURES:  # the kernel adds to what it knows of a cluster
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9, err_msg=feature)
        else:
            np.testing.assert_array_equal(one, other, feature)


@examples(100)
@given(fragments())
def test_the_kernel_describes_as_the_oracle_does(some):
    """Within the file, and of a row outside it."""
    file, _ = File.fitted(some[1:])
    require_equal(file, file.rows, file.rows, some[1:])
    if file.row(statement_of(some[0])) is None:
        require_equal(file, file.placed(statement_of(some[0]))[0], file.rows, some)


@examples(200)
@given(names, names)
def test_any_two_names(one, other):
    some = [Fragment(name, {"name": (name,)}) for name in {one, other}]
    file, _ = File.fitted(some)
    require_equal(file, file.rows, file.rows, some)


@examples(30)
@given(st.lists(st.one_of(values, st.floats(0, 1e6).map(str)), min_size=2, max_size=20))
def test_bins_of_nearness_are_counted(stated):
    some = [Fragment(str(k), {"name": (f"n{k}",), "x": (x,)}) for k, x in enumerate(stated)]
    for column in File.fitted(some)[0].rows.table.columns.values():
        rows = range(len(column.which))
        pairs = np.array([*combinations(rows, 2)], np.int32).reshape(-1, 2)
        known = [(i, j) for i, j in pairs if column.value(i) and column.value(j)]
        bins = [bin_of(nearness(column, i, column, j)) for i, j in known]
        seen = np.bincount(np.array(bins, np.int64), minlength=4)
        expected = (seen + 0.5) / (seen.sum() + 2.0)
        assert _frequencies(column, pairs).tolist() == expected.tolist()


def require_candidates(some: Sequence[Fragment], link: str | None, work: int) -> None:
    file, pairs = File.fitted(some, link)
    tops, expected = candidates(file.rows.table, file.compared.tolist(), work)
    assert list(map(tuple, pairs.tolist())) == expected
    assert [file.rows.letters.tolist(), file.rows.words.tolist()] == tops
    if file.learned is not None:
        odds = file.learned.totals(pairs).tolist()
        for row, best in enumerate(file.rows.best_odds.tolist()):
            own = [o for o, pair in zip(odds, expected, strict=True) if row in pair and o > NO_ODDS]
            assert best == [*sorted(own, reverse=True), *24 * [NO_ODDS]][:24]


@examples(60)
@given(fragments(), st.sampled_from([None, "b"]), st.sampled_from([1, 20_000]))
def test_candidates_are_those_of_the_oracle(some, link, work):
    """Also if common tokens are left out, and between linked tables."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(near, "_WORK_A_ROW", work)
        require_candidates(some, link, work)


@pytest.mark.parametrize("workers", [1, 3])
def test_candidates_of_a_name_that_many_rows_have(monkeypatch, workers):
    """Of more rows than are compared with each."""
    monkeypatch.setenv(WORKERS, str(workers))
    same = [Fragment(str(k), {"name": ("National Health",), "b": (f"{k}",)}) for k in range(60)]
    briefly = [Fragment(f"x{k}", {"name": ("NH",), "b": (f"{k}",)}) for k in range(55)]
    require_candidates([*same, *briefly, *people(10, 2)], None, 20_000)


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_log_odds_are_the_trees_of_the_features(monkeypatch, workers):
    """For any number of threads, and many parts."""
    monkeypatch.setenv(WORKERS, str(workers))
    trees = Pairs().trees
    file, pairs = File.fitted(people(150, 4))
    i, j = pairs.T
    found = file.log_odds(trees, file.rows, file.rows, pairs, -5.0)
    assert len(pairs) > 1000
    assert found.tolist() == trees.predict(file.describe(file.rows, i, file.rows, j)).tolist()


@examples(60)
@given(st.integers(1, 30), st.randoms(use_true_random=False))
def test_links_by_their_second_row_and_those_that_lead(rows, random):
    """A link leads if it is among the sixteen most probable ones of one of its rows."""
    every = [*combinations(range(rows), 2)]
    linked = sorted(random.sample(every, len(every) * random.randint(0, 2) // 2))
    pairs = np.array(linked, np.int32).reshape(-1, 2)
    units = [random.choice([1, APART // -12, 9, 70_000, 300_000]) for _ in linked]
    links = OddsLinks.fitted(pairs, np.array(units, np.int32), np.zeros(rows, np.int32))
    leading = set[int]()
    for row in range(rows):
        numbers, others = links.of(row)
        mine = [(k, *pair) for k, pair in enumerate(linked) if row in pair]
        assert sorted(numbers.tolist()) == [k for k, *_ in mine]
        assert {*others.tolist()} == {x + y - row for _, x, y in mine}
        likely = [(-units[k], x + y - row, k) for k, x, y in mine if units[k] + APART >= _LEAST]
        leading |= {k for *_, k in sorted(likely)[:16]}
    assert {*np.flatnonzero(_leading(links)).tolist()} == leading
