"""The kernels of the laboratory leave the posterior as it is, to rounding."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge_lab.batch.grouping_model import model_of
from kbforge_lab.splitmerge.opposite import OppositeKernel, SignTables, TableTurn
from kbforge_lab.splitmerge.two_clusters import (
    LikelihoodGuidedKernel,
    RestrictedGibbsKernel,
    shuffled,
    two_clusters,
    weighted,
)
from tests.lab.clustering.test_minsm import (
    Make,
    check_all_followed,
    check_balance,
    distance,
    every_way,
    fixed,
    kernel_of,
    parts,
    same,
)
from tests.lab.families import FAMILIES
from tests.profile import examples


def opposite(signs: Any) -> Make:
    tables = SignTables(np.array(signs, dtype=bool))
    return lambda items, spec, grouping, clusters: OppositeKernel(clusters, fixed(tables))


def restricted_gibbs(scans: int) -> Make:
    return lambda items, spec, grouping, clusters: RestrictedGibbsKernel(
        clusters, two_clusters(spec.likelihood, items, clusters), scans
    )


def likelihood_guided() -> Make:
    return lambda items, spec, grouping, clusters: LikelihoodGuidedKernel(
        clusters,
        model_of(spec.likelihood, items, grouping),
        two_clusters(spec.likelihood, items, clusters),
    )


_BITS = np.random.default_rng(3)
# signs of five fragments in two tables of two rows, so that buckets and their opposites are met
SIGNS = [_BITS.integers(2, size=(5, 2, 2)) for _ in range(3)]
KERNELS: dict[str, tuple[int, list[Make]]] = {
    "LSHSM": (5, [opposite(signs) for signs in SIGNS]),
    "RGSM": (4, [restricted_gibbs(1), restricted_gibbs(0)]),
    "SDDS": (4, [likelihood_guided()]),
}


@pytest.mark.parametrize(
    ("choose", "expected"),
    [
        (
            lambda draws: tuple(shuffled([3, 4, 5], draws)),
            dict.fromkeys(itertools.permutations([3, 4, 5]), 1 / 6),
        ),
        (
            lambda draws: weighted(np.log([0.3, 1e-300, 0.2, 0.4, 0.1]) + 800, draws),
            {0: 0.3, 2: 0.2, 3: 0.4, 4: 0.1},
        ),
        (lambda draws: weighted(np.array([-np.inf, -3.0, -np.inf]), draws), {1: 1.0}),
    ],
    ids=["order", "weights", "impossible"],
)
def test_choices_are_as_frequent_as_they_should_be(choose, expected):
    assert dict(every_way(choose)) == pytest.approx(expected)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_move_and_its_way_back_are_as_frequent(name, family):
    n, made = KERNELS[name]
    # 52 groupings of five have 180 splits, 15 of four 31
    check_balance(made, family, n, least=150 if n == 5 else 50)


def test_dumb_and_smart_moves_each_are_followed_now_and_then():
    check_all_followed(opposite(SIGNS[0]), 5)


# Split-merge samplers of the laboratory against enumeration; the published ones are far off.


MOVES: dict[str, int] = {"lshsm": 30_000, "rgsm": 4_000, "sdds": 12_000}
# five points hardly ever share ten signs
FEW: dict[str, Any] = {"rows": 2, "tables": 3}
CASES = [
    ("lshsm", "gaussian"),
    ("lshsm", "beta-bernoulli"),
    ("rgsm", "beta-bernoulli"),
    ("rgsm", "black box"),
    *(("sdds", f) for f in ("gaussian", "dirichlet-multinomial", "black box")),
]


@pytest.mark.parametrize(("name", "family"), CASES)
def test_long_runs_have_the_exact_distribution(name, family):
    assert distance(name, family, MOVES[name], **(FEW if name == "lshsm" else {})) < 0.02


@pytest.mark.parametrize(
    ("name", "options"), [("minsm-published", {}), ("lshsm", {**FEW, "as_published": True})]
)
@pytest.mark.parametrize("family", ["gaussian", "dirichlet-multinomial"])
def test_the_published_ratios_have_another_distribution(name, options, family):
    """Not by chance: the exact ones are within .02 of the posterior in runs of this length."""
    assert distance(name, family, 20_000, **options) > 0.1


# What the smart moves of LSHSM count, against sets counted one by one.


@examples(200)
@given(given_parts=parts(), seed=st.integers(0, 10_000), rows=st.integers(1, 3))
def test_tables_of_signs(given_parts, seed, rows):
    n, a, b = given_parts
    rng = np.random.default_rng(seed)
    signs = rng.integers(2, size=(n, 3, rows)).astype(bool)
    tables, first = SignTables(signs), int(rng.integers(3))
    kernel = kernel_of(opposite(signs), n)

    def asked(u: int, flipped: bool) -> set[int]:
        """Whom the first table that has an answer offers."""
        for table in ((first + i) % 3 for i in range(3)):
            wanted = signs[u, table] ^ flipped
            found = {v for v in range(n) if (signs[v, table] == wanted).all()} - {u}
            if found:
                return found
        return set()

    expected = {}
    for flipped in (True, False):
        total = 0.0
        for one, other in ((a, b), (b, a)):
            for u in one:
                offered = asked(u, flipped)
                total += len(offered & {*other}) / len(offered) / n if offered else 0.0
        expected[flipped] = total
    given_tables = TableTurn(tables, first)
    coins = 0.5 ** (len(a) + len(b) - 2)
    assert same(kernel.log_split(np.array(a), np.array(b), given_tables), expected[True] * coins)
    assert same(kernel.log_merge(np.array(a), np.array(b), given_tables), expected[False])
