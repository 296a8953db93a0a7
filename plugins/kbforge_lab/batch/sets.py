"""One run's view of a cache of scores."""

from __future__ import annotations

from collections.abc import Sequence

from kbforge.contracts import FloatArray, Fragment, Likelihood
from kbforge.models.scoring import Key, ScoreCache


class SetScores:
    """One run's view of a cache: sets of its fragments by index, and how many it asked for."""

    def __init__(self, likelihood: Likelihood, fragments: Sequence[Fragment]) -> None:
        self._cache = ScoreCache.of(likelihood)
        self._fragments = fragments
        self._numbers: list[int] = []
        self._asked: set[Key] = set()

    def __len__(self) -> int:
        """How many distinct sets this run has asked for, whoever had them scored."""
        return len(self._asked)

    def score(self, sets: Sequence[tuple[int, ...]]) -> FloatArray:
        """L of each set of fragment indices, nats, shape [len(sets)]; errors as `ScoreCache`."""
        keys = [tuple(sorted(map(self._number, members))) for members in sets]
        unknown = {
            key: [self._fragments[i] for i in members]
            for key, members in zip(keys, sets, strict=True)
            if key not in self._cache
        }
        self._cache.learn(unknown)
        self._asked.update(keys)
        return self._cache.recall(keys)

    def _number(self, fragment: int) -> int:
        # in order of arrival, so that numbers do not depend on which sets are asked for first
        while len(self._numbers) <= fragment:
            self._numbers.append(self._cache.number(self._fragments[len(self._numbers)]))
        return self._numbers[fragment]
