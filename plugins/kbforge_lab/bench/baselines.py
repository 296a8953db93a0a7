"""Baselines: groupings that need no model.

| baseline | an entity |
|---|---|
| all apart | is one fragment: what the measures give for nothing |
| exact name | has one first name, case folded; of linked tables it has one fragment each |
| TF-IDF | has texts that are alike |
| ceiling | gives identical fragments their most common label: about the best possible |

The text of a fragment is all its values. *TF-IDF* (Salton and Buckley 1988) weighs each of its
character trigrams by how often it is there times how rare it is, in lower case and as scikit-learn
does by default:

| symbol | meaning |
|---|---|
| n, n_t | texts; texts with the trigram t |
| c_t | occurrences of t in a text |
| w_t | its weight c_t (1 + log((1 + n) / (1 + n_t))), then divided by the length of w |

Two texts are as alike as the cosine of their weights. In a file, texts from .6 on are one entity,
and so are texts that are connected by such pairs. Between linked tables, pairs are taken from the
most alike down to .3, each fragment once. The ceiling knows no link, which may tell more.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge_lab.suites.plan import Baseline

ALIKE, ALIKE_IN_TABLES = 0.6, 0.3
MOST = 100_000
"""Fragments that TF-IDF groups at most, since it compares them all: the first ones of a file."""
_CELLS = 5_000_000  # of a block of cosines, which decide its memory
_PARTNERS = 50  # of a fragment among those before it, the most alike; nearly always one is enough

Pairs: TypeAlias = tuple[IntArray, IntArray, FloatArray]
"""Of pairs, [pairs] each: the later fragment, the earlier one, their cosine."""


def group(baseline: Baseline, fragments: Sequence[Fragment], linked: bool) -> list[Hashable]:
    """A label for each fragment, or for as many of the first as the baseline can group."""
    if baseline == "all apart":
        return list(range(len(fragments)))
    if baseline == "exact name":
        return _exact_name(fragments, linked)
    if baseline == "ceiling":
        return _ceiling(fragments)
    weights = trigram_weights([_text(fragment) for fragment in fragments[:MOST]])
    if not linked:
        return list(connected(weights, ALIKE))
    tables = np.unique([f.source or "" for f in fragments[:MOST]], return_inverse=True)[1]
    return list(one_to_one(weights, ALIKE_IN_TABLES, tables))


def _exact_name(fragments: Sequence[Fragment], linked: bool) -> list[Hashable]:
    names = [_name(fragment) for fragment in fragments]
    if not linked:
        return names
    # the first of a name in one table goes with the first in the other, and so on
    seen: Counter[Hashable] = Counter()
    found: list[Hashable] = []
    for name, fragment in zip(names, fragments, strict=True):
        found.append((name, seen[name, fragment.source]))
        seen[name, fragment.source] += 1
    return found


def _name(fragment: Fragment) -> Hashable:
    """Records without `name` may have a first name and a surname instead."""
    if fragment.names:
        return fragment.names[0].casefold()
    names = (fragment.properties.get(part, ("",))[0] for part in ("first_name", "surname"))
    parts = tuple(name.casefold() for name in names)
    # no name is a tuple of one
    return parts if any(parts) else (fragment.id,)


def _ceiling(fragments: Sequence[Fragment]) -> list[Hashable]:
    """The label that most of those have who say the same; the first of them among as many."""
    said = [(tuple(sorted(f.properties.items())), f.vector) for f in fragments]
    labels: dict[Hashable, Counter[str | None]] = defaultdict(Counter)
    for what, fragment in zip(said, fragments, strict=True):
        labels[what][fragment.label] += 1
    best = {what: counts.most_common(1)[0][0] for what, counts in labels.items()}
    return [best[what] for what in said]


def _text(fragment: Fragment) -> str:
    return " ".join(value for values in fragment.properties.values() for value in values)


def trigram_weights(texts: Sequence[str]) -> sparse.csr_array:
    """w of each text, [texts, trigrams], of length 1; 0 for one of less than three characters."""
    numbers: dict[str, int] = {}
    columns, ends = [], [0]
    for text in texts:
        told = re.sub(r"\s\s+", " ", text.lower())
        for k in range(len(told) - 2):
            columns.append(numbers.setdefault(told[k : k + 3], len(numbers)))
        ends.append(len(columns))
    shape = (len(texts), max(1, len(numbers)))
    weights = sparse.csr_array((np.ones(len(columns)), columns, ends), shape=shape)
    weights.sum_duplicates()
    texts_with = np.bincount(weights.indices, minlength=shape[1])
    weights.data *= 1 + np.log((1 + len(texts)) / (1 + texts_with[weights.indices]))
    row = np.repeat(np.arange(len(texts)), np.diff(weights.indptr))
    weights.data /= np.sqrt(np.bincount(row, weights.data**2, minlength=len(texts)))[row]
    return weights


def connected(weights: sparse.csr_array, least: float, cells: int = _CELLS) -> list[int]:
    """A label for each text; texts that are so alike, or connected by such, have the same one."""
    n = weights.shape[0]
    labels: IntArray = np.arange(n)
    for later, earlier, _ in _alike(weights, least, cells):
        graph = sparse.csr_array((np.ones(len(later)), (labels[later], labels[earlier])), (n, n))
        labels = connected_components(graph, directed=False)[1][labels]
    found: list[int] = labels.tolist()
    return found


def one_to_one(
    weights: sparse.csr_array, least: float, tables: IntArray, cells: int = _CELLS
) -> list[int]:
    """A label for each text; pairs of two tables, from the most alike on, each text once."""
    blocks = [_partners(pairs, tables) for pairs in _alike(weights, least, cells)]
    later, earlier, cosine = map(np.concatenate, zip(*blocks, strict=True))
    labels = list(range(weights.shape[0]))
    free = set(labels)
    for pair in np.argsort(-cosine, kind="stable").tolist():
        one, other = int(later[pair]), int(earlier[pair])
        if one in free and other in free:
            free -= {one, other}
            labels[one] = other
    return labels


def _alike(weights: sparse.csr_array, least: float, cells: int) -> Iterator[Pairs]:
    """The pairs that are at least so alike, in blocks of later texts."""
    n = weights.shape[0]
    step = max(1, cells // n)
    for begin in range(0, n, step):
        end = min(begin + step, n)
        found = (weights[begin:end] @ weights[:end].T).tocoo()
        later, earlier = found.row + begin, found.col
        kept = (found.data >= least) & (earlier < later)
        yield later[kept], earlier[kept], found.data[kept]


def _partners(pairs: Pairs, tables: IntArray) -> Pairs:
    """The pairs of two tables, of each later text the most alike."""
    later, earlier, cosine = pairs
    order = np.lexsort((-cosine, later))
    order = order[tables[later[order]] != tables[earlier[order]]]
    later, earlier, cosine = later[order], earlier[order], cosine[order]
    best = np.arange(len(later)) - np.searchsorted(later, later) < _PARTNERS
    return later[best], earlier[best], cosine[best]
