"""Learns rates and alpha without labels: expectation maximisation over greedy clusterings.

    vocabulary and kind of each attribute          from all fragments
    a sample: fragments and all that resemble them
    repeat: cluster the sample greedily; from its clusters learn the rates, how many entities
            have each value, and alpha

Clusters are not labels, so two thirds of every weight come from the prior (`AttributeRates.prior`).
The sample is chosen by hashes of the fragments' ids, so the order of the fragments does not matter.

*Rates.* The hidden variables are each cluster's true value, the number of fresh draws of each value
(a value seen n times with a = c G(u|v) is drawn afresh a (psi(a + n) - psi(a)) times on average,
like tables of the Chinese restaurant, Antoniak 1974), and the component of each fresh draw. Given
their expectations, the weights are the components' shares of the fresh draws, and c solves a fixed
point: fresh draws = c (psi(c + n) - psi(c)) summed over clusters (Minka 2000).

*Discounts* reduce the weight of an agreement if other attributes agree already. Two products of one
line share brand, words of the title and often the price. Near misses, records of different clusters
that share a rare key of another attribute, show how often. With

    q = share of near misses that agree on the attribute
    m = share of pairs of one cluster that do
    e = mean evidence of such an agreement, in nats

the evidence is multiplied by the discount d with q exp(d e) = 1, because the mean of a likelihood
ratio is 1 among pairs that do not match. Each pair of clusters counts with one pair of records.

Some near misses are entities that were split: these agree on all attributes nearly as often as
pairs within a cluster, while dependence raises q only for some. So the lower quartile of q / m
estimates the share of split entities, and this share times m is first subtracted from every q.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, pairwise
from math import exp, log
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, gammaln

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    ModelSpec,
)
from kbforge.contracts.fragment import Fragment
from kbforge.files.columns import ids_of
from kbforge.indexes.selective import neighbourhoods
from kbforge.numerics import root_of
from kbforge.texts import digests_of
from kbforge.texts.kinds import Kind, idle_attributes, kinds_of
from kbforge.texts.statements import StatedValues
from kbforge_plugins.clusterers.sequential import GreedyClusterer
from kbforge_plugins.likelihoods.attributes.urn import (
    COPY,
    AttributeRates,
    Rates,
    UrnClusters,
    components,
)
from kbforge_plugins.likelihoods.attributes.vocabulary import (
    LEAST_COUNT,
    Encoder,
    Record,
    Vocabulary,
)

Counts: TypeAlias = dict[int, int]
"""A cluster's values of one attribute by number, and how often each was seen."""

ModelOf: TypeAlias = Callable[[dict[str, Vocabulary], Rates], ConjugateLikelihood]
"""The attribute likelihood with known rates (`likelihood.AttributeModel`)."""

_ROUNDS = 40
_CONVERGED = 1e-4
_PSEUDO_DRAWS = 4.0
_PSEUDO_CLUSTERS = 2.0
_MOST_VALUES = 24
_SMALLEST = 1e-300  # the least probability, so that logs are finite


def learn_rates(
    vocabulary: Vocabulary,
    clusters: Sequence[Counts],
    prior: AttributeRates,
    prior_weight: float = 0.0,
    rounds: int = _ROUNDS,
) -> AttributeRates:
    """The most probable rates given each cluster's values; the prior counts as a few draws.

    `prior_weight` is additional weight of the prior, in draws per draw of the data. Expectation
    maximisation takes at most `rounds` rounds.
    """
    clusters = [c for c in clusters if sum(c.values()) > 1]
    if not clusters:
        return prior
    data = _ClusterCells(vocabulary, clusters)
    believed = np.array(prior.weights())
    weights, concentration = believed, prior.concentration
    for _ in range(rounds):
        drawn, fresh = data.expected(weights, concentration)
        new = drawn + (_PSEUDO_DRAWS + prior_weight * drawn.sum()) * believed
        new /= new.sum()
        spread = (digamma(concentration + data.sizes) - digamma(concentration)).sum()
        concentration = float(
            (fresh + _PSEUDO_CLUSTERS) / (spread + _PSEUDO_CLUSTERS / prior.concentration)
        )
        moved = float(np.abs(new - weights).max())
        weights = new
        if moved < _CONVERGED:
            break
    return AttributeRates.of(vocabulary.kind, weights.tolist(), concentration)


class _ClusterCells:
    """All clusters, flat: a cell for each cluster, true value v (a row) and value u in it."""

    def __init__(self, vocabulary: Vocabulary, clusters: Sequence[Counts]) -> None:
        kept = [_most_seen(counts) for counts in clusters]
        lengths = np.array([len(counts) for counts in kept])
        rows = [(i, v) for i, counts in enumerate(kept) for v in counts]
        cells = [(u, v, n) for counts in kept for v in counts for u, n in counts.items()]
        pairs = [(u, n) for counts in kept for u, n in counts.items()]
        base = np.array(vocabulary.base)
        row_lengths = np.repeat(lengths, lengths)
        # G's components and n_u of each cell; rows of cells
        self._parts = components(vocabulary, *zip(*((u, v) for u, v, _ in cells), strict=True))
        self._count = np.array([n for *_, n in cells], dtype=float)
        self._row_start = np.cumsum(row_lengths) - row_lengths
        self._row_cluster = np.array([i for i, _ in rows])
        self._log_base = np.log(base[[v for _, v in rows]])
        # base and n_u of each (cluster, u)
        self._base = base[[u for u, _ in pairs]]
        self._pair_count = np.array([n for _, n in pairs], dtype=float)
        self._pair_start = np.cumsum(lengths) - lengths
        self.sizes = np.array([sum(counts.values()) for counts in kept], dtype=float)

    def expected(self, weights: FloatArray, concentration: float) -> tuple[FloatArray, float]:
        """Expected fresh draws by component, shape [components], and in total."""
        mixed = np.maximum(self._parts @ weights, _SMALLEST)
        a = concentration * mixed
        log_rows = self._log_base + np.add.reduceat(_log_rising(a, self._count), self._row_start)
        chance = np.maximum(concentration * (1 - weights[COPY]) * self._base, _SMALLEST)
        log_chance = np.add.reduceat(_log_rising(chance, self._pair_count), self._pair_start)
        top = log_chance.copy()
        np.maximum.at(top, self._row_cluster, log_rows)
        of_rows = np.exp(log_rows - top[self._row_cluster])
        of_chance = np.exp(log_chance - top)
        total = of_chance + np.bincount(self._row_cluster, of_rows, minlength=len(top))
        of_rows /= total[self._row_cluster]
        of_chance /= total

        cells_in_row = np.diff(np.append(self._row_start, len(a)))
        fresh = _tables(a, self._count) * np.repeat(of_rows, cells_in_row)
        drawn = ((fresh / mixed)[:, None] * self._parts * weights).sum(axis=0)
        pairs_in_cluster = np.diff(np.append(self._pair_start, len(chance)))
        by_chance = (
            _tables(chance, self._pair_count) * np.repeat(of_chance, pairs_in_cluster)
        ).sum()
        # a true value that was not seen: all observations are distorted in unknown ways
        others = np.array(weights)
        others[COPY] = 0.0
        drawn += by_chance * others / others.sum()
        return drawn, float(fresh.sum() + by_chance)


def _log_rising(a: FloatArray, n: FloatArray) -> FloatArray:
    return np.asarray(gammaln(a + n) - gammaln(a))


def _tables(a: FloatArray, n: FloatArray) -> FloatArray:
    """Expected fresh draws of a value seen n times: a (psi(a + n) - psi(a)), safe for a = 0."""
    return np.where(n == 1, 1.0, a * (digamma(a + n) - digamma(a)))


def _most_seen(counts: Counts) -> Counts:
    if len(counts) <= _MOST_VALUES:
        return counts
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return dict(ranked[:_MOST_VALUES])


_LEAST_EVIDENCE = 1.0  # nats from which two values agree
_MOST_HOLDERS = 12  # records of the sample with a rare key
_MOST_NEAR_MISSES = 4_000
_FEWEST_VOTES = 30
_PSEUDO_VOTES = 10.0
_USUAL_AGREEMENT = 0.75
_LEAST_DISCOUNT = 0.1


def discounted(
    vocabularies: Mapping[str, Vocabulary],
    rates: Rates,
    records: Sequence[Record],
    clusters: Sequence[Cluster],
    sharing: Sequence[SharedKeys],
) -> dict[str, AttributeRates]:
    """The rates, which have none, with the discount of each attribute's evidence, above 0 and at
    most 1."""
    read_as = [(vocabulary, rates[name]) for name, vocabulary in vocabularies.items()]
    urns = UrnClusters(Encoder(vocabularies), read_as)
    urns.meet([[u for record in records for k, u in record if k == i] for i in range(len(read_as))])
    apart = [_Votes() for _ in vocabularies]
    for i, j, shared in _near_misses(sharing, clusters):
        _vote(apart, urns, records[i], records[j], shared)
    together = [_Votes() for _ in vocabularies]
    for cluster in clusters:
        for i, j in pairwise(cluster):
            _vote(together, urns, records[i], records[j], None)
    usual = [
        (votes.agreeing + _PSEUDO_VOTES * _USUAL_AGREEMENT) / (votes.all + _PSEUDO_VOTES)
        for votes in together
    ]
    shares = sorted(
        (votes.agreeing + 1) / (votes.all + 1) / m
        for votes, m in zip(apart, usual, strict=True)
        if votes.all >= _FEWEST_VOTES
    )
    split = shares[(len(shares) - 1) // 4] if shares else 1.0
    found = (votes.discount(split * m) for votes, m in zip(apart, usual, strict=True))
    pairs = zip(vocabularies, found, strict=True)
    return {name: replace(rates[name], discount=discount) for name, discount in pairs}


class _Votes:
    """Pairs of records that both state an attribute; the evidence of agreeing ones, in nats."""

    def __init__(self) -> None:
        self.all = self.agreeing = 0
        self.evidence = 0.0

    def discount(self, split: float) -> float:
        """The discount, after removing this share of all pairs, which agree as one entity."""
        if self.all < _FEWEST_VOTES or not self.agreeing:
            return 1.0
        mean = self.evidence / self.agreeing
        agreeing = max(self.agreeing - split * self.all, 0.0)
        q = (agreeing + _PSEUDO_VOTES * exp(-mean)) / (self.all + _PSEUDO_VOTES)
        return min(max(-log(q) / mean, _LEAST_DISCOUNT), 1.0)


def _vote(
    votes: list[_Votes], urns: UrnClusters, x: Record, y: Record, shared: set[int] | None
) -> None:
    others = dict(y)
    for index, u in x:
        v = others.get(index)
        if v is None or (shared is not None and not shared - {index}):
            continue
        evidence = urns.evidence(index, min(u, v), max(u, v))
        votes[index].all += 1
        if evidence > _LEAST_EVIDENCE:
            votes[index].agreeing += 1
            votes[index].evidence += evidence


SharedKeys: TypeAlias = tuple[int, int, set[int]]
"""A pair of records, and the attributes in which they share a rare key."""


def keys_shared(vocabularies: Sequence[Vocabulary], records: Sequence[Record]) -> list[SharedKeys]:
    """The pairs of records that share a rare key, ascending."""
    holders: dict[tuple[int, int, int], list[int]] = {}
    for i, record in enumerate(records):
        for index, u in record:
            holders.setdefault((index, -1, u), []).append(i)
            for name, feature in vocabularies[index].features(u):
                holders.setdefault((index, name, feature), []).append(i)
    shared: dict[tuple[int, int], set[int]] = {}
    for (index, _, _), held in holders.items():
        if len(held) <= _MOST_HOLDERS:
            for pair in combinations(held, 2):
                shared.setdefault(pair, set()).add(index)
    return [(i, j, attributes) for (i, j), attributes in sorted(shared.items())]


def _near_misses(sharing: Sequence[SharedKeys], clusters: Sequence[Cluster]) -> list[SharedKeys]:
    """The first pair of each two clusters that share a rare key."""
    of_record = {i: number for number, cluster in enumerate(clusters) for i in cluster}
    voted: dict[tuple[int, int], SharedKeys] = {}
    for i, j, attributes in sharing:
        first, second = sorted((of_record[i], of_record[j]))
        if first == second:
            continue
        voted.setdefault((first, second), (i, j, attributes))
        if len(voted) >= _MOST_NEAR_MISSES:
            break
    return list(voted.values())


_MOST_ATTRIBUTES = 200
_SAMPLE = 2000
_MOST_ROUNDS = 4
_SETTLED = 0.03  # the rounds end at a smaller relative change of the number of entities
# draws that the prior is worth for each draw of the clusters found: otherwise similar entities that
# were once merged would make rates that merge more of them
_PRIOR_WEIGHT = 2.0
_START_SIZE = 2.0  # fragments of an entity, as a first guess


@dataclass(frozen=True, slots=True)
class FittedAttributes:
    """The learned vocabularies and rates."""

    vocabularies: dict[str, Vocabulary]
    rates: Rates
    alpha: float  # expects as many entities as were found
    sample: int  # number of fragments that were clustered or are labelled


def vocabularies_of(
    said: StatedValues, kinds: dict[str, Kind] | None = None
) -> dict[str, Vocabulary]:
    """Every attribute's values, its kind given or inferred; the most common ones if there are very
    many."""
    counts = _counts_stated(said)
    common = sorted(counts, key=lambda a: (-sum(counts[a].values()), a))[:_MOST_ATTRIBUTES]
    read_all = len(common) == len(said.attributes)
    found = dict(said.kinds) if read_all else kinds_of({a: counts[a] for a in common})
    del counts
    read = said.read(found)
    counts = _counts_stated(read)
    idle = idle_attributes(read.related_records(), counts, len(said))
    changed: dict[str, Kind] = dict.fromkeys(idle, "nothing")
    changed |= {a: kind for a, kind in (kinds or {}).items() if a in found}
    found |= changed
    if changed:
        counts = _counts_stated(said.read(found))
    return {a: Vocabulary(found[a], counts[a]) for a in sorted(counts)}


def _counts_stated(said: StatedValues) -> dict[str, dict[str, int]]:
    """For each attribute, how many fragments state each value, without blank ones."""
    counts = said.counts()
    for of in counts.values():
        of.pop("", None)
    return {attribute: of for attribute, of in counts.items() if of}


def fit_unlabelled(
    fragments: Sequence[Fragment],
    said: StatedValues,
    vocabularies: dict[str, Vocabulary],
    index: CandidateIndex,
    model: ModelOf,
    given: Rates | None = None,
    size: int = _SAMPLE,
) -> FittedAttributes:
    """Learn from the fragments to be clustered, at least one, which say `said`; given rates stay.

    Of more than `size` fragments a sample is read.
    """
    drawn = neighbourhoods(fragments, index, size, lambda some: digests_of(ids_of(some)))
    seeds, sample = drawn.seeds, drawn.fragments
    known = {a: rates for a, rates in (given or {}).items() if a in vocabularies}
    rates = {a: AttributeRates.prior(v.kind) for a, v in vocabularies.items()} | known
    contents = said.read({a: v.kind for a, v in vocabularies.items()})
    different = contents.first_of_content()
    most = most_entities(len(fragments), int(different.sum()))
    entities = min(len(fragments) / _START_SIZE, most)
    alpha = concentration_for(len(fragments), entities)
    # equal fragments, such as bare names, are one entity or can not be told apart
    vocabularies = by_record = _counted_by_content(vocabularies, contents, different)
    del contents, said
    records = Encoder(vocabularies).encode_all(sample)
    used: list[list[int]] = [[] for _ in vocabularies]
    for k, u in chain.from_iterable(records):
        used[k].append(u)
    for vocabulary, numbers in zip(vocabularies.values(), used, strict=True):
        vocabulary.remember(numbers)
    sharing = keys_shared([*vocabularies.values()], records)
    for _ in range(_MOST_ROUNDS):
        spec = ModelSpec(model(vocabularies, rates), alpha, index=index)
        clusters = GreedyClusterer().cluster(sample, spec, np.random.default_rng(0)).clusters()
        vocabularies = counted_by_entity(by_record, records, clusters)
        rates = rates_of(vocabularies, records, clusters, _PRIOR_WEIGHT) | known
        rates = discounted(vocabularies, rates, records, clusters, sharing) | known
        size_of = {i: len(cluster) for cluster in clusters for i in cluster}
        before = entities
        found = len(fragments) * float(np.mean([1 / size_of[i] for i in range(seeds)]))
        entities = min(found, most)
        alpha = concentration_for(len(fragments), entities)
        if abs(entities - before) < _SETTLED * before:
            break
    return FittedAttributes(vocabularies, rates, alpha, len(sample))


def fit_labelled(
    fragments: Sequence[Fragment],
    clusters: Sequence[Cluster],
    vocabularies: dict[str, Vocabulary],
) -> FittedAttributes:
    """Learn from gold clusters of the fragments."""
    records = Encoder(vocabularies).encode_all(fragments)
    vocabularies = counted_by_entity(vocabularies, records, clusters)
    rates = rates_of(vocabularies, records, clusters)
    n = sum(map(len, clusters))
    return FittedAttributes(vocabularies, rates, concentration_for(n, len(clusters)), n)


def most_entities(fragments: int, different: int) -> float:
    """The maximum plausible number of entities, whatever the clustering: D / (n / D).

    Each of the D different contents of n fragments is stated n / D times on average, and an entity
    is assumed to have as many different contents. Without the bound, a grouping that leaves bare
    names alone would confirm itself: with an alpha above n no agreement on one attribute outweighs
    a new entity.
    """
    return different**2 / fragments


def _counted_by_content(
    vocabularies: dict[str, Vocabulary], contents: StatedValues, different: NDArray[np.bool_]
) -> dict[str, Vocabulary]:
    """The vocabularies with identical fragments counted once.

    Otherwise a bare name of fifty fragments looks common, and the fifty stay separate in every
    round.
    """
    out = dict(vocabularies)
    for name, values, often in zip(
        contents.attributes, contents.values, contents.often(different), strict=True
    ):
        if name in vocabularies:
            counts = vocabularies[name].counted_counts.copy()
            stated = [k for k, value in enumerate(values) if value]
            counts[vocabularies[name].numbers([values[k] for k in stated])] = often[stated]
            out[name] = vocabularies[name].recounted(counts)
    return out


def counted_by_entity(
    vocabularies: dict[str, Vocabulary],
    records: Sequence[Record],
    clusters: Sequence[Cluster],
) -> dict[str, Vocabulary]:
    """The vocabularies with each value counted once per entity, as far as the clusters show.

    The base distribution is over the true values of entities. Values outside the clusters get the
    average count of others; an entity's variants of a title count once together.
    """
    titles = [vocabulary.kind == "title" for vocabulary in vocabularies.values()]
    of_records: list[Counter[int]] = [Counter() for _ in vocabularies]
    of_entities: list[dict[int, float]] = [{} for _ in vocabularies]
    for cluster in clusters:
        values = Counter(pair for i in cluster for pair in records[i])
        of_attribute = Counter(index for i in cluster for index, _ in records[i])
        for (index, value), n in values.items():
            of_records[index][value] += n
            share = n / of_attribute[index] if titles[index] else 1.0
            of_entities[index][value] = of_entities[index].get(value, 0.0) + share
    out = {}
    for index, (attribute, vocabulary) in enumerate(vocabularies.items()):
        seen, entities = of_records[index], of_entities[index]
        usual = sum(entities.values()) / max(seen.total(), 1)
        least = LEAST_COUNT if titles[index] else 1.0
        shares = np.full(len(vocabulary.counted_counts), usual)
        for u, n in seen.items():
            if vocabulary.counted(u):
                shares[u] = entities[u] / n
        counts = np.maximum(least, vocabulary.counted_counts * shares)
        out[attribute] = vocabulary.recounted(counts)
    return out


def rates_of(
    vocabularies: dict[str, Vocabulary],
    records: Sequence[Record],
    clusters: Sequence[Cluster],
    prior_weight: float = 0.0,
) -> dict[str, AttributeRates]:
    """Each attribute's rates from clusters of records; `prior_weight` as in `learn_rates`."""
    held: list[list[Counts]] = [[] for _ in vocabularies]
    for cluster in clusters:
        of_cluster: dict[int, Counts] = {}
        for i in cluster:
            for index, value in records[i]:
                counts = of_cluster.setdefault(index, {})
                counts[value] = counts.get(value, 0) + 1
        for index, counts in of_cluster.items():
            held[index].append(counts)
    return {
        attribute: learn_rates(
            vocabulary, held[index], AttributeRates.prior(vocabulary.kind), prior_weight
        )
        for index, (attribute, vocabulary) in enumerate(vocabularies.items())
    }


def concentration_for(fragments: int, entities: float) -> float:
    """The alpha under which this many fragments are expected to form this many entities."""
    low, high = -10.0, 30.0
    target = min(max(entities, 1.0 + 1e-9), fragments * (1 - 1e-9))

    def excess(log_alpha: float) -> float:
        return DirichletProcess(float(np.exp(log_alpha))).expected_clusters(fragments) - target

    if excess(low) >= 0:
        return float(np.exp(low))
    if excess(high) <= 0:
        return float(np.exp(high))
    return float(np.exp(root_of(excess, low, high)))
