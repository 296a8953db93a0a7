"""The live table of a run: it scores and adds fragments, and builds clusters from members.

A question changes nothing that counts. The answers are in a `Reading` or in `Made`, and are adopted
when the fragment or the clusters are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from kbforge.clustering.candidates import Candidates, KeyLookup
from kbforge.clustering.constraints import Bounds
from kbforge.clustering.propose import Pool, PutativeScores
from kbforge.clustering.state import Lineage, NewClusters, State
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
    Observation,
)
from kbforge.models.scoring import Key
from kbforge.numerics import capacity_for, grown


class Scorer(Protocol):
    """The likelihood as a step sees it. Values in nats.

    Attributes:
        limit: how many joins the proposal keeps for `reweigh`, None for all.
        fragments: those that the session holds, by number; ascending, if it holds all.

    """

    limit: int | None
    fragments: dict[int, Fragment]

    @property
    def evaluations(self) -> int:
        """Sets the likelihood has scored: distinct ones, or for a live table clusters made."""
        ...

    def read(self, state: State, x: Fragment, bounds: Bounds | None = None) -> Reading:
        """Turn to the next fragment. May raise; nothing changes that counts.

        Args:
            state: before x.
            x: the fragment.
            bounds: where x may go; None is anywhere, as far as an index leads there.

        """
        ...

    def reweigh(self, state: State, reading: Reading, joins: Pool) -> Pool:
        """The proposed joins with the likelihood's own weights. May raise."""
        ...

    def log_marginal_new(self, reading: Reading) -> float:
        """L({x}) of the fragment that was read. May raise."""
        ...

    def log_marginal_joined(self, state: State, reading: Reading, parents: IntArray) -> FloatArray:
        """L(C + x) of clusters that `reweigh` let through, shape [len(parents)]; known by then."""
        ...

    def extend(self, number: int, reading: Reading, new: NewClusters) -> None:
        """The fragment is taken in, and these clusters hold it. Cannot fail."""
        ...

    def release(self, slots: IntArray) -> None:
        """These clusters no longer exist. Cannot fail."""
        ...

    def make(
        self, new: Mapping[int, Cluster], slots: int, afresh: Mapping[int, Cluster] | None = None
    ) -> Made:
        """Make clusters of held fragments. May raise; nothing changes that counts.

        Args:
            new: by slot, those whose L is asked for; no live cluster has such a slot.
            slots: how many slots are numbered without the new ones.
            afresh: None, or all clusters that will be, the new ones among them, to be held by a
                table that never saw any other.

        """
        ...

    def unmake(self, made: Made) -> None:
        """Forget them again. Cannot fail."""
        ...

    def settle(self, regrouped: Regrouping) -> None:
        """This is how some fragments are grouped now. Cannot fail."""
        ...

    def forget(self, numbers: Iterable[int]) -> None:
        """These fragments are held no more; no cluster has any of them. Cannot fail."""
        ...

    def count(self, other: Scorer | Reading) -> None:
        """What another scorer of the same problem was asked, or for a reading, counts here, too."""
        ...

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of clusters of held fragments, which counts; shape [len(clusters)]. May raise."""
        ...

    def resume(self, evaluations: int) -> None:
        """Count on from there."""
        ...

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        clusters: Mapping[int, Cluster],
        scores: Sequence[float],
    ) -> None:
        """Hold fragments and clusters of them, too, as the run had made them. May raise.

        Args:
            fragments: by number, ascending.
            lineage: of the clusters.
            clusters: by slot.
            scores: their L, nats.

        """
        ...

    def keys(self, fragments: Sequence[int]) -> dict[int, Sequence[int]]:
        """The keys of held fragments in the index; of none, if there is none. May raise.

        It is known from then on where they lead.
        """
        ...


_NOTHING: FloatArray = np.zeros(0)


class Reading(NamedTuple):
    """What the model made of the new fragment.

    Attributes:
        fragment: x.
        scores: of joining clusters, to propose by.
        live: the table that x was shown to, if there is one.
        observation: what it made of x.
        reached: where the index leads, if there is one.
        joined: L(C + x) by slot, where a black box was asked for it; its scratch.
        number: of x's content in a black box's cache.
        asked: takes the sets that a black box is asked for, by content.

    """

    fragment: Fragment
    scores: PutativeScores
    live: LiveClusters | None = None
    observation: Observation = None
    reached: KeyLookup | None = None
    joined: FloatArray = _NOTHING
    number: int = -1
    asked: list[Key] | None = None


class Made(NamedTuple):
    """Clusters that were made from their members, and are not the session's yet.

    Attributes:
        scores: by slot, L(C), nats.
        live: the table that holds them, if there is one.
        asked: the sets that a black box was asked for, by content.

    """

    scores: Mapping[int, float]
    live: LiveClusters | None = None
    asked: Sequence[Key] = ()


class Regrouping(NamedTuple):
    """What becomes of some subproblems: what a model is told when it has happened.

    Attributes:
        made: the new clusters.
        before: slots of the clusters that there were, shape [n].
        dropped: those of them that no particle holds any more.
        clusters: by slot, those that there are now, old and new.
        keys: by fragment, its keys in the index, if there is one; of all these fragments, those
            removed among them.
        removed: fragments that are no more.

    """

    made: Made
    before: IntArray
    dropped: IntArray
    clusters: Mapping[int, Cluster]
    keys: Mapping[int, Sequence[int]]
    removed: Collection[int]


class Table:
    """A live table that scores a fragment against all clusters, or those an index leads to.

    The first fragment that a table encodes may settle how many dimensions there are. So until one
    has been taken in, each is shown to a table of its own, and the first to stay keeps its table.

    Args:
        likelihood: makes the tables.
        candidates: what the index leads to, if there is one.

    """

    def __init__(self, likelihood: ConjugateLikelihood, candidates: Candidates | None) -> None:
        self.likelihood, self.candidates = likelihood, candidates
        self.live: LiveClusters | None = None
        self.sparse = False  # whether it may hold few of the slots
        self._by_slot: FloatArray = np.zeros(0)

    def read(self, state: State, x: Fragment, bounds: Bounds | None = None) -> Reading:
        """What the table makes of x, the scores of joining clusters, and where the index leads.

        Args:
            state: before x.
            x: the new fragment.
            bounds: where x may go; None leaves it to the index.

        """
        only = None if bounds is None else bounds.only
        live = self.live or self._new()
        observation = live.encode(x)
        if self.candidates is None and only is None:
            predictive = live.log_predictive(observation, state.n_slots)
            scores = PutativeScores(predictive)
            scores = scores if bounds is None else bounds.within(state, scores)
            return Reading(x, scores, live, observation)
        reached = None
        if self.candidates is not None:
            reached = self.candidates.look_up(x, state.in_heaviest)
        slots = reached.slots if only is None and reached is not None else only
        assert slots is not None
        if bounds is not None:
            slots = bounds.within(state, PutativeScores(_NOTHING, slots)).slots
            assert slots is not None
        if len(self._by_slot) < state.n_slots:
            self._by_slot = np.zeros(2 * state.n_slots)
        self._by_slot[slots] = live.log_predictive_of(observation, slots)
        return Reading(x, PutativeScores(self._by_slot, slots), live, observation, reached)

    def extend(self, reading: Reading, new: NewClusters) -> None:
        """These clusters hold the fragment."""
        assert reading.live is not None
        self.live = reading.live
        self.live.extend(reading.observation, new.parents, new.slots)
        if self.candidates is not None and reading.reached is not None:
            self.candidates.extend(reading.reached, new.first, new.slots)

    def release(self, slots: IntArray) -> None:
        """These clusters no longer exist."""
        assert self.live is not None
        self.live.release(slots)
        if self.candidates is not None:
            self.candidates.release(slots)

    def begin(self, first: Fragment) -> None:
        """Have a table that is as if it had been shown this fragment first. May raise."""
        live = self._new()
        live.encode(first)
        self.live = live

    def hold(
        self,
        fragments: Mapping[int, Fragment],
        lineage: Lineage,
        families: Mapping[int, int],
    ) -> None:
        """Hold clusters of a run, too, made as the run made them, fragment by fragment. May raise.

        Args:
            fragments: of the clusters, by number.
            lineage: of the clusters; all there are, unless the table is sparse.
            families: their first fragments, by slot.

        """
        live = self.live or self._new()
        lineage.replay(live, fragments, self._known(0))
        self.live = live
        if self.candidates is not None:
            self.candidates.hold(families)

    def _new(self) -> LiveClusters:
        live = self.likelihood.live_clusters()
        return CompactTable(live) if self.sparse else live

    def _known(self, slots: int) -> float:
        """How many slots a table knows of that has seen so many."""
        return math.inf if self.sparse else slots

    def make(
        self,
        fragments: Mapping[int, Fragment],
        new: Mapping[int, Cluster],
        slots: int,
        afresh: Mapping[int, Cluster] | None,
    ) -> Made:
        """See `Scorer.make`."""
        clusters = new if afresh is None else afresh
        if not clusters:
            return Made({}, self.live if afresh is None else None)
        live = self.live if afresh is None else self._new()
        assert live is not None
        lineage = Lineage(clusters, max(slots, max(clusters) + 1))
        scores = lineage.score(live, fragments, self._known(slots if afresh is None else 0))
        return Made({slot: scores[slot] for slot in new}, live)

    def unmake(self, made: Made) -> None:
        """See `Scorer.unmake`."""
        if made.live is not None and made.live is self.live:
            made.live.release(np.array(sorted(made.scores), dtype=np.int64))

    def settle(self, regrouped: Regrouping) -> None:
        """See `Scorer.settle`."""
        live, dropped = regrouped.made.live, regrouped.dropped
        if live is not self.live:  # it never held what there was before
            dropped = dropped[np.isin(dropped, list(regrouped.made.scores))]
        if live is not None and len(dropped):
            live.release(dropped)
        self.live = live
        if self.candidates is not None:
            self.candidates.settle(regrouped.before, regrouped.clusters, regrouped.keys)


class CompactTable(LiveClusters):
    """See `kbforge.contracts.likelihood`; slots may have any gaps.

    Args:
        table: holds the clusters; it is empty.

    """

    def __init__(self, table: LiveClusters) -> None:
        self._table = table
        self._place: IntArray = np.zeros(0, dtype=np.int64)  # by slot, where the table has it
        self._free: list[int] = []
        self._places = 0

    def encode(self, fragment: Fragment) -> Observation:
        return self._table.encode(fragment)

    def log_predictive(self, x: Observation, slots: int) -> FloatArray:
        if not self._places:
            return np.zeros(slots)
        self._reach(slots)
        # a slot that holds nothing has some place or other: what is said of it is not specified
        return self._table.log_predictive(x, self._places)[self._place[:slots]]

    def log_predictive_new(self, x: Observation) -> float:
        return self._table.log_predictive_new(x)

    def log_predictive_of(self, x: Observation, slots: IntArray) -> FloatArray:
        return self._table.log_predictive_of(x, self._place[slots])

    def extend(self, x: Observation, parents: IntArray, children: IntArray) -> None:
        self._reach(int(children.max(initial=-1)) + 1)
        # -1 would be the last slot, and is no one's
        held = np.where(parents >= 0, self._place[parents], -1)
        self._place[children] = places = self._taken(len(children))
        self._table.extend(x, held, places)

    def release(self, slots: IntArray) -> None:
        places = self._place[slots]
        self._table.release(places)
        self._free += places.tolist()

    def _taken(self, count: int) -> IntArray:
        """Places that are free from now on no more: the latest freed first, then new ones."""
        reused = self._free[: -count - 1 : -1]
        del self._free[len(self._free) - len(reused) :]
        fresh = range(self._places, self._places + count - len(reused))
        self._places += len(fresh)
        return np.array([*reused, *fresh], dtype=np.int64)

    def _reach(self, slots: int) -> None:
        if slots > len(self._place):
            self._place = grown(self._place, capacity_for(slots, len(self._place)))
