"""Rates and alpha from unlabelled fragments: expectation maximisation over a greedy clustering.

    vocabulary and kind of each attribute          from all fragments
    a sample: fragments and all that resemble them
    repeat: cluster the sample greedily; from its clusters learn the rates, how many entities
            have each value, and alpha

Clusters that were found are not labels, so two thirds of every weight are what is assumed
beforehand (`AttributeRates.prior`) and a third is learned. The sample is chosen by what the
fragments' ids hash to, so that the result depends on the set of fragments and not on their order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kbforge.clustering.prior import DirichletProcess
from kbforge.clustering.sample import neighbourhoods
from kbforge.contracts import CandidateIndex, Cluster, Problem
from kbforge.contracts.fragment import Fragment
from kbforge_plugins.clusterers.greedy import Greedy
from kbforge_plugins.models.attributes.counting import Contents, counts_of
from kbforge_plugins.models.attributes.dependence import discounts_of
from kbforge_plugins.models.attributes.kinds import Kind, kind_of
from kbforge_plugins.models.attributes.learning import Counts, learn_rates
from kbforge_plugins.models.attributes.live_urns import Encoder, Record
from kbforge_plugins.models.attributes.model import AttributeModel
from kbforge_plugins.models.attributes.rates import AttributeRates, Rates
from kbforge_plugins.models.attributes.urn import Urns
from kbforge_plugins.models.attributes.vocabulary import LEAST_COUNT, Vocabulary

_MOST_ATTRIBUTES = 200
_SAMPLE = 2000
_MOST_ROUNDS = 4
_SETTLED = 0.03
"""A change of the number of entities that ends the rounds."""
_DOUBT = 2.0
"""Draws that the prior is worth for each draw of the clusters that were found: different things
that are alike, once together, would make rates that put more of them together."""
_START_SIZE = 2.0
"""Fragments an entity, before anything is known."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """What was learned.

    Attributes:
        vocabularies: by attribute.
        rates: of the attributes.
        alpha: the concentration that gives as many entities as were found.
        sample: fragments that were clustered (or labelled).

    """

    vocabularies: dict[str, Vocabulary]
    rates: Rates
    alpha: float
    sample: int


def vocabularies_of(
    fragments: Sequence[Fragment], kinds: dict[str, Kind] | None = None
) -> dict[str, Vocabulary]:
    """Every attribute's values; the rarest attributes of very many are left out.

    Args:
        fragments: to count.
        kinds: attribute -> its kind, where that is known better than the values tell.

    """
    counts = counts_of(fragments)
    common = sorted(counts, key=lambda a: (-counts[a].total(), a))[:_MOST_ATTRIBUTES]
    given = kinds or {}
    return {
        a: Vocabulary(given[a] if a in given else kind_of(counts[a]), counts[a])
        for a in sorted(common)
    }


def fit_unlabelled(
    fragments: Sequence[Fragment],
    vocabularies: dict[str, Vocabulary],
    index: CandidateIndex,
    given: Rates | None = None,
) -> Fitted:
    """Learn from the fragments that will be clustered.

    Args:
        fragments: at least one.
        vocabularies: of the attributes to learn about.
        index: fitted to the fragments.
        given: attribute -> rates that are known and stay as they are.

    """
    drawn = neighbourhoods(fragments, index, _SAMPLE, _digest)
    seeds, sample = drawn.seeds, drawn.fragments
    known = {a: rates for a, rates in (given or {}).items() if a in vocabularies}
    rates = {a: AttributeRates.prior(v.kind) for a, v in vocabularies.items()} | known
    contents = Contents(fragments)
    most = most_entities(contents)
    entities = min(len(fragments) / _START_SIZE, most)
    alpha = concentration_for(len(fragments), entities)
    # equal fragments, such as bare names, are one entity or can not be told apart
    vocabularies = by_record = _counted_by_content(vocabularies, contents)
    del contents
    encoder = Encoder(vocabularies)
    records = [encoder.encode(fragment) for fragment in sample]
    for _ in range(_MOST_ROUNDS):
        problem = Problem(AttributeModel(vocabularies, rates), alpha, index=index)
        clusters = Greedy().cluster(sample, problem, np.random.default_rng(0)).clusters()
        vocabularies = counted_by_entity(by_record, records, clusters)
        rates = rates_of(vocabularies, records, clusters, _DOUBT) | known
        rates = discounted(vocabularies, rates, records, clusters) | known
        size_of = {i: len(cluster) for cluster in clusters for i in cluster}
        before = entities
        found = len(fragments) * float(np.mean([1 / size_of[i] for i in range(seeds)]))
        entities = min(found, most)
        alpha = concentration_for(len(fragments), entities)
        if abs(entities - before) < _SETTLED * before:
            break
    return Fitted(vocabularies, rates, alpha, len(sample))


def fit_labelled(
    fragments: Sequence[Fragment],
    clusters: Sequence[Cluster],
    vocabularies: dict[str, Vocabulary],
) -> Fitted:
    """Learn from gold clusters of the fragments."""
    encoder = Encoder(vocabularies)
    records = [encoder.encode(fragment) for fragment in fragments]
    vocabularies = counted_by_entity(vocabularies, records, clusters)
    rates = rates_of(vocabularies, records, clusters)
    n = sum(map(len, clusters))
    return Fitted(vocabularies, rates, concentration_for(n, len(clusters)), n)


def most_entities(contents: Contents) -> float:
    """More entities than this are not believed, whatever a clustering says.

    Of n fragments D are different. Every one is stated n / D times word for word, and an entity is
    taken to have at least as many different ones: D / (n / D). Where nothing repeats that is n and
    bounds nothing. Without it, a grouping that leaves all fragments alone would confirm itself
    where they have little more than a name: with an alpha above n no agreement on one attribute
    outweighs a new entity.
    """
    return contents.different**2 / contents.fragments


def _counted_by_content(
    vocabularies: dict[str, Vocabulary], contents: Contents
) -> dict[str, Vocabulary]:
    """The vocabularies with fragments that state the same counted once.

    Counted by fragment, a bare name that fifty of them have looks common. Its agreement looks weak
    then, the fifty stay apart, and each round of learning confirms that they are.
    """
    counts = contents.counts()
    return {
        name: vocabulary.recounted({**vocabulary.counts, **counts.get(name, {})})
        for name, vocabulary in vocabularies.items()
    }


def counted_by_entity(
    vocabularies: dict[str, Vocabulary],
    records: Sequence[Record],
    clusters: Sequence[Cluster],
) -> dict[str, Vocabulary]:
    """The vocabularies with each value counted once an entity, as far as the clusters tell.

    What the base distribution is of are the true values of entities. Counted by record, the value
    of an entity with many records looks common, and agreement on it weak. Values that are not in
    the clusters are counted as others are on average. Of titles, of which an entity may have as
    many variants as records, all variants of an entity are counted once together.
    """
    titles = [vocabulary.kind == "title" for vocabulary in vocabularies.values()]
    of_records: list[Counter[int]] = [Counter() for _ in vocabularies]
    of_entities: list[dict[int, float]] = [{} for _ in vocabularies]
    for cluster in clusters:
        held = Counter(pair for i in cluster for pair in records[i])
        of_attribute = Counter(index for i in cluster for index, _ in records[i])
        for (index, value), n in held.items():
            of_records[index][value] += n
            share = n / of_attribute[index] if titles[index] else 1.0
            of_entities[index][value] = of_entities[index].get(value, 0.0) + share
    out = {}
    for index, (attribute, vocabulary) in enumerate(vocabularies.items()):
        seen, entities = of_records[index], of_entities[index]
        usual = sum(entities.values()) / max(seen.total(), 1)
        least = LEAST_COUNT if titles[index] else 1.0
        counts = {
            value: max(least, n * (entities[u] / seen[u] if u in seen else usual))
            for u, (value, n) in enumerate(vocabulary.counts.items())
        }
        out[attribute] = vocabulary.recounted(counts)
    return out


def rates_of(
    vocabularies: dict[str, Vocabulary],
    records: Sequence[Record],
    clusters: Sequence[Cluster],
    doubt: float = 0.0,
) -> dict[str, AttributeRates]:
    """Each attribute's rates from clusters of records; `doubt` is `learn_rates`'s."""
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
            vocabulary, held[index], AttributeRates.prior(vocabulary.kind), doubt
        )
        for index, (attribute, vocabulary) in enumerate(vocabularies.items())
    }


def discounted(
    vocabularies: dict[str, Vocabulary],
    rates: Rates,
    records: Sequence[Record],
    clusters: Sequence[Cluster],
) -> dict[str, AttributeRates]:
    """The rates with each attribute's discount, as clusters and near misses show it."""
    urns = [Urns(vocabulary, rates[name]) for name, vocabulary in vocabularies.items()]
    found = discounts_of(urns, records, clusters)
    return {
        name: replace(rates[name], discount=discount)
        for name, discount in zip(vocabularies, found, strict=True)
    }


def concentration_for(fragments: int, entities: float) -> float:
    """The alpha under which so many fragments are expected to form so many entities."""
    from scipy.optimize import brentq  # .2 s to import, and what takes up a model does not fit

    low, high = -10.0, 30.0
    target = min(max(entities, 1.0 + 1e-9), fragments * (1 - 1e-9))

    def excess(log_alpha: float) -> float:
        return DirichletProcess(float(np.exp(log_alpha))).expected_clusters(fragments) - target

    if excess(low) >= 0:
        return float(np.exp(low))
    if excess(high) <= 0:
        return float(np.exp(high))
    return float(np.exp(brentq(excess, low, high)))


def _digest(fragment: Fragment) -> bytes:
    return hashlib.blake2b(fragment.id.encode(), digest_size=8).digest()
