"""Hypotheses with another bias of the pair model, for answers to choose from.

On data that the model does not know, all its log odds may be too high or too low. A constant added
to those of every compared pair corrects that, and reaches groupings that no alpha gives, since
alpha counts for a merge of two clusters and the constant for each of their pairs. Nothing that is
known without answers says which constant a file needs. So these hypotheses are only made where
there are answers, or are to be.

The scorer was not trained on them. Each is expected to gain what the hypothesis without bias does
that groups the sample most like it, and is worth less the less alike they are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge.fit.description import PairModel
from kbforge.fit.hypotheses import Hypothesis, hypotheses, log_alphas_of, merge_path
from kbforge.fit.judge import Judgement
from kbforge.fit.statistics import agreement

PAIRS = "pairs"
BIASES = (-3.0, -1.5, 1.5, 3.0)
"""Nats that are added to the log odds of every compared pair."""

_UNLIKE = 0.5  # F1 that a hypothesis is worth less if it has nothing in common with the nearest


def with_biases(judged: Judgement, pairs: PairModel) -> Judgement:
    """The judgement with hypotheses of other biases added; `pairs` is fitted to the sample's file.

    Without answers the choice stays the same.
    """
    plain = np.array([k for k, h in enumerate(judged.found) if h.likelihood == PAIRS])
    found, nearest, likeness = [], [], []
    for hypothesis in _biased(judged, pairs, judged.found[plain[0]].own):
        alike = _alike(hypothesis.labels, [judged.found[k].labels for k in plain.tolist()])
        if alike.max() < 1:
            found.append(hypothesis)
            nearest.append(plain[alike.argmax()])
            likeness.append(alike.max())
    at = np.array(nearest, dtype=np.int64)
    worth = judged.worth[at] - _UNLIKE * (1 - np.array(likeness))
    return replace(
        judged,
        found=(*judged.found, *found),
        gains=np.append(judged.gains, judged.gains[at]),
        levels=np.append(judged.levels, judged.levels[at]),
        worth=np.append(judged.worth, worth),
        open=(*judged.open, *(True for _ in found)),
    )


def _biased(judged: Judgement, pairs: PairModel, own: float) -> Iterator[Hypothesis]:
    """The groupings of the sample along the merge path of each bias."""
    sample, exact = judged.sample.fragments, judged.found[0].labels
    for bias in BIASES:
        likelihood = pairs.biased(bias)
        path = merge_path(likelihood, sample, likelihood.index, log_alphas_of(PAIRS)[0])
        _, *along = hypotheses(exact, {PAIRS: path}, {PAIRS: own})
        yield from (replace(hypothesis, bias=bias) for hypothesis in along)


def _alike(labels: IntArray, others: list[IntArray]) -> FloatArray:
    """B-cubed F1 of a grouping with each of some others, shape [others]."""
    return np.array([agreement(labels, other)[2] for other in others])
