"""Scoring: the model of a run, and the scores of its sets.

A black box scores whole sets, each distinct content once, through a cache (`ScoreCache`), so sets
of later fragments can be scored ahead (`kbforge.clustering.ahead`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from kbforge.contracts import Cluster, ConjugateLikelihood, Fragment, Likelihood, ModelSpec
from kbforge.errors import UsageError
from kbforge.models.scoring import Key, ScoreCache


def without_model(spec: ModelSpec) -> ModelSpec:
    """The spec itself or, with M = 0, the spec with the surrogate as its likelihood.

    Raises:
        UsageError: M = 0 without a surrogate to cluster with.

    """
    if spec.max_evals != 0:
        return spec
    if spec.surrogate is None:
        raise UsageError("max-evals 0 clusters with the surrogate alone, but there is none")
    return replace(spec, likelihood=spec.surrogate, surrogate=None, max_evals=None)


def shared(spec: ModelSpec) -> ModelSpec:
    """The spec, with a cache of scores around a black box.

    Raises:
        UsageError: M = 0 without a surrogate to cluster with.
    """
    spec = without_model(spec)
    likelihood = spec.likelihood
    if spec.surrogate is None and isinstance(likelihood, ConjugateLikelihood):
        return spec
    return replace(spec, likelihood=ScoreCache.of(likelihood))


class StepDemand(NamedTuple):
    """What a step needs.

    `unknown` are the unscored sets, by content; `owners` the subproblem of each cluster that
    the fragment is proposed to; `likely` those it will probably change; `keys` its keys that are
    followed.
    """

    unknown: Mapping[Key, Sequence[Fragment]]
    owners: Sequence[int]
    likely: frozenset[int]
    keys: frozenset[int]


class FragmentsByNumber(Protocol):
    """Fragments by number."""

    def __getitem__(self, number: int, /) -> Fragment | None: ...


class SessionScores:
    """L of sets of a session's fragments, each distinct content once, and which were used.

    `forgotten` counts used sets with a fragment of which no equal is left here.
    """

    def __init__(self, likelihood: Likelihood) -> None:
        self.cache = ScoreCache.of(likelihood)
        self.asked: set[Key] = set()
        self.forgotten = 0
        self._numbers: dict[int, int] = {}  # in the cache, of the contents of fragments

    @property
    def evaluations(self) -> int:
        """The number of sets used."""
        return self.forgotten + len(self.asked)

    def resume(self, evaluations: int) -> None:
        """Continue the count from here."""
        self.forgotten = evaluations - len(self.asked)

    def take_in(self, fragments: Mapping[int, Fragment]) -> None:
        """Add these fragments, by number."""
        self._numbers.update((i, self.cache.number(x)) for i, x in fragments.items())

    def put(self, fragment: int, number: int) -> None:
        """Add a fragment whose content has a number in the cache."""
        self._numbers[fragment] = number

    def unknown(
        self,
        held: FragmentsByNumber,
        sets: Sequence[Cluster],
        x: Fragment | None = None,
        number: int = -1,
    ) -> tuple[list[Key], dict[Key, Sequence[Fragment]]]:
        """Sets of fragments by content, and those that are unscored.

        If not None, each set also has x, whose content has `number` in the cache.
        """
        numbers = self._numbers
        more = () if x is None else (number,)
        keys = [tuple(sorted([*(numbers[i] for i in members), *more])) for members in sets]
        return keys, {
            key: [*(y for i in members if (y := held[i]) is not None), *((x,) if x else ())]
            for key, members in zip(keys, sets, strict=True)
            if key not in self.cache
        }

    def scored(
        self,
        held: FragmentsByNumber,
        sets: Sequence[Cluster],
        x: Fragment | None = None,
        number: int = -1,
    ) -> list[Key]:
        """Score the sets of `unknown` without counting them. Errors as `ScoreCache`."""
        keys, unknown = self.unknown(held, sets, x, number)
        self.cache.learn(unknown)
        return keys

    def forget(self, gone: Mapping[int, Fragment]) -> None:
        """Remove these fragments, by number."""
        left_of = {self._numbers.pop(number): x for number, x in gone.items()}
        for number in left_of.keys() & set(self._numbers.values()):
            del left_of[number]
        if left_of:
            left = {key for key in self.asked if left_of.keys().isdisjoint(key)}
            self.forgotten += len(self.asked) - len(left)
            self.asked = left
            for fragment in left_of.values():
                self.cache.forget_fragment(fragment)

    def contents(self) -> dict[tuple[int, ...], float]:
        """The used sets and their L, each as fragments with their contents."""
        of_number: dict[int, int] = {}
        for fragment, number in sorted(self._numbers.items()):
            of_number.setdefault(number, fragment)
        keys = list(self.asked)
        scores = self.cache.recall(keys).tolist()
        by_fragments = {
            tuple(sorted(of_number[number] for number in key)): score
            for key, score in zip(keys, scores, strict=True)
        }
        return dict(sorted(by_fragments.items()))

    def remember(self, asked: Mapping[Cluster, float]) -> None:
        """Restore sets of fragments that were used and counted before, with their L."""
        scores = {
            tuple(sorted(self._numbers[i] for i in members)): score
            for members, score in asked.items()
        }
        self.cache.remember(scores)
        known = len(self.asked)
        self.asked.update(scores)
        self.forgotten -= len(self.asked) - known
