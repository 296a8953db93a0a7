"""Scores the clusters of a grouping by a likelihood.

How well does a fragment fit each cluster, how well its own without it, what do two clusters gain by
a merge? Two classes answer: `TableModel` by a live table of a conjugate likelihood, which has the
grouping's slots, and `SetModel` by whole sets that a black box scores, each distinct content once.

*Impossible sets.* Nothing joins a set with L = -inf, but a run may start in one, and leaving it
must be worth more than any other move: there it counts as -1e12 nats (IMPOSSIBLE).

*Tables that only grow.* Most tables can only grow their clusters. `RebuiltClusters` makes them
editable: a cluster that loses a fragment is rebuilt from the others, at a cost of one `extend` for
each of them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    Likelihood,
    LiveClusters,
    Observation,
)
from kbforge_lab.batch.grouping import Follower, Grouping
from kbforge_lab.batch.sets import SetScores
from kbforge_lab.likelihoods.live import EditableClusters, LiveGaussian, Mergeable
from kbforge_lab.likelihoods.live_rows import LiveRows
from kbforge_lm.likelihoods.counts import DirichletRows, RowClusters
from kbforge_plugins.calibrators.pseudo_likelihood import GrownClusters
from kbforge_plugins.likelihoods.gaussian import Gaussian, GaussianClusters

IMPOSSIBLE = -1e12

# A cluster of a table is rebuilt after so many moves and one for each of its members, which
# costs a fraction of those moves and keeps their rounding errors from adding up.
_MOVES = 1000


def editable_clusters(likelihood: ConjugateLikelihood) -> EditableClusters:
    """A new, empty table that fragments can leave."""
    live, rows = likelihood.live_clusters(), getattr(likelihood, "rows", None)
    if isinstance(live, GaussianClusters):
        assert isinstance(likelihood, Gaussian)
        return LiveGaussian(likelihood)
    if isinstance(live, RowClusters) and isinstance(rows, DirichletRows):
        return LiveRows(rows)
    return live if isinstance(live, EditableClusters) else RebuiltClusters(live)


class RebuiltClusters(EditableClusters):
    """Editable clusters on any table, in which a changed cluster gets a new slot."""

    def __init__(self, table: LiveClusters) -> None:
        self._grown = GrownClusters(table)
        self._held: dict[int, list[Observation]] = {}
        self._place: IntArray = np.zeros(0, dtype=np.int64)

    def encode(self, fragment: Fragment) -> Observation:
        return self._grown.table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        everywhere = self._grown.table.log_predictive(x, self._grown.n_slots)
        out = np.zeros(slots)
        known = self._place[:slots]
        out[: len(known)] = everywhere[known]
        return out

    def log_predictive_new(self, x: Observation) -> float:
        return self._grown.table.log_predictive_new(x)

    def log_predictive_held(self, x: Observation, slot: int) -> float:
        rest = self._without(x, slot)
        if not rest:
            return self.log_predictive_new(x)
        place = self._grown.add_all(rest, -1)
        gain = float(self._grown.table.log_predictive(x, self._grown.n_slots)[place])
        self._grown.release(place)
        return gain

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        for parent, child in zip(parents.tolist(), children.tolist(), strict=True):
            held = self._held[parent] if parent >= 0 else []
            place = int(self._place[parent]) if held else -1
            self._settle(child, [*held, x], self._grown.add(x, place))

    def release(self, slots: IntArray) -> None:
        for slot in slots.tolist():
            del self._held[slot]
            self._grown.release(int(self._place[slot]))

    def add(self, x: Observation, slot: int) -> None:
        old = int(self._place[slot])
        self._settle(slot, [*self._held[slot], x], self._grown.add(x, old))
        self._grown.release(old)

    def remove(self, x: Observation, slot: int) -> None:
        rest = self._without(x, slot)
        self._grown.release(int(self._place[slot]))
        self._settle(slot, rest, self._grown.add_all(rest, -1))

    def _without(self, x: Observation, slot: int) -> list[Observation]:
        # by identity: an observation may be an array, of which equality says nothing
        held = self._held[slot]
        at = next(i for i, other in enumerate(held) if other is x)
        return [*held[:at], *held[at + 1 :]]

    def _settle(self, slot: int, held: list[Observation], place: int) -> None:
        if slot >= len(self._place):
            extra = np.zeros(max(64, slot), dtype=np.int64)
            self._place = np.concatenate([self._place, extra])
        self._held[slot], self._place[slot] = held, place


class GroupingModel(Follower):
    """A likelihood beside one grouping; all values in nats."""

    @abstractmethod
    def fill(self, slots: Sequence[int]) -> None:
        """Add these clusters as they are, before they move or are asked for."""

    @abstractmethod
    def alone(self, fragment: int) -> float:
        """L({x})."""

    @abstractmethod
    def joins(self, fragment: int) -> FloatArray:
        """L(C + x) - L(C) by slot, shape [n_slots]; unspecified for free slots and x's own."""

    @abstractmethod
    def held(self, fragment: int) -> float:
        """L(C) - L(C - x) of x's own cluster, which has other fragments, too."""

    @abstractmethod
    def merges(self, slot: int) -> FloatArray:
        """L(C + D) - L(C) - L(D) for all other D, shape [n_slots]; unspecified elsewhere."""


def model_of(
    likelihood: Likelihood, fragments: Sequence[Fragment], grouping: Grouping
) -> GroupingModel:
    """The faster model if fragments move: by a live table if there is one."""
    if isinstance(likelihood, ConjugateLikelihood):
        return table_model(likelihood, fragments, grouping)
    return SetModel(likelihood, fragments, grouping)


def merging_model_of(
    likelihood: Likelihood, fragments: Sequence[Fragment], grouping: Grouping
) -> GroupingModel:
    """The faster model if clusters merge: by a live table if that can merge them."""
    if isinstance(likelihood, ConjugateLikelihood):
        table: LiveClusters = editable_clusters(likelihood)
        if not isinstance(table, Mergeable):
            table = likelihood.live_clusters()
        if isinstance(table, Mergeable):
            return MergingTable(likelihood, table, fragments, grouping)
    return SetModel(likelihood, fragments, grouping)


def table_model(
    likelihood: ConjugateLikelihood, fragments: Sequence[Fragment], grouping: Grouping
) -> TableModel:
    """By a live table that fragments can leave."""
    return TableModel(likelihood, editable_clusters(likelihood), fragments, grouping)


class TableModel(GroupingModel):
    """By an editable live table, which has the grouping's slots.

    Attributes:
        most_moves: of a cluster, besides one for each of its members, before it is rebuilt.

    """

    most_moves = _MOVES

    def __init__(
        self,
        likelihood: Likelihood,
        table: LiveClusters,
        fragments: Sequence[Fragment],
        grouping: Grouping,
    ) -> None:
        self.fragments = fragments
        self._table: Any = table  # editable, but for `MergingTable`
        self._likelihood, self._grouping = likelihood, grouping
        self._made = 0
        self._x: dict[int, Observation] = {}
        self._alone: list[float] = []
        self._moves: list[int] = []

    @property
    def evaluations(self) -> int:
        return self._made

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._likelihood.log_marginal([[self.fragments[i] for i in c] for c in clusters])

    def read(self, fragments: range) -> None:
        for fragment in fragments:
            self._alone.append(self._table.log_predictive_new(self._encoded(fragment)))

    def fill(self, slots: Sequence[int]) -> None:
        for slot in slots:
            held = [self._encoded(fragment) for fragment in self._grouping.cluster(slot)]
            self._table.gather(held, slot)
            self._moves.extend([0] * (slot + 1 - len(self._moves)))
            self._moves[slot] = 0
            self._made += len(held)

    def alone(self, fragment: int) -> float:
        return self._alone[fragment]

    def joins(self, fragment: int) -> FloatArray:
        joins: FloatArray = self._table.log_predictive(self._x[fragment], self._grouping.n_slots)
        return joins

    def held(self, fragment: int) -> float:
        slot = self._grouping.slot_of[fragment]
        return float(self._table.log_predictive_held(self._x[fragment], slot))

    def merges(self, slot: int) -> FloatArray:
        grouping = self._grouping
        others = [other for other in grouping.slots() if other != slot]
        out = np.zeros(grouping.n_slots)
        if isinstance(self._table, Mergeable):
            out[others] = self._table.log_merge_ratio_of(slot, np.array(others, np.int64))
            return out
        clusters = [grouping.cluster(other) for other in (slot, *others)]
        unions = [tuple(sorted((*clusters[0], *cluster))) for cluster in clusters[1:]]
        apart = np.maximum(self.log_marginal(clusters), IMPOSSIBLE)
        out[others] = self.log_marginal(unions) - apart[1:] - apart[0]
        return out

    def moved(self, fragments: Sequence[int], old: int, new: int) -> None:
        members = self._grouping.members
        opens = len(members[new]) == len(fragments)
        several = len(fragments) > 1 and not opens
        if several and not members[old] and isinstance(self._table, Mergeable):
            self._table.merge(old, new)
            self._made += 1
            self._count(new, 1)
            return
        if old >= 0:
            self._leave(fragments, old)
        if opens:
            self.fill((new,))
            return
        for fragment in fragments:
            self._table.add(self._x[fragment], new)
        self._made += len(fragments)
        self._count(new, len(fragments))

    def regrouped(self, old: Sequence[int]) -> None:
        self._table.release(np.array(old, dtype=np.int64))
        self.fill(range(self._grouping.n_slots))

    def _leave(self, fragments: Sequence[int], slot: int) -> None:
        left = len(self._grouping.members[slot])
        if not left:
            self._table.release(np.array([slot]))
            return
        # rebuilding takes as long for one as for all
        rebuilt = isinstance(self._table, RebuiltClusters)
        if len(fragments) > 1 and (rebuilt or left < len(fragments)):
            self._renew(slot)
            return
        for fragment in fragments:
            self._table.remove(self._x[fragment], slot)
        self._count(slot, len(fragments))

    def _count(self, slot: int, moves: int) -> None:
        self._moves[slot] += moves
        if self._moves[slot] > self.most_moves + len(self._grouping.members[slot]):
            self._renew(slot)

    def _renew(self, slot: int) -> None:
        self._table.release(np.array([slot]))
        self.fill((slot,))

    def _encoded(self, fragment: int) -> Observation:
        if fragment not in self._x:
            self._x[fragment] = self._table.encode(self.fragments[fragment])
        return self._x[fragment]


class MergingTable(TableModel):
    """By a live table whose clusters only merge; a table that is not editable will do."""

    def fill(self, slots: Sequence[int]) -> None:
        for slot in slots:
            (fragment,) = self._grouping.cluster(slot)
            self._table.extend(self._encoded(fragment), np.array([-1]), np.array([slot]))
            self._made += 1

    def moved(self, fragments: Sequence[int], old: int, new: int) -> None:
        self._table.merge(old, new)
        self._made += 1


class SetModel(GroupingModel):
    """By L of whole sets, each distinct content scored once.

    An impossible union is no merge; one that makes impossible clusters possible is better than any
    other.
    """

    def __init__(
        self, likelihood: Likelihood, fragments: Sequence[Fragment], grouping: Grouping
    ) -> None:
        self.fragments = fragments
        self._grouping = grouping
        self._sets = SetScores(likelihood, fragments)
        self._alone: list[float] = []
        # L(C) by slot, and the slots that have changed since
        self._score: FloatArray = np.zeros(0)
        self._changed: set[int] = set()

    @property
    def evaluations(self) -> int:
        return len(self._sets)

    def log_marginal(self, clusters: Sequence[Cluster]) -> FloatArray:
        return self._sets.score(clusters)

    def read(self, fragments: range) -> None:
        self._alone += self._sets.score([(i,) for i in fragments]).tolist()

    def fill(self, slots: Sequence[int]) -> None:
        self._changed.update(slots)

    def alone(self, fragment: int) -> float:
        return self._alone[fragment]

    def joins(self, fragment: int) -> FloatArray:
        grouping, present = self._grouping, self._scores()
        own = grouping.slot_of[fragment]
        slots = [slot for slot in grouping.slots() if slot != own]
        sets = [self._with(fragment, slot) for slot in slots]
        if own >= 0 and len(grouping.members[own]) > 1:
            sets.append(self._rest(fragment))  # in the same batch: `held` asks for it
        gains = np.full(grouping.n_slots, -np.inf)
        joined = self._sets.score(sets)[: len(slots)]
        gains[slots] = joined - np.maximum(present[slots], IMPOSSIBLE)
        return gains

    def gains(self, fragment: int, slots: Sequence[int]) -> list[float]:
        """L(C + x) - L(C) of slots, of x's own without x; the slot n_slots is a new cluster.

        All in one batch, because a model may score two sets as fast as one.
        """
        grouping, present = self._grouping, self._scores()
        own, new = grouping.slot_of[fragment], grouping.n_slots
        sets = {
            s: self._rest(fragment) if s == own else self._with(fragment, s)
            for s in slots
            if s != new
        }
        scored = dict(zip(sets, self._sets.score(list(sets.values())).tolist(), strict=True))
        out = {new: self.alone(fragment)}
        for slot, score in scored.items():
            now = float(present[slot])
            joined, without = (now, score) if slot == own else (score, now)
            out[slot] = joined - max(without, IMPOSSIBLE)
        return [out[slot] for slot in slots]

    def held(self, fragment: int) -> float:
        (gain,) = self.gains(fragment, (self._grouping.slot_of[fragment],))
        return gain

    def merges(self, slot: int) -> FloatArray:
        others = self._grouping.in_use().nonzero()[0]
        others = others[others != slot]
        out = np.full(self._grouping.n_slots, -np.inf)
        out[others] = self.pairs(np.full(len(others), slot), others)
        return out

    def pairs(self, a: IntArray, b: IntArray) -> FloatArray:
        """L(C + D) - L(C) - L(D) of pairs of clusters, shape [len(a)]; one batch."""
        present, members = self._scores(), self._grouping.members
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        union = self._sets.score([tuple(sorted(members[c] | members[d])) for c, d in pairs])
        apart = np.maximum(present[a], IMPOSSIBLE) + np.maximum(present[b], IMPOSSIBLE)
        return np.asarray(union - apart)

    def moved(self, fragments: Sequence[int], old: int, new: int) -> None:
        self._changed.update((old, new))

    def regrouped(self, old: Sequence[int]) -> None:
        self._changed = set(range(self._grouping.n_slots))

    def _scores(self) -> FloatArray:
        """L(C) by slot; mostly no work, because a proposed move has been scored."""
        if self._changed:
            grouping = self._grouping
            if grouping.n_slots > len(self._score):
                extra = np.zeros(max(64, grouping.n_slots))
                self._score = np.concatenate([self._score, extra])
            used = [s for s in self._changed if s >= 0 and grouping.members[s]]
            used.sort()
            self._score[used] = self._sets.score([grouping.cluster(s) for s in used])
            self._changed.clear()
        return self._score

    def _with(self, fragment: int, slot: int) -> tuple[int, ...]:
        return tuple(sorted((*self._grouping.members[slot], fragment)))

    def _rest(self, fragment: int) -> tuple[int, ...]:
        own = self._grouping.slot_of[fragment]
        return tuple(other for other in self._grouping.cluster(own) if other != fragment)
