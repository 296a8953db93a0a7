"""The table of live clusters: exact whatever its history, layout and company."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import betaln, gammaln

from kbforge.contracts import UNREAD, Fragment, Likelihood
from kbforge.errors import LikelihoodError, UsageError
from kbforge_lm.likelihoods.ngram import Bigram, Trigram
from kbforge_plugins.likelihoods import counts
from kbforge_plugins.likelihoods.discrete import BetaBernoulli, DirichletMultinomial
from tests.profile import examples

NAMES = [
    "anna",
    "annabel",
    "bob",
    "bobby b",
    "Łódź",
    "東京",
    "",
    "-",
    "anna maria mariana",
    "x" * 40,
]


def pool(seed: int) -> list[Fragment]:
    """Fragments with one or two names, or a town, or nothing that is read."""
    rng = np.random.default_rng(seed)
    out = []
    for i in range(40):
        names = tuple(rng.choice(NAMES, size=rng.integers(1, 3)).tolist())
        attribute = ["name", "name", "name", "town", "colour"][rng.integers(5)]
        out.append(Fragment(str(i), {attribute: tuple(n or "." for n in names)}))
    return out


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thresholds so low that rows turn dense and rebuilds happen all the time."""
    monkeypatch.setattr(counts, "_DENSE_LEAST", 3)
    monkeypatch.setattr(counts, "_SPARE_CELLS", 8)


MODELS = {
    "bigram": lambda: Bigram(attributes=("name", "town")),
    "trigram": lambda: Trigram(attributes=("name", "town")),
    "values": lambda: DirichletMultinomial(attributes=("name", "town")),
}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("seed", range(4))
def test_a_random_life_equals_recomputation_bit_for_bit(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    model, items = MODELS[name](), pool(seed)
    model.fit(items[:20])  # the rest brings unseen characters and values
    table = model.live_clusters()
    live: dict[int, list[Fragment]] = {}
    free: list[int] = []
    slots, reused, rebuilds, dense = 0, 0, 0, 0
    for _ in range(250):
        fragment = items[rng.integers(len(items))]
        x = table.encode(fragment)
        cells = table._n_cells
        predictive = table.log_predictive(x, slots)
        order = sorted(live)
        before = model.log_marginal([live[s] for s in order])
        after = model.log_marginal([[*live[s], fragment] for s in order])
        assert np.isfinite(predictive).all()
        assert predictive[order].tolist() == (after - before).tolist()
        assert table.log_predictive_new(x) == model.log_marginal([[fragment]])[0]
        parents = [-1, *rng.permutation(order)[: rng.integers(0, 4)].tolist()]
        children = []
        for parent in parents:
            if free and rng.random() < 0.8:
                child, reused = free.pop(rng.integers(len(free))), reused + 1
            else:
                child, slots = slots, slots + 1
            children.append(child)
            live[child] = [*live.get(parent, []), fragment]
        table.extend(x, np.array(parents), np.array(children))
        rebuilds += table._n_cells < cells + len(children)
        dense = max(dense, len(table._dense._row_of))
        gone = rng.permutation(sorted(live))[8:].tolist()
        table.release(np.array(gone, dtype=np.int64))
        for slot in gone:
            del live[slot]
        free += gone
    assert min(reused, rebuilds, dense) > 3, "the test must reach these paths"


def test_empty_calls_and_growth_in_one_step() -> None:
    model = Bigram()
    table = model.live_clusters()
    x = table.encode(Fragment("a", {"name": ("ann",)}))
    none = np.zeros(0, dtype=np.int64)
    table.extend(x, none, none)
    table.release(none)
    assert table.log_predictive(x, 0).shape == (0,)
    many = 5_000  # more cells than a fresh table has room for
    table.extend(x, np.full(many, -1), np.arange(many))
    values = table.log_predictive(x, many)
    expected = np.diff(model.log_marginal([[], [Fragment("a", {"name": ("ann",)})]]))
    twice = model.log_marginal([[Fragment("a", {"name": ("ann",)})] * 2])[0]
    assert set(values.tolist()) == {float(twice - expected[0])}


def test_a_fragment_without_text_stays_alone() -> None:
    table = Bigram().live_clusters()
    x, ann = (table.encode(Fragment("a", {k: (k,)})) for k in ("colour", "name"))
    table.extend(x, np.array([-1]), np.array([0]))
    assert table.log_predictive_new(x) == 0.0
    assert table.log_predictive(x, 1).tolist() == [UNREAD]
    assert table.log_predictive(ann, 1).tolist() == [table.log_predictive_new(ann) + UNREAD]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("name", MODELS)
def test_edits_and_merges_equal_recomputation_bit_for_bit(name: str) -> None:
    """Fragments leave, come and take others with them; whatever happened, it is L's difference."""
    rng = np.random.default_rng(9)
    model, items = MODELS[name](), pool(9)
    model.fit(items[:20])
    table = model.live_clusters()
    x = [table.encode(item) for item in items]
    held = {slot: [slot] for slot in range(12)}
    for slot in held:
        table.extend(x[slot], np.array([-1]), np.array([slot]))
    merges = 0
    for _ in range(150):
        slot, other = rng.permutation(sorted(held))[:2].tolist()
        i = int(rng.integers(len(items)))
        chance = rng.random()
        if chance < 0.02 and len(held) > 4:
            table.merge(slot, other)
            held[other] += held.pop(slot)
            merges += 1
        elif chance < 0.5 and len(held[slot]) > 1:
            table.remove(x[held[slot].pop(0)], slot)
        else:
            table.add(x[i], slot)
            held[slot].append(i)
        query = int(rng.integers(len(items)))
        order = sorted(held)
        before = model.log_marginal([[items[k] for k in held[s]] for s in order])
        after = model.log_marginal([[items[k] for k in (*held[s], query)] for s in order])
        assert table.log_predictive(x[query], 12)[order].tolist() == (after - before).tolist()
        last = held[order[0]][-1]
        rest = model.log_marginal([[items[k] for k in held[order[0]][:-1]]])[0]
        assert table.log_predictive_held(x[last], order[0]) == before[0] - rest
        both = model.log_marginal([[items[k] for k in held[order[0]] + held[s]] for s in order[1:]])
        ratio = table.log_merge_ratio(order[0], 12)[order[1:]]
        assert ratio.tolist() == (both - before[0] - before[1:]).tolist()
    assert merges > 2


# Dirichlet-multinomial and beta-Bernoulli against urns written out.


VALUES = st.lists(st.sampled_from(["red", "green", "blue", "Red"]), min_size=1, max_size=3)


def coloured(*values: str) -> Fragment:
    return Fragment("f", {"colour": values})


def vector(*numbers: float) -> Fragment:
    return Fragment("v", {}, tuple(map(float, numbers)))


@given(st.lists(VALUES, min_size=1, max_size=5), st.sampled_from([0.1, 1.0, 5.0]))
def test_values_are_drawn_from_a_polya_urn(cluster: list[list[str]], concentration: float) -> None:
    model = DirichletMultinomial(concentration)
    model.fit([coloured("red", "green")])
    drawn: Counter[str] = Counter()
    log_p = 0.0
    for value in (v for values in cluster for v in values):
        base = 1 / 3 if value in ("red", "green") else 1 / 3 / 2**32
        numerator = drawn[value] + concentration * base
        log_p += math.log(numerator / (drawn.total() + concentration))
        drawn[value] += 1
    got = model.log_marginal([[coloured(*values) for values in cluster]])[0]
    assert got == pytest.approx(log_p, abs=1e-8)


@given(
    st.lists(st.lists(st.integers(0, 60), min_size=3, max_size=3), min_size=1, max_size=4),
    st.sampled_from([0.3, 2.0]),
)
def test_count_vectors_are_draws_in_turn(cluster: list[list[int]], concentration: float) -> None:
    model = DirichletMultinomial(concentration, reads="vector")
    total = np.sum(cluster, axis=0)
    a = concentration / 3
    log_p = sum(math.lgamma(n + a) - math.lgamma(a) for n in total)
    log_p -= math.lgamma(total.sum() + concentration) - math.lgamma(concentration)
    got = model.log_marginal([[vector(*counts) for counts in cluster]])[0]
    assert got == pytest.approx(log_p, abs=1e-8)


@pytest.mark.parametrize(
    ("model", "outcomes", "n"),
    [
        # all orders of three draws from two categories
        (DirichletMultinomial(0.8, reads="vector"), [(1, 0), (0, 1)], 3),
        (BetaBernoulli(0.4, 1.7, reads="vector"), list(itertools.product((0, 1), repeat=2)), 2),
    ],
)
def test_all_outcomes_have_probability_one(
    model: Likelihood, outcomes: list[tuple[int, ...]], n: int
) -> None:
    clusters = [[vector(*x) for x in drawn] for drawn in itertools.product(outcomes, repeat=n)]
    assert np.exp(model.log_marginal(clusters)).sum() == pytest.approx(1.0, abs=1e-8)


@given(
    st.lists(st.lists(st.integers(0, 1), min_size=4, max_size=4), min_size=1, max_size=6),
    st.sampled_from([(0.1, 1.0), (2.0, 0.5)]),
)
@examples(40)
def test_bernoulli_marginal(cluster: list[list[int]], prior: tuple[float, float]) -> None:
    a, b = prior
    model = BetaBernoulli(a, b, reads="vector")
    n, shown = len(cluster), np.sum(cluster, axis=0)
    expected = float((betaln(shown + a, n - shown + b) - betaln(a, b)).sum())
    fragments = [vector(*bits) for bits in cluster]
    assert model.log_marginal([fragments])[0] == pytest.approx(expected, rel=1e-12)


def test_bernoulli_ignores_values_nobody_fitted_and_repeats() -> None:
    model = BetaBernoulli()
    says = model.fit([coloured("red", "green")])
    assert says == "beta-bernoulli: fitted to the 2 different values of the input"
    plain, more = model.log_marginal([[coloured("red")], [coloured("red", "red", "mauve")]])
    assert plain == more


def test_absence_is_evidence() -> None:
    model = BetaBernoulli(reads="vector")
    full, empty = vector(1, 1, 1, 1), vector(0, 0, 0, 0)
    same, mixed = model.log_marginal([[full, full], [full, empty]])
    assert same > mixed


TWO = "vector of 3 numbers, expected 2"


@pytest.mark.parametrize(
    ("model", "fragments", "says"),
    [
        *(
            (DirichletMultinomial, [vector(*numbers)], 'fragment "v" has .* expected counts')
            for numbers in ((0.5, 1.0), (-1.0, 0.0), (1e12, 0.0))
        ),
        (DirichletMultinomial, [vector(2**31 - 1, 1)], "add up to 2,147,483,648, expected at most"),
        (DirichletMultinomial, [vector(0, 1), vector(0, 1, 1)], TWO),
        (BetaBernoulli, [vector(0, 1), vector(0, 1, 1)], TWO),
        (BetaBernoulli, [vector(0, 2)], '"v" has 2 in its vector, expected zeros and ones'),
        (BetaBernoulli, [coloured("red")], '"f" has no vector, which the beta-bernoulli'),
    ],
)
def test_vectors_that_cannot_be_read(
    model: type[DirichletMultinomial] | type[BetaBernoulli], fragments: list[Fragment], says: str
) -> None:
    likelihood = model(reads="vector")
    with pytest.raises(LikelihoodError, match=says):
        likelihood.log_marginal([fragments])
    table = likelihood.live_clusters()
    with pytest.raises(LikelihoodError, match=says):
        list(map(table.encode, fragments))


@pytest.mark.usefixtures("small")
def test_a_cluster_counts_beyond_32_bits() -> None:
    model, fragment = DirichletMultinomial(reads="vector"), vector(2**31 - 1, 0)
    table = model.live_clusters()
    x = table.encode(fragment)
    table.extend(x, np.array([-1]), np.array([0]))
    for n in range(1, 8):  # rows turn dense on the way
        table.extend(x, np.array([n - 1]), np.array([n]))
        whole, more = model.log_marginal([[fragment] * (n + 1), [fragment] * (n + 2)])
        assert table.log_predictive(x, n + 1)[n] == pytest.approx(more - whole, abs=1e-4)


@pytest.mark.parametrize("value", [0.0, -1.0, float("inf")])
def test_parameters_out_of_range(value: float) -> None:
    with pytest.raises(UsageError, match="concentration must be positive"):
        DirichletMultinomial(concentration=value)
    with pytest.raises(UsageError, match="b must be positive"):
        BetaBernoulli(b=value)


def test_texts_are_bags_of_their_words() -> None:
    """Marks, case and the order of words do not count; a value more does, by its words."""
    text = Fragment("t", {"text": ("The tide, the Harbour!", "tide"), "note": ("...",)})
    bag = Fragment("b", {"text": ("the", "tide", "the", "harbour", "tide")})
    by_words, by_values = DirichletMultinomial(reads="words"), DirichletMultinomial()
    by_words.fit([text])
    by_values.fit([bag])
    assert by_words.log_marginal([[text]]) == pytest.approx(by_values.log_marginal([[bag]]))
    assert by_words.log_marginal([[text]]) == by_words.log_marginal([[bag]])


def test_a_family_scores_as_the_likelihood_does() -> None:
    """Up to a constant for every fragment, which is 0 here."""
    fragments = [coloured("red", "red"), coloured("green"), Fragment("n", {"size": ("1",)})]
    model = DirichletMultinomial(2.0)
    model.fit(fragments)
    told = model.exponential_family(fragments)
    counts = np.zeros(len(told.signs))
    np.add.at(counts, told.rows, told.counts)
    terms = gammaln(counts + told.pseudo_counts) - gammaln(told.pseudo_counts)
    assert (told.signs * terms).sum() == pytest.approx(model.log_marginal([fragments])[0])
