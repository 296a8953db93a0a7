"""Finds attributes that say nothing about entities: source, campaign, clerk.

Two records are *related* if they share rare values of two other attributes. If they agree on most
of the rest, they are mostly one entity, and what describes entities agrees more often among them
than by chance,

    chance = sum over values v of p_v^2

while the source of a record does not. Only attributes of few values are tested: where values hardly
repeat, equality by chance is rare and its absence says nothing about likeness.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from zlib import crc32

_MOST_HOLDERS = 4
_FEWEST_PAIRS = 50
_RARE = 2
_LEAST_AGREEMENT = 0.15
_MOST_ROWS = 20_000
_LEAST_CHANCE = 0.02
_LEAST_LIFT = 0.05
_FEWEST_OTHERS = 2


def idle_attributes(
    said: Sequence[Mapping[str, str]], counts: Mapping[str, Counter[str]]
) -> frozenset[str]:
    """Those of few values that say nothing about which of some records are one entity.

    `said` is by record the value of each attribute, as read, without blank ones; `counts` is by
    attribute how many records state each.
    """
    chance = {
        attribute: found
        for attribute, of in counts.items()
        if len(of) > 1 and (found := _agreement_by_chance(of)) >= _LEAST_CHANCE
    }
    if not chance or len(counts) - len(chance) < _FEWEST_OTHERS:
        return frozenset()
    pairs = _related(said, counts, chance.keys())
    idle = set()
    for attribute, by_chance in chance.items():
        both = [(a[attribute], b[attribute]) for a, b in pairs if attribute in a and attribute in b]
        if len(both) >= _FEWEST_PAIRS:
            agree = sum(a == b for a, b in both) / len(both)
            if (agree - by_chance) / (1 - by_chance) < _LEAST_LIFT:
                idle.add(attribute)
    return frozenset(idle)


def _agreement_by_chance(counts: Counter[str]) -> float:
    """How probably two records that state an attribute state the same."""
    total = counts.total()
    return sum((n / total) ** 2 for n in counts.values())


def _related(
    said: Sequence[Mapping[str, str]],
    counts: Mapping[str, Mapping[str, int]],
    leaving_out: Iterable[str],
) -> list[tuple[Mapping[str, str], Mapping[str, str]]]:
    """Pairs of records that share rare values of two attributes; none unless they share others."""
    out = {*leaving_out}
    # of a large file some values, chosen by themselves, so that their holders stay together
    every = 1 + len(said) // _MOST_ROWS
    holders: dict[tuple[str, str], list[int]] = {}
    for row, record in enumerate(said):
        for attribute, value in record.items():
            if attribute in out or not 2 <= counts[attribute][value] <= _MOST_HOLDERS:
                continue
            if every == 1 or not crc32(value.encode(errors="surrogatepass")) % every:
                holders.setdefault((attribute, value), []).append(row)
    shared = Counter(pair for rows in holders.values() for pair in combinations(rows, 2))
    pairs, stated, agreed = [], 0, 0
    for (i, j), n in shared.items():
        if n < _RARE:
            continue
        a, b = said[i], said[j]
        pairs.append((a, b))
        both = (a.keys() & b.keys()) - out
        stated += len(both) - _RARE
        agreed += sum(a[name] == b[name] for name in both) - _RARE
    sure = stated >= _FEWEST_PAIRS and agreed >= _LEAST_AGREEMENT * stated
    return pairs if sure else []
