"""The live table of a run: it scores and adds fragments, and builds clusters from members.

What is asked changes nothing that counts: the answers are in a `Reading` or in what was `Made`,
and are taken up when the fragment is taken in, or the clusters are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from kbforge.clustering.online.bounds import Bounds
from kbforge.clustering.online.candidates import Candidates, KeyLookup
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.pool import PutativeScores
from kbforge.clustering.online.renumbered import CompactTable
from kbforge.clustering.state import NewClusters, State
from kbforge.contracts import (
    Cluster,
    ConjugateLikelihood,
    FloatArray,
    Fragment,
    IntArray,
    LiveClusters,
    Observation,
)
from kbforge.models.score_cache import Key

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
