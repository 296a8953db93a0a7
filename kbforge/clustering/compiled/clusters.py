"""The live clusters of a run of the kernel, by two kinds of likelihoods.

One has a table in the kernel; the other has one in Python, which is asked between the kernel's
steps. Both tables are settled by the first fragment that they are shown, and both are filled again
along the lineage of clusters that are held again, to the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from ctypes import CDLL
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.compiled.run import CompiledRun, Records
from kbforge.clustering.online.lineage import Lineage
from kbforge.clustering.online.renumbered import Renumbered
from kbforge.clustering.paging.codec import clusters_of
from kbforge.contracts import (
    CandidateIndex,
    CompiledClusters,
    ConjugateLikelihood,
    Encoded,
    FloatArray,
    Fragment,
    Info,
    IntArray,
    LiveClusters,
    Page,
)
from kbforge.errors import LikelihoodError
from kbforge.kernel.binding import address

_NOTHING: IntArray = np.zeros(0, dtype=np.int64)


class Rivals(NamedTuple):
    """Clusters of heaviest particles that a fragment could belong to instead of its own.

    Attributes:
        slots: theirs, ascending, shape [n].
        weights: log|C| + L(C + x) - L(C), nats, shape [n].
        alone: L({x}), nats; 0 if there are none.

    """

    slots: IntArray
    weights: FloatArray
    alone: float


class Clusters(Protocol):
    """What a run asks of the table of its clusters, whichever kind it is."""

    def read(self, fragments: Sequence[Fragment]) -> Records:
        """Fragments to be taken in, one after another."""
        ...

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        """Take in the k-th of these; None: its keys lead to what lies elsewhere, and nothing is
        done.

        Raises:
            Cornered: constraints leave it no place.
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


class InKernel:
    """See `Clusters`: a table in the kernel.

    Args:
        kernel: the library.
        run: that the clusters are of.
        table: empty.
        index: of the session.

    """

    def __init__(
        self,
        kernel: CDLL,
        run: CompiledRun,
        table: CompiledClusters,
        index: CandidateIndex | None,
    ) -> None:
        self._kernel, self._run, self.table, self._index = kernel, run, table, index

    def read(self, fragments: Sequence[Fragment]) -> Records:
        starts, keys = keys_of(self._index, fragments)
        return Records(self._told(fragments), starts, keys)

    def _told(self, fragments: Sequence[Fragment]) -> Encoded:
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

    def show(self, first: Fragment) -> None:
        self._replay(_NOTHING, [0], self._told([first]))

    def hold(
        self, pages: Sequence[Page], fragments: Mapping[int, Fragment], put: Callable[[], None]
    ) -> None:
        encoded = self._told(list(fragments.values()))
        put()
        self._replay(np.concatenate([page.slots for page in pages]), list(fragments), encoded)

    def _replay(self, slots: IntArray, numbers: Sequence[int], encoded: Encoded) -> None:
        told = np.array(numbers, dtype=np.int64)
        records: tuple[NDArray[Any], ...] = encoded.starts, encoded.attributes, encoded.values
        self._kernel.kb_replay(
            *(self._run.handle, self.table.handle, len(slots), address(slots)),
            *(len(told), address(told), *map(address, records)),
        )

    def release(self, slots: IntArray) -> None:
        self._kernel.kb_release(self.table.handle, len(slots), address(slots))


class InPython:
    """See `Clusters`: a table in Python.

    Args:
        run: that the clusters are of.
        likelihood: makes the table.
        index: of the session.
        sparse: whether few of the slots may be held.

    """

    def __init__(
        self,
        run: CompiledRun,
        likelihood: ConjugateLikelihood,
        index: CandidateIndex | None,
        sparse: bool,
    ) -> None:
        self._run, self._likelihood, self._index, self._sparse = run, likelihood, index, sparse
        self._live: LiveClusters | None = None
        self._known = 0  # slots that the table knows of

    def read(self, fragments: Sequence[Fragment]) -> Records:
        nothing = np.zeros(0, dtype=np.int32)
        return Records(Encoded(_NOTHING, nothing, nothing, None), *keys_of(self._index, fragments))

    def add(self, fragments: Sequence[Fragment], records: Records, k: int) -> Info | None:
        run = self._run
        live = self._live or self._new()  # the first one to stay keeps its table
        seen = live.encode(fragments[k])
        slots = run.look_up(records.keys_of(k))
        if slots is None:
            return None
        if self._index is None:
            predictive = live.log_predictive(seen, run.n_slots)[slots]
        else:
            predictive = live.log_predictive_of(seen, slots)
        info, parents, children = run.take_in(predictive, live.log_predictive_new(seen))
        self._live = live
        live.extend(seen, parents, children)
        self._known = max(self._known, run.n_slots)
        dropped = run.dropped()
        if len(dropped):
            live.release(dropped)
        return info

    def rivals(self, number: int, fragment: Fragment, records: Records, k: int) -> Rivals | None:
        found = self._run.rivals(None, number, records, k)
        if found is None:
            return None
        slots, log_size, _ = found
        if not len(slots):
            return Rivals(slots, log_size, 0.0)
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
        return Renumbered(live) if self._sparse else live


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
