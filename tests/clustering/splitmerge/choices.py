"""Draws that are enumerated: every way that a random function can go, with its probability."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

T = TypeVar("T")


def every_way(function: Callable[[Any], T]) -> Iterator[tuple[T, float]]:
    """What a function of draws can return, and how likely each way is; they sum to 1."""
    script: list[int] = []
    while True:
        draws = _Script(script)
        found = function(draws)
        assert len(draws.taken) >= len(script), "the function draws something else now"
        yield found, draws.probability
        script = draws.taken
        while script and script[-1] + 1 == draws.options[len(script) - 1]:
            script.pop()
        if not script:
            return
        script[-1] += 1


class _Script:
    """Takes the options that a script says, and the first ones from there on."""

    def __init__(self, script: Sequence[int]) -> None:
        self._script = script
        self.taken: list[int] = []
        self.options: list[int] = []
        self.probability = 1.0

    def _take(self, options: Sequence[tuple[Any, float]]) -> Any:
        possible = [(value, p) for value, p in options if p > 0]
        place = len(self.taken)
        chosen = self._script[place] if place < len(self._script) else 0
        self.taken.append(chosen)
        self.options.append(len(possible))
        value, p = possible[chosen]
        self.probability *= p
        return value

    def below(self, n: int) -> int:
        return int(self._take([(i, 1 / n) for i in range(n)]))

    def happens(self, p: float) -> bool:
        return bool(self._take([(True, p), (False, 1 - p)]))

    def coins(self, n: int) -> Any:
        ways = itertools.product((False, True), repeat=n)
        return self._take([(np.array(way, dtype=bool), 0.5**n) for way in ways])

    def index(self, log_weights: Any) -> int:
        weights = np.exp(log_weights - log_weights.max())
        return int(self._take(list(enumerate((weights / weights.sum()).tolist()))))

    def shuffled(self, items: Sequence[int]) -> list[int]:
        ways = list(itertools.permutations(items))
        return list(self._take([(way, 1 / len(ways)) for way in ways]))
