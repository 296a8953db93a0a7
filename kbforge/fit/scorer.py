"""The scorer: what a hypothesis is expected to gain over exact names, by shipped trees.

Its file holds two ensembles over the same statistics: one for the gain in mean B-cubed F1 over
exact names, by which hypotheses are compared, and one for the F1 itself, by which doubt is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kbforge.contracts import FloatArray
from kbforge.errors import ModelError, quoted
from kbforge.fit.hypotheses import NAMES, Hypothesis
from kbforge.models.trees import Trees, read_trees

JUDGE_FILE = "judge.safetensors"
_LARGEST_MARGIN = 1.0
_SMOOTHING = (0.1, 0.2, 0.4, 0.2, 0.1)
_PULL = 0.01
"""F1 that a nat of log alpha away from a likelihood's own costs."""
_FAR = 3.0
"""Nats of log alpha from which on nothing more is lost."""
_OF_RECORDS = "attributes"
_ATTRIBUTES_OF_A_RECORD = 2.5
_TRUST = 0.04
"""F1 that the attribute likelihood at its own alpha is worth more on records."""


@dataclass(frozen=True, eq=False)
class Scorer:
    """Trees and how they are read.

    Attributes:
        gain: predicts the gain in F1 over exact names.
        level: predicts the F1.
        margin: what another grouping must be expected to gain before it displaces exact names.
        spread: standard deviation of what is predicted less what comes true, among the hypotheses
            of one file.

    """

    gain: Trees
    level: Trees
    margin: float
    spread: float

    def gains(
        self, names: Sequence[str], statistics: FloatArray, found: Sequence[Hypothesis]
    ) -> FloatArray:
        """The expected gain of each hypothesis, [hypotheses]; 0 for exact names.

        Along a merge path gains are smoothed, so that a single alpha that looks good between bad
        ones is not taken.
        """
        raw = self.gain.predict(_in_order(names, statistics, self.gain.features))
        return smoothed(raw, found)

    def levels(self, names: Sequence[str], statistics: FloatArray) -> FloatArray:
        """The expected F1 of each hypothesis, [hypotheses]."""
        raw = self.level.predict(_in_order(names, statistics, self.level.features))
        return np.clip(raw, 0.0, 1.0)

    def to_bytes(self) -> bytes:
        """The scorer as safetensors."""
        from safetensors.numpy import save

        parts = {name: np.frombuffer(getattr(self, name).to_bytes(), np.uint8) for name in _TREES}
        numbers = {name: np.array([getattr(self, name)]) for name in _NUMBERS}
        return bytes(save({**parts, **numbers}))


_TREES = ("gain", "level")
_NUMBERS = ("margin", "spread")


def read_scorer(content: bytes, where: str) -> Scorer:
    """The scorer that `Scorer.to_bytes` wrote.

    Args:
        content: of the file.
        where: how to call the file in errors.

    Raises:
        ModelError: the content is damaged or something else.

    """
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        parts = load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{where}: the judge is damaged: {quoted(str(error), 200)}") from error
    if parts.keys() != {*_TREES, *_NUMBERS}:
        name = min(parts.keys() ^ {*_TREES, *_NUMBERS})
        raise ModelError(f"{where}: expected {', '.join((*_TREES, *_NUMBERS))}; see {quoted(name)}")
    numbers = {}
    for name in _NUMBERS:
        value = parts[name]
        if value.shape != (1,) or value.dtype != np.float64 or not 0 <= value[0] <= _LARGEST_MARGIN:
            raise ModelError(f"{where}: {name}: expected one number from 0 to {_LARGEST_MARGIN:g}")
        numbers[name] = float(value[0])
    gain, level = (read_trees(parts[name].tobytes(), f"{where}: {name}") for name in _TREES)
    return Scorer(gain, level, numbers["margin"], numbers["spread"])


def smoothed(gains: FloatArray, found: Sequence[Hypothesis]) -> FloatArray:
    """Gains averaged with their neighbours on the same merge path; 0 for exact names."""
    out = np.array(gains, dtype=np.float64)
    for likelihood in {h.likelihood for h in found}:
        places = np.array([i for i, h in enumerate(found) if h.likelihood == likelihood])
        if likelihood == NAMES:
            out[places] = 0.0
        else:
            padded = np.pad(gains[places], len(_SMOOTHING) // 2, mode="edge")
            out[places] = sum(w * padded[k : k + len(places)] for k, w in enumerate(_SMOOTHING))
    return out


def worths(
    gains: FloatArray, found: Sequence[Hypothesis], margin: float, attributes: float
) -> FloatArray:
    """What hypotheses are compared by, [hypotheses]: gains, and what is held against surprises.

    A grouping far from the alpha that its likelihood takes by itself has to be expected to gain a
    little more, and so has one of a likelihood whose own alpha says nothing. What is obvious is
    worth more: exact names, and on records what the attribute likelihood finds by itself.

    Args:
        gains: [hypotheses] expected, over exact names.
        found: the hypotheses.
        margin: what exact names are worth more.
        attributes: how many a fragment has on average, its name apart.

    """
    off = np.array([abs(h.log_alpha - h.own) for h in found])
    worth = gains - _PULL * np.where(np.isnan(off), _FAR, np.minimum(off, _FAR))
    names = np.array([h.likelihood == NAMES for h in found])
    worth[names] = gains[names] + margin
    of_records = [k for k, h in enumerate(found) if h.likelihood == _OF_RECORDS]
    if of_records and attributes >= _ATTRIBUTES_OF_A_RECORD:
        worth[min(of_records, key=lambda k: float(off[k]))] += _TRUST
    return np.asarray(worth)


def _in_order(names: Sequence[str], statistics: FloatArray, wanted: Sequence[str]) -> FloatArray:
    place = {name: i for i, name in enumerate(names)}
    for name in wanted:
        if name not in place:
            raise ModelError(f'the judge reads the statistic "{quoted(name)}", which is not known')
    return np.asarray(statistics[:, [place[name] for name in wanted]])
