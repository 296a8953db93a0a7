"""How much less an agreement is worth where other attributes agree already.

Records of two products of one line share the brand, words of the title and often the price. Added
up as if these were independent, they say that the products are one. How often they go together is
seen in near misses: records of different clusters that have a rare key of some other attribute in
common. One pair of records votes for a pair of clusters. With

    q = share of near misses that agree on the attribute
    m = share of pairs of one cluster that do
    e = mean evidence of such an agreement, in nats

the evidence is multiplied by a discount d, so that agreement is worth what its frequency among near
misses warrants: q exp(d e) = 1, as the mean of a likelihood ratio is 1 among pairs that do not
match.

Some near misses are entities that were split. They agree on all attributes nearly as often as pairs
of one cluster do, while dependence raises q of some only. So the share of split entities is taken
to be the lower quartile of q / m over the attributes, and m times as much is taken out of every q
first. Entities with many records, of which some stay apart, are then little mistaken for
dependence; nor is a file discounted whose records state one attribute.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from math import exp, log

from kbforge.contracts import Cluster
from kbforge_plugins.models.attributes.live_urns import Record
from kbforge_plugins.models.attributes.urn import Urns

_LEAST_EVIDENCE = 1.0
"""Nats from which on two values agree."""
_MOST_HOLDERS = 12
"""A key that more records of the sample have is not rare."""
_MOST_NEAR_MISSES = 4_000
_FEWEST_VOTES = 30
_PSEUDO_VOTES = 10.0
_USUAL_AGREEMENT = 0.75
_LEAST_DISCOUNT = 0.1


def discounts_of(
    urns: Sequence[Urns], records: Sequence[Record], clusters: Sequence[Cluster]
) -> list[float]:
    """The discount of each attribute's evidence, above 0 and at most 1, by its index.

    Args:
        urns: of each attribute, without a discount.
        records: what was clustered.
        clusters: of the records, by place.

    """
    apart = [_Votes() for _ in urns]
    for i, j, shared in _near_misses(urns, records, clusters):
        _vote(apart, urns, records[i], records[j], shared)
    together = [_Votes() for _ in urns]
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
    return [votes.discount(split * m) for votes, m in zip(apart, usual, strict=True)]


class _Votes:
    """Pairs of records that both state an attribute.

    Attributes:
        all: pairs.
        agreeing: those that agree.
        evidence: sum over these, in nats.

    """

    def __init__(self) -> None:
        self.all = self.agreeing = 0
        self.evidence = 0.0

    def discount(self, split: float) -> float:
        """With this share of all pairs taken out, for they agree as one entity."""
        if self.all < _FEWEST_VOTES or not self.agreeing:
            return 1.0
        mean = self.evidence / self.agreeing
        agreeing = max(self.agreeing - split * self.all, 0.0)
        q = (agreeing + _PSEUDO_VOTES * exp(-mean)) / (self.all + _PSEUDO_VOTES)
        return min(max(-log(q) / mean, _LEAST_DISCOUNT), 1.0)


def _vote(
    votes: list[_Votes], urns: Sequence[Urns], x: Record, y: Record, shared: set[int] | None
) -> None:
    others = dict(y)
    for index, u in x:
        v = others.get(index)
        if v is None or (shared is not None and not shared - {index}):
            continue
        first, second = urns[index].single(min(u, v)), max(u, v)
        evidence = first.gain(second) - urns[index].single(second).log_marginal
        votes[index].all += 1
        if evidence > _LEAST_EVIDENCE:
            votes[index].agreeing += 1
            votes[index].evidence += evidence


def _near_misses(
    urns: Sequence[Urns], records: Sequence[Record], clusters: Sequence[Cluster]
) -> list[tuple[int, int, set[int]]]:
    """Pairs of records, and the attributes of which they have a rare key in common."""
    of_record = {i: number for number, cluster in enumerate(clusters) for i in cluster}
    holders: dict[tuple[int, int, int], list[int]] = {}
    for i, record in enumerate(records):
        for index, u in record:
            holders.setdefault((index, -1, u), []).append(i)
            for name, feature in urns[index].vocabulary.features[u]:
                holders.setdefault((index, name, feature), []).append(i)
    shared: dict[tuple[int, int], set[int]] = {}
    for (index, _, _), held in holders.items():
        if len(held) <= _MOST_HOLDERS:
            for pair in combinations(held, 2):
                if of_record[pair[0]] != of_record[pair[1]]:
                    shared.setdefault(pair, set()).add(index)
    voted: dict[tuple[int, int], tuple[int, int, set[int]]] = {}
    for (i, j), attributes in sorted(shared.items()):
        first, second = sorted((of_record[i], of_record[j]))
        voted.setdefault((first, second), (i, j, attributes))
        if len(voted) >= _MOST_NEAR_MISSES:
            break
    return list(voted.values())
