"""The live clusters of a run of the kernel, by three kinds of likelihoods.

One has a table in the kernel; another has one in Python, which is asked between the kernel's steps.
Both tables are settled by the first fragment that they are shown, and both are filled again along
the lineage of clusters that are held again, to the same bits. A black box has no table: it is asked
for L of whole sets between the kernel's steps, of those that a surrogate's table proposes, if there
is one.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.compiled.run import CompiledRun, Records, not_told
from kbforge.clustering.pages import clusters_of
from kbforge.clustering.scoring import FragmentsByNumber, SessionScores, StepDemand
from kbforge.clustering.state import Lineage
from kbforge.clustering.table import CompactTable
from kbforge.contracts import (
    CandidateIndex,
    Cluster,
    CompiledClusters,
    ConjugateLikelihood,
    EncodedFragments,
    FloatArray,
    Fragment,
    Info,
    IntArray,
    LiveClusters,
    Observation,
    Page,
)
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import address
from kbforge.models.scoring import Key

_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


class Rivals(NamedTuple):
    """Clusters of heaviest particles that a fragment could belong to instead of its own.

    Attributes:
        slots: theirs, ascending, shape [n].
        weights: log|C| + L(C + x) - L(C), nats, shape [n].
        alone: about L({x}), nats; None: it is not known yet.

    """

    slots: IntArray
    weights: FloatArray
    alone: float | None


class Clusters(Protocol):
    """What a run asks of the table of its clusters, whichever kind it is."""

    def read(self, fragments: Sequence[Fragment]) -> Records:
        """Fragments to be taken in, one after another."""
        ...

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        """Take in the k-th of these; None: its keys lead to what lies elsewhere, and nothing is
        done.

        Raises:
            InfeasibleFragment: constraints leave it no place.
            LikelihoodError: as a session's `add`, without the fragment's name.

        """
        ...

    def rivals(self, number: int, fragment: Fragment, records: Records, k: int) -> Rivals | None:
        """Where a fragment that was taken in could be; None: its keys lead to what lies elsewhere.

        Args:
            number: of the fragment.
            fragment: as it came.
            records: as `read` gave them.
            k: its place in them.

        """
        ...

    def count(self, evaluations: int) -> None:
        """So many more sets have been scored, if they are counted one by one."""
        ...

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        """L of clusters of fragments that are here, nats, shape [len(clusters)]. May raise."""
        ...

    def show(self, first: Fragment) -> None:
        """Be as if this had been shown first. May raise."""
        ...

    def hold(
        self, pages: Sequence[Page], fragments: Mapping[int, Fragment], put: Callable[[], None]
    ) -> None:
        """Hold the clusters of subproblems, too. Whatever is raised, nothing has changed.

        Args:
            pages: of the subproblems.
            fragments: theirs, by number, ascending.
            put: has the run hold them.

        """
        ...

    def release(self, slots: IntArray) -> None:
        """Hold these clusters no longer."""
        ...


class Statistics(Clusters, Protocol):
    """A table of statistics, which can propose to a black box, too."""

    def predictive(
        self, fragments: Sequence[Fragment], records: Records, k: int, slots: IntArray
    ) -> FloatArray:
        """L(C + x) - L(C) of clusters and the k-th of fragments, nats, shape [len(slots)]."""
        ...

    def follow(
        self, records: Records, k: int, parents: IntArray, children: IntArray, dropped: IntArray
    ) -> None:
        """The fragment asked about last was taken in: there are other clusters. Cannot fail."""
        ...


class Conjugate:
    """What both kinds of tables share: L of sets is that of the likelihood.

    Args:
        run: that the clusters are of.
        likelihood: scores sets.
        held: gives the fragments by number.

    """

    def __init__(
        self,
        run: CompiledRun,
        likelihood: ConjugateLikelihood,
        held: Callable[[], FragmentsByNumber],
    ) -> None:
        self._run, self._likelihood, self._held = run, likelihood, held

    def count(self, evaluations: int) -> None:
        self._run.count(evaluations)

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        held = self._held()
        sets = [[x for n in cluster if (x := held[n]) is not None] for cluster in clusters]
        return self._likelihood.log_marginal(sets)


class InKernel(Conjugate):
    """See `Clusters`: a table in the kernel.

    Args:
        kernel: the library.
        run: that the clusters are of.
        table: empty.
        likelihood: has made it.
        held: gives the fragments by number.
        index: of the session.

    """

    def __init__(
        self,
        kernel: CDLL,
        run: CompiledRun,
        table: CompiledClusters,
        likelihood: ConjugateLikelihood,
        held: Callable[[], FragmentsByNumber],
        index: CandidateIndex | None,
    ) -> None:
        super().__init__(run, likelihood, held)
        self._kernel, self.table, self._index = kernel, table, index

    def read(self, fragments: Sequence[Fragment]) -> Records:
        starts, keys = keys_of(self._index, fragments)
        return Records(self._told(fragments), starts, keys)

    def _told(self, fragments: Sequence[Fragment]) -> EncodedFragments:
        encoded = self.table.encode(fragments)
        self.table.tell(encoded)
        return encoded

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        infos, refusal = self._run.add(self.table, records, k, k + 1)
        if refusal is not None:
            raise refusal
        return infos[0] if infos else None

    def rivals(self, number: int, fragment: Fragment, records: Records, k: int) -> Rivals | None:
        found = self._run.rivals(self.table.handle, number, records, k)
        return None if found is None else Rivals(*found)

    def predictive(
        self, fragments: Sequence[Fragment], records: Records, k: int, slots: IntArray
    ) -> FloatArray:
        out = np.empty(len(slots))
        record = records.at(k)[:3]
        asked = (len(slots), address(slots), address(out))
        if not self._kernel.kb_log_predictive(self.table.handle, *record, *asked):
            raise not_told()
        return out

    def follow(
        self, records: Records, k: int, parents: IntArray, children: IntArray, dropped: IntArray
    ) -> None:
        record = records.at(k)[:3]
        told = (len(parents), address(parents), address(children))
        self._kernel.kb_extend(self.table.handle, *record, *told)
        self.release(dropped)

    def show(self, first: Fragment) -> None:
        self._replay(_NOTHING, [0], self._told([first]))

    def hold(
        self, pages: Sequence[Page], fragments: Mapping[int, Fragment], put: Callable[[], None]
    ) -> None:
        encoded = self._told(list(fragments.values()))
        put()
        self._replay(np.concatenate([page.slots for page in pages]), list(fragments), encoded)

    def _replay(self, slots: IntArray, numbers: Sequence[int], encoded: EncodedFragments) -> None:
        told = np.array(numbers, dtype=np.int64)
        records: tuple[NDArray[Any], ...] = encoded.starts, encoded.attributes, encoded.values
        self._kernel.kb_replay(
            *(self._run.handle, self.table.handle, len(slots), address(slots)),
            *(len(told), address(told), *map(address, records)),
        )

    def release(self, slots: IntArray) -> None:
        self._kernel.kb_release(self.table.handle, len(slots), address(slots))


class InPython(Conjugate):
    """See `Clusters`: a table in Python.

    Args:
        run: that the clusters are of.
        likelihood: makes the table.
        held: gives the fragments by number.
        index: of the session.
        sparse: whether few of the slots may be held.

    """

    def __init__(
        self,
        run: CompiledRun,
        likelihood: ConjugateLikelihood,
        held: Callable[[], FragmentsByNumber],
        index: CandidateIndex | None,
        sparse: bool,
    ) -> None:
        super().__init__(run, likelihood, held)
        self._index, self._sparse = index, sparse
        self._live: LiveClusters | None = None
        self._shown: LiveClusters | None = None  # the table that a fragment was shown last
        self._seen: Observation = None  # what it made of that
        self._known = 0  # slots that the table knows of

    def read(self, fragments: Sequence[Fragment]) -> Records:
        return keys_alone(self._index, fragments)

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        run = self._run
        self._show(fragments[k])
        slots = run.look_up(run.n_numbers, records.keys_of(k))
        if slots is None:
            return None
        predictive = self._predictive(slots)
        assert self._shown is not None
        info, parents, children = run.take_in(
            predictive, self._shown.log_predictive_new(self._seen)
        )
        self.follow(records, k, parents, children, run.dropped())
        return info

    def predictive(
        self, fragments: Sequence[Fragment], records: Records, k: int, slots: IntArray
    ) -> FloatArray:
        self._show(fragments[k])
        return self._predictive(slots)

    def _show(self, x: Fragment) -> None:
        # the first one to stay keeps its table
        self._shown = self._live or self._new()
        self._seen = self._shown.encode(x)

    def _predictive(self, slots: IntArray) -> FloatArray:
        assert self._shown is not None
        if self._index is None:
            return self._shown.log_predictive(self._seen, self._run.n_slots)[slots]
        return self._shown.log_predictive_of(self._seen, slots)

    def follow(
        self, records: Records, k: int, parents: IntArray, children: IntArray, dropped: IntArray
    ) -> None:
        live = self._live = self._shown
        assert live is not None
        live.extend(self._seen, parents, children)
        self._known = max(self._known, self._run.n_slots)
        if len(dropped):
            live.release(dropped)

    def rivals(self, number: int, fragment: Fragment, records: Records, k: int) -> Rivals | None:
        found = self._run.rivals(None, number, records, k)
        if found is None:
            return None
        slots, log_size, _ = found
        if not len(slots):
            return Rivals(slots, log_size, None)
        assert self._live is not None
        seen = self._live.encode(fragment)
        weights = log_size + self._live.log_predictive_of(seen, slots)
        return Rivals(slots, weights, self._live.log_predictive_new(seen))

    def show(self, first: Fragment) -> None:
        live = self._new()
        live.encode(first)
        self._live = live

    def hold(
        self, pages: Sequence[Page], fragments: Mapping[int, Fragment], put: Callable[[], None]
    ) -> None:
        live = self._live or self._new()
        clusters = {slot: c for page in pages for slot, c in clusters_of(page).items()}
        slots = max(self._run.n_slots, self._known)
        known = math.inf if self._sparse else self._known
        Lineage(clusters, slots).replay(live, fragments, known)
        self._live, self._known = live, slots
        put()

    def release(self, slots: IntArray) -> None:
        assert self._live is not None
        self._live.release(slots)

    def _new(self) -> LiveClusters:
        live = self._likelihood.live_clusters()
        return CompactTable(live) if self._sparse else live


def keys_alone(index: CandidateIndex | None, fragments: Sequence[Fragment]) -> Records:
    """Fragments of which the kernel reads nothing but the keys."""
    nothing = np.zeros(0, dtype=np.int32)
    return Records(EncodedFragments(_NOTHING, nothing, nothing, None), *keys_of(index, fragments))


def keys_of(
    index: CandidateIndex | None, fragments: Sequence[Fragment]
) -> tuple[IntArray, IntArray]:
    """Where each fragment's keys in an index begin, shape [fragments + 1], and the keys.

    Raises:
        LikelihoodError: a key is too large.

    """
    if index is None:
        return np.zeros(len(fragments) + 1, dtype=np.int64), _NOTHING
    try:
        return index.keys_of(fragments)
    except OverflowError:
        raise LikelihoodError("the index gave a key of more than 64 bits") from None


class BlackBoxClusters:
    """See `Clusters`.

    Args:
        run: that the clusters are of.
        sets: L of sets.
        held: gives the fragments by number.
        index: of the session.
        surrogate: the table that proposes, if there is one.
        limit: how many joins it proposes at most; None is all.

    Attributes:
        asked: the sets that the last step asked for, by content.

    """

    def __init__(
        self,
        run: CompiledRun,
        sets: SessionScores,
        held: Callable[[], FragmentsByNumber],
        index: CandidateIndex | None,
        surrogate: Statistics | None,
        limit: int | None,
    ) -> None:
        self._run, self._sets, self._held, self._index = run, sets, held, index
        self._surrogate, self._limit = surrogate, limit
        self.asked: list[Key] = []

    def read(self, fragments: Sequence[Fragment]) -> Records:
        if self._surrogate is not None:
            return self._surrogate.read(fragments)
        return keys_alone(self._index, fragments)

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        run, sets, x = self._run, self._sets, fragments[k]
        number = sets.cache.number(x)
        found = self._proposed(run.n_numbers, fragments, records, k)
        if found is None:
            return None
        clusters, scores = run.clusters(found[0])
        self.asked = sets.scored(self._held(), [*clusters, ()], x, number)
        joined = sets.cache.recall(self.asked)
        fragment = run.n_numbers
        info, parents, children = run.take_in(
            joined[:-1] - scores,
            float(joined[-1]),
            joined,
            proposed=self._surrogate is not None,
            evaluations=sets.evaluations + len(set(self.asked).difference(sets.asked)),
        )
        sets.put(fragment, number)
        sets.asked.update(self.asked)
        if self._surrogate is not None:
            self._surrogate.follow(records, k, parents, children, run.dropped())
        return info

    def coming(self, number: int, x: Fragment, records: Records) -> StepDemand | None:
        """What a step with a fragment would ask for; None: its keys lead to what lies elsewhere.

        Args:
            number: that the fragment will have.
            x: the fragment.
            records: its own.

        """
        content = self._sets.cache.number(x)
        found = self._proposed(number, (x,), records, 0)
        if found is None:
            return None
        slots, heaviest = found
        owners = self._run.owners(slots)
        keys = self._run.open_keys() if self._index is not None else ()
        sets = [*self._run.clusters(slots)[0], ()]
        return StepDemand(
            unknown=self._sets.unknown(self._held(), sets, x, content)[1],
            owners=owners,
            likely=frozenset(owners if heaviest is None else (heaviest,)),
            keys=frozenset(keys),
        )

    def _proposed(
        self, number: int, fragments: Sequence[Fragment], records: Records, k: int
    ) -> tuple[IntArray, int | None] | None:
        """The clusters to ask about, ascending, and the subproblem of the heaviest join, if a
        surrogate proposes; None: the keys lead to what lies elsewhere.
        """
        slots = self._run.look_up(number, records.keys_of(k))
        if slots is None or self._surrogate is None:
            return None if slots is None else (slots, None)
        predictive = self._surrogate.predictive(fragments, records, k, slots)
        return self._run.propose(predictive, self._limit)

    def rivals(self, number: int, fragment: Fragment, records: Records, k: int) -> Rivals | None:
        found = self._run.rivals(None, number, records, k)
        if found is None:
            return None
        slots, log_size, _ = found
        if not len(slots):
            return Rivals(slots, log_size, None)
        if self._surrogate is not None:
            predictive = self._surrogate.predictive((fragment,), records, k, slots)
            return Rivals(slots, log_size + predictive, None)
        sets = self._sets
        clusters, scores = self._run.clusters(slots)
        content = sets.cache.number(fragment)
        asked = sets.scored(self._held(), [*clusters, ()], fragment, content)
        sets.asked.update(asked)
        return Rivals(slots, log_size + (sets.cache.recall(asked)[:-1] - scores), None)

    def count(self, evaluations: int) -> None:
        """A set counts when it is first asked for, and once."""

    def score(self, clusters: Sequence[Cluster]) -> FloatArray:
        asked = self._sets.scored(self._held(), clusters)
        self._sets.asked.update(asked)
        return self._sets.cache.recall(asked)

    def show(self, first: Fragment) -> None:
        if self._surrogate is not None:
            self._surrogate.show(first)

    def hold(
        self, pages: Sequence[Page], fragments: Mapping[int, Fragment], put: Callable[[], None]
    ) -> None:
        if self._surrogate is None:
            put()
        else:
            self._surrogate.hold(pages, fragments, put)
        self._sets.take_in(fragments)
        for page in pages:
            clusters = clusters_of(page).values()
            self._sets.remember(dict(zip(clusters, page.scores.tolist(), strict=True)))

    def release(self, slots: IntArray) -> None:
        if self._surrogate is not None:
            self._surrogate.release(slots)
