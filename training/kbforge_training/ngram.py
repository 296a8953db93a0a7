"""Trains n-gram models: counts text, chooses the scale, writes a bundle.

The scale says how much a cluster's characters may differ from the language's. With labels it
maximises the evidence of the true clustering, the sum of L(C) over the labelled clusters (split-SMC
paper, appendix D.2.1), over log scale. Without labels it is the likelihood's default.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from kbforge import registry
from kbforge.contracts.fragment import Fragment
from kbforge.errors import KBForgeError, UsageError
from kbforge.fit.alpha import fingerprint
from kbforge.models.bundle import Bundle, write_bundle
from kbforge_lm.likelihoods.ngram import COUNTS_FILE, NgramCounts, NgramPrior, ngrams

LIKELIHOOD_OF_ORDER: Mapping[int, str] = {2: "bigram", 3: "trigram"}

_LOG_SCALES = (math.log(1e-4), math.log(1e4))
_EDGE = 0.01  # of the range: a maximum nearer to an end than this is reported


def train(
    fragments: Iterable[Fragment],
    folder: Path,
    order: int = 2,
    attributes: Sequence[str] = ("name",),
    scale: float | None = None,
    on_fragment: Callable[[int], None] = lambda done: None,
) -> dict[str, Any]:
    """Count all fragments, choose the scale, write the bundle; returns what `--json` prints.

    Args:
        fragments: read once; those with a label tune the scale.
        folder: of the bundle; an old bundle is replaced.
        order: 2 for bigrams, 3 for trigrams.
        attributes: the attributes to count.
        scale: pseudo-observations of each history; None tunes it.
        on_fragment: called with the number of fragments so far.

    Raises:
        UsageError: an order that no likelihood has, or a scale out of range.
        KBForgeError: no text in the attributes, or (ModelError) the bundle cannot be written.
    """
    if order not in LIKELIHOOD_OF_ORDER:
        raise UsageError(f"--order: expected one of 2, 3, got {order}")
    likelihood = LIKELIHOOD_OF_ORDER[order]
    # the constructor checks the options before hours are spent on counting
    options = {"attributes": tuple(attributes), "scale": scale}
    model = registry.create("likelihoods", likelihood, options)
    counts = NgramCounts.empty(order, model.attributes)
    clusters: dict[str, dict[str, Counter[str]]] = {}
    done = 0

    def counted() -> Iterator[Fragment]:
        nonlocal done
        for done, fragment in enumerate(fragments, 1):
            _count(fragment, counts, clusters if scale is None else None)
            on_fragment(done)
            yield fragment

    sha256 = fingerprint(counted())
    distinct = sum(map(len, counts.by_attribute.values()))
    if not distinct:
        raise KBForgeError(
            f"no fragment has a value of {', '.join(model.attributes)}: there is nothing to count "
            "(--attributes names others)"
        )
    untuned = model.scale, None, ""
    best, value, edge = tune(evidence_of(clusters.values(), counts)) if clusters else untuned
    found = {
        "likelihood": likelihood,
        "fragments": done,
        "values": counts.values,  # different ones
        "ngrams": distinct,
        "clusters": len(clusters),  # that the scale was tuned on, 0 if it was not
        "scale": best,
        "evidence": value,  # sum of L(C) over those clusters, in nats
        "at_edge": edge,  # "low" or "high" if the best scale lies at that edge of the range
    }
    write_bundle(folder, _bundle(found, counts, sha256))
    return found


def _bundle(found: Mapping[str, Any], counts: NgramCounts, sha256: str) -> Bundle:
    recipe = {
        "order": counts.order,
        "attributes": list(counts.by_attribute),
        "scale": found["scale"],
        "scale_tuned_on_clusters": found["clusters"],
        "evidence": found["evidence"],
        "at_edge": found["at_edge"],
    }
    data = {"fragments": found["fragments"], "sha256": sha256}
    files = {COUNTS_FILE: counts.to_bytes()}
    return Bundle("likelihoods", found["likelihood"], files, recipe, data)


def _count(
    fragment: Fragment,
    counts: NgramCounts,
    clusters: dict[str, dict[str, Counter[str]]] | None,
) -> None:
    """Count a fragment, and its n-grams in its labelled cluster."""
    counts.add((fragment,))
    if clusters is None or fragment.label is None:
        return
    cluster = clusters.setdefault(fragment.label, {})
    for attribute in counts.by_attribute:
        for value in fragment.properties.get(attribute, ()):
            cluster.setdefault(attribute, Counter()).update(ngrams(value, counts.order))


def evidence_of(
    clusters: Iterable[Mapping[str, Counter[str]]], counts: NgramCounts
) -> Callable[[float], float]:
    """The sum of L(C), in nats, by scale, over clusters given by n-gram counts by attribute."""
    prior = NgramPrior(counts)
    known: dict[tuple[str, str], float] = {}
    probabilities: list[float] = []
    numbers: list[int] = []  # of n-grams of these probabilities in some cluster
    totals: list[int] = []  # of (cluster, history) pairs
    for cluster in clusters:
        for attribute, counter in cluster.items():
            histories: Counter[str] = Counter()
            for gram, count in counter.items():
                histories[gram[:-1]] += count
                p = known.get((attribute, gram))
                if p is None:
                    p = known[attribute, gram] = prior.probability(attribute, gram)
                probabilities.append(p)
                numbers.append(count)
            totals.extend(histories.values())
    p_of, n_of, n_after = np.array(probabilities), np.array(numbers), np.array(totals)

    def at(scale: float) -> float:
        a = scale * p_of
        draws = (gammaln(n_of + a) - gammaln(a)).sum()
        return float(draws - (gammaln(n_after + scale) - gammaln(scale)).sum())

    return at


def tune(evidence: Callable[[float], float]) -> tuple[float, float, str]:
    """The scale of greatest evidence: (scale, evidence in nats, "low" or "high" if at an edge)."""
    low, high = _LOG_SCALES
    found: Any = minimize_scalar(
        lambda log_scale: -evidence(math.exp(log_scale)),
        bounds=(low, high),
        method="bounded",
        options={"xatol": 1e-3},
    )
    margin = _EDGE * (high - low)
    edge = "low" if found.x < low + margin else "high" if found.x > high - margin else ""
    return math.exp(found.x), -float(found.fun), edge
