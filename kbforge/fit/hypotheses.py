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
from kbforge.fit.expected import EXPECTED, Expected
from kbforge.fit.paths import MergePath
from kbforge.fit.seen import Seen
from kbforge.fit.statistics import (
    NAN,
    agreement,
    file_statistics,
    grouping_statistics,
    path_statistics,
)

NAMES = "names"
KINDS = (NAMES, "bigram", "attributes", "pairs")
"""Likelihoods that the judge was trained with; another is judged as the one it is like."""
_ANCHORS = ("attributes", "pairs")
"""Likelihoods whose own alpha says something of a file, if not enough."""
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
        own: the log alpha that the likelihood takes by itself; NaN if that says nothing of a file.

    """

    likelihood: str
    log_alpha: float
    labels: IntArray
    own: float = NAN

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
    seen: Seen,
    paths: Mapping[str, MergePath],
    own: Mapping[str, float],
    like: Mapping[str, str] | None = None,
) -> list[Hypothesis]:
    """Exact names, then each path's groupings by alpha; those that repeat the one before are out.

    Of groupings that repeat each other along a path the one in the middle of their alphas stays.

    Args:
        seen: the sample.
        paths: likelihood -> its merge path on the sample.
        own: likelihood -> the log alpha that it takes by itself.
        like: likelihood -> the one of `KINDS` that it is judged as, where that is another.

    """
    out = [Hypothesis(NAMES, 0.0, seen.exact)]
    for name, path in paths.items():
        log_alphas = log_alphas_of(name, like)
        groupings = path.labels(log_alphas)
        telling = own[name] if (like or {}).get(name, name) in _ANCHORS else NAN
        first = 0
        for k in range(len(log_alphas)):
            last = k + 1 == len(log_alphas)
            if last or not np.array_equal(groupings[k], groupings[k + 1]):
                log_alpha = 0.5 * (log_alphas[first] + log_alphas[k])
                out.append(Hypothesis(name, log_alpha, groupings[k], telling))
                first = k + 1
    return out


def statistics_of(
    seen: Seen,
    found: Sequence[Hypothesis],
    everything: Sequence[Fragment],
    expected: Expected | None,
    like: Mapping[str, str] | None = None,
) -> tuple[tuple[str, ...], FloatArray]:
    """What the judge reads: names of the statistics, and [hypotheses, statistics].

    Args:
        seen: the sample.
        found: as of `hypotheses`.
        everything: the file.
        expected: by the model of pairs; None where it can read nothing.
        like: likelihood -> the one of `KINDS` that it is judged as, where that is another.

    """
    like = like or {}
    of_file = file_statistics(seen, everything)
    on_path: list[dict[str, float]] = []
    for likelihood in dict.fromkeys(h.likelihood for h in found):
        along = [h for h in found if h.likelihood == likelihood]
        if likelihood == NAMES:
            on_path += [_nowhere()]
        else:
            log_alphas, groupings = [h.log_alpha for h in along], [h.labels for h in along]
            on_path += path_statistics(seen.n, log_alphas, groupings)
    others = _beside_others(found, like)
    anchored = _beside_anchors(found, like)
    unknown = dict.fromkeys(EXPECTED, NAN)
    rows = [
        {
            **of_file,
            **grouping_statistics(seen, hypothesis.labels),
            **path,
            **beside,
            **anchor,
            **(unknown if expected is None else expected.of(hypothesis.labels)),
            **_kind(hypothesis.likelihood, like),
        }
        for hypothesis, path, beside, anchor in zip(found, on_path, others, anchored, strict=True)
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
    kinds = [_judged_as(h, like) for h in found]
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


def _beside_anchors(found: Sequence[Hypothesis], like: Mapping[str, str]) -> list[dict[str, float]]:
    """How each stands to the groupings that likelihoods find at their own alphas."""
    anchors: dict[str, Hypothesis] = {}
    for kind in _ANCHORS:
        along = [h for h in found if _judged_as(h, like) == kind]
        if along:
            anchors[kind] = min(along, key=lambda h: abs(h.log_alpha - h.own))
    out = []
    for hypothesis in found:
        row = {"log alpha over its own": hypothesis.log_alpha - hypothesis.own}
        for kind in _ANCHORS:
            measured = (NAN,) * 3
            if kind in anchors:
                measured = agreement(hypothesis.labels, anchors[kind].labels)
            for name, value in zip(("precision", "recall", "F1"), measured, strict=True):
                row[f"like {kind} at its own alpha, {name}"] = value
        out.append(row)
    return out


def _judged_as(hypothesis: Hypothesis, like: Mapping[str, str]) -> str:
    return like.get(hypothesis.likelihood, hypothesis.likelihood)
