"""What a model says of one fragment's place, given the places of all others.

Two ways behind one interface, as in `scoring`: a conjugate likelihood's live table, and sets of
fragments scored by a black box through the cache.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np

from kbforge.clustering.batch.editing import editable
from kbforge.clustering.batch.grouping import Grouping
from kbforge.clustering.batch.impossible import IMPOSSIBLE
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    Likelihood,
    Observation,
)
from kbforge.models.score_cache import SetScores

# A cluster of a table is made anew after so many moves and one for each of its members, which
# costs a fraction of those moves and keeps their rounding errors from adding up for ever.
_MOVES = 1000


class Conditionals(Protocol):
    """A model beside a grouping: it is told of every move. Values in nats."""

    @property
    def evaluations(self) -> int:
        """Sets scored: distinct ones, or by a live table clusters made."""
        ...

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of any clusters, shape [len(clusters)]."""
        ...

    def read(self, fragments: range) -> None:
        """Take in the next fragments, in one batch: before that nothing can be asked of them.

        Raises:
            LikelihoodError: a fragment that the model cannot read.

        """
        ...

    def alone(self, fragment: int) -> float:
        """L({x})."""
        ...

    def joins(self, fragment: int) -> FloatArray:
        """L(C + x) - L(C) by slot, shape [n_slots]; unspecified for free slots and x's own."""
        ...

    def held(self, fragment: int) -> float:
        """L(C) - L(C - x) of x's own cluster, which holds others, too."""
        ...

    def moved(self, fragment: int, old: int, new: int) -> None:
        """The grouping has moved x from a slot (-1: none) to another."""
        ...

    def regrouped(self, old: Sequence[int]) -> None:
        """The grouping has begun, or been compacted; these were its slots."""
        ...


def conditionals_of(
    likelihood: Likelihood, fragments: Sequence[Fragment], grouping: Grouping
) -> Conditionals:
    """The faster way for a likelihood."""
    if isinstance(likelihood, ConjugateLikelihood):
        return TableConditionals(likelihood, fragments, grouping)
    return SetConditionals(likelihood, fragments, grouping)


class TableConditionals:
    """By a live table, of which the grouping's slots are the slots."""

    def __init__(
        self, likelihood: ConjugateLikelihood, fragments: Sequence[Fragment], grouping: Grouping
    ) -> None:
        self._likelihood, self._fragments = likelihood, fragments
        self._grouping = grouping
        self._table = editable(likelihood.live_clusters())
        self._x: list[Observation] = []
        self._alone: list[float] = []
        self._moves: list[int] = []
        self.evaluations = 0

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._likelihood.log_marginal([[self._fragments[i] for i in c] for c in clusters])

    def read(self, fragments: range) -> None:
        for fragment in fragments:
            x = self._table.encode(self._fragments[fragment])
            self._x.append(x)
            self._alone.append(self._table.log_predictive_new(x))

    def alone(self, fragment: int) -> float:
        return self._alone[fragment]

    def joins(self, fragment: int) -> FloatArray:
        return self._table.log_predictive(self._x[fragment], self._grouping.n_slots)

    def held(self, fragment: int) -> float:
        slot = self._grouping.slot_of[fragment]
        return self._table.log_predictive_held(self._x[fragment], slot)

    def moved(self, fragment: int, old: int, new: int) -> None:
        members, x = self._grouping.members, self._x[fragment]
        if old >= 0:
            if members[old]:
                self._table.remove(x, old)
                self._count(old)
            else:
                self._table.release(np.array([old]))
        if len(members[new]) > 1:
            self._table.add(x, new)
            self.evaluations += 1
            self._count(new)
        else:
            self._open(new, fragment)

    def regrouped(self, old: Sequence[int]) -> None:
        self._table.release(np.array(old, dtype=np.int64))
        for slot in range(self._grouping.n_slots):
            self._fill(slot)

    def _count(self, slot: int) -> None:
        self._moves[slot] += 1
        if self._moves[slot] > _MOVES + len(self._grouping.members[slot]):
            self._table.release(np.array([slot]))
            self._fill(slot)

    def _fill(self, slot: int) -> None:
        first, *others = self._grouping.cluster(slot)
        self._open(slot, first)
        for fragment in others:
            self._table.add(self._x[fragment], slot)
        self.evaluations += len(others)

    def _open(self, slot: int, fragment: int) -> None:
        self._table.extend(self._x[fragment], np.array([-1]), np.array([slot]))
        self._moves.extend([0] * (slot + 1 - len(self._moves)))
        self._moves[slot] = 0
        self.evaluations += 1


class SetConditionals:
    """By L of whole sets, each distinct content scored once."""

    def __init__(
        self, likelihood: Likelihood, fragments: Sequence[Fragment], grouping: Grouping
    ) -> None:
        self._grouping = grouping
        self._sets = SetScores(likelihood, fragments)
        self._score: FloatArray = np.zeros(0)  # L(C) by slot
        self._alone: list[float] = []

    @property
    def evaluations(self) -> int:
        return len(self._sets)

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._sets.score(clusters)

    def read(self, fragments: range) -> None:
        self._alone += self._sets.score([(i,) for i in fragments]).tolist()

    def alone(self, fragment: int) -> float:
        return self._alone[fragment]

    def joins(self, fragment: int) -> FloatArray:
        grouping = self._grouping
        own = grouping.slot_of[fragment]
        slots = [slot for slot in grouping.slots() if slot != own]
        sets = [self._with(fragment, slot) for slot in slots]
        if own >= 0 and len(grouping.members[own]) > 1:
            sets.append(self._rest(fragment))  # in the same batch: `held` asks for it
        gains = np.full(grouping.n_slots, -np.inf)
        joined = self._sets.score(sets)[: len(slots)]
        gains[slots] = joined - np.maximum(self._score[slots], IMPOSSIBLE)
        return gains

    def gains(self, fragment: int, slots: Sequence[int]) -> list[float]:
        """L(C + x) - L(C) of some slots, of x's own without x; the slot n_slots is a new cluster.

        One batch: a model may score two sets as fast as one.
        """
        grouping = self._grouping
        own, new = grouping.slot_of[fragment], grouping.n_slots
        sets = {
            s: self._rest(fragment) if s == own else self._with(fragment, s)
            for s in slots
            if s != new
        }
        scored = dict(zip(sets, self._sets.score(list(sets.values())).tolist(), strict=True))
        out = {new: self.alone(fragment)}
        for slot, score in scored.items():
            present = float(self._score[slot])
            joined, without = (present, score) if slot == own else (score, present)
            out[slot] = joined - max(without, IMPOSSIBLE)
        return [out[slot] for slot in slots]

    def held(self, fragment: int) -> float:
        (gain,) = self.gains(fragment, (self._grouping.slot_of[fragment],))
        return gain

    def moved(self, fragment: int, old: int, new: int) -> None:
        if new >= len(self._score):
            self._score = np.concatenate([self._score, np.zeros(max(64, new))])
        for slot in (old, new):
            if slot >= 0 and self._grouping.members[slot]:
                self._score[slot] = self._sets.score([self._grouping.cluster(slot)])[0]

    def regrouped(self, old: Sequence[int]) -> None:
        grouping = self._grouping
        self._score = self._sets.score([grouping.cluster(s) for s in range(grouping.n_slots)])

    def _with(self, fragment: int, slot: int) -> tuple[int, ...]:
        return tuple(sorted((*self._grouping.members[slot], fragment)))

    def _rest(self, fragment: int) -> tuple[int, ...]:
        own = self._grouping.slot_of[fragment]
        return tuple(other for other in self._grouping.cluster(own) if other != fragment)
