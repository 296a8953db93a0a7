"""Hypotheses: the groupings of a sample that the judge chooses from, and what it reads of them.

They are exact names, and of each likelihood the groupings along its merge path. A hypothesis is
also seen in the light of the others: where several likelihoods find the same, it is likely there.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray, Fragment, IntArray
from kbforge.judge.paths import MergePath
from kbforge.judge.seen import Seen
from kbforge.judge.statistics import (
    NAN,
    agreement,
    file_statistics,
    grouping_statistics,
    path_statistics,
)

NAMES = "names"
KINDS = (NAMES, "bigram", "attributes", "pairs")
"""Likelihoods that the judge was trained with; another is judged as the one it is like."""
_LOG_ALPHAS: Mapping[str, tuple[float, ...]] = {
    "bigram": tuple(float(a) for a in range(27)),
    "attributes": tuple(float(a) for a in range(1, 22)),
    "pairs": tuple(a / 2 for a in range(-6, 13)),
}


def log_alphas_of(likelihood: str, like: Mapping[str, str] | None = None) -> tuple[float, ...]:
    """Where the merge path of a likelihood is looked at, ascending.

    Args:
        likelihood: its name.
        like: likelihood -> the one of `KINDS` that it is judged as; another is as attributes are.

    """
    judged_as = (like or {}).get(likelihood, likelihood)
    return _LOG_ALPHAS.get(judged_as, _LOG_ALPHAS["attributes"])


@dataclass(frozen=True, eq=False)
class Hypothesis:
    """A grouping of a sample.

    Attributes:
        likelihood: which likelihood's merge path it is on; "names" for exact names.
        log_alpha: where on the path; 0 for exact names.
        labels: [n] its smallest fragment, by fragment.

    """

    likelihood: str
    log_alpha: float
    labels: IntArray

    @property
    def alpha(self) -> float:
        """The concentration under which the likelihood finds this grouping."""
        return math.exp(self.log_alpha)

    @property
    def clusters(self) -> tuple[tuple[int, ...], ...]:
        """Its clusters, by smallest fragment; each ascending."""
        held: dict[int, list[int]] = {}
        for i, label in enumerate(self.labels.tolist()):
            held.setdefault(label, []).append(i)
        return tuple(tuple(held[label]) for label in sorted(held))


def hypotheses(
    seen: Seen, paths: Mapping[str, MergePath], like: Mapping[str, str] | None = None
) -> list[Hypothesis]:
    """Exact names, then each path's groupings by alpha; those that repeat the one before are out.

    Of groupings that repeat each other along a path the one in the middle of their alphas stays.
    """
    out = [Hypothesis(NAMES, 0.0, seen.exact)]
    for name, path in paths.items():
        log_alphas = log_alphas_of(name, like)
        groupings = path.labels(log_alphas)
        first = 0
        for k in range(len(log_alphas)):
            last = k + 1 == len(log_alphas)
            if last or not np.array_equal(groupings[k], groupings[k + 1]):
                log_alpha = 0.5 * (log_alphas[first] + log_alphas[k])
                out.append(Hypothesis(name, log_alpha, groupings[k]))
                first = k + 1
    return out


def statistics_of(
    seen: Seen,
    found: Sequence[Hypothesis],
    everything: Sequence[Fragment],
    like: Mapping[str, str] | None = None,
) -> tuple[tuple[str, ...], FloatArray]:
    """What the judge reads: names of the statistics, and [hypotheses, statistics].

    Args:
        seen: the sample.
        found: as of `hypotheses`.
        everything: the file.
        like: likelihood -> the one of `KINDS` that it is judged as, where that is another.

    """
    of_file = file_statistics(seen, everything)
    on_path: list[dict[str, float]] = []
    for likelihood in dict.fromkeys(h.likelihood for h in found):
        own = [h for h in found if h.likelihood == likelihood]
        if likelihood == NAMES:
            on_path += [_nowhere()]
        else:
            on_path += path_statistics(seen.n, [h.log_alpha for h in own], [h.labels for h in own])
    others = _beside_others(found, like or {})
    rows = [
        {
            **of_file,
            **grouping_statistics(seen, hypothesis.labels),
            **path,
            **beside,
            **_kind(hypothesis.likelihood, like or {}),
        }
        for hypothesis, path, beside in zip(found, on_path, others, strict=True)
    ]
    names = tuple(rows[0])
    return names, np.array([[row[name] for name in names] for row in rows], dtype=np.float64)


def _nowhere() -> dict[str, float]:
    (row,) = path_statistics(1, [0.0], [np.zeros(1, dtype=np.int64)])
    return dict.fromkeys(row, NAN)


def _kind(likelihood: str, like: Mapping[str, str]) -> dict[str, float]:
    judged_as = like.get(likelihood, likelihood)
    return {f"is {kind}": float(kind == judged_as) for kind in KINDS}


def _beside_others(found: Sequence[Hypothesis], like: Mapping[str, str]) -> list[dict[str, float]]:
    """How well each agrees with the other likelihoods' hypotheses: best, and on average."""
    n = len(found)
    kinds = [like.get(h.likelihood, h.likelihood) for h in found]
    alike = np.full((n, n), NAN)
    for a in range(n):
        for b in range(a):
            if kinds[a] != kinds[b]:
                alike[a, b] = alike[b, a] = agreement(found[a].labels, found[b].labels)[2]
    out = []
    for a in range(n):
        row = {}
        for kind in KINDS[1:]:
            columns = [b for b in range(n) if found[b].likelihood == kind]
            values = alike[a, columns] if kind != kinds[a] else np.zeros(0)
            row[f"best like {kind}"] = float(values.max()) if len(values) else NAN
            row[f"mean like {kind}"] = float(values.mean()) if len(values) else NAN
        out.append(row)
    return out
