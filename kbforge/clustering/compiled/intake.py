"""How a compiled session adds fragments.

They come one by one, where the session may be asked anything in between, or together. Either way
some of the next ones are read ahead: what the likelihood reads of them, their keys, and, where
subproblems lie elsewhere, those that their keys lead to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import zip_longest
from typing import NamedTuple, TypeAlias

from kbforge.clustering.compiled.clusters import Clusters, InKernel, keys_of
from kbforge.clustering.compiled.holding import SessionPages
from kbforge.clustering.compiled.run import CompiledRun, Records
from kbforge.clustering.plan import InfeasibleFragment
from kbforge.contracts import CandidateIndex, CompiledClusters, Fragment, Info
from kbforge.errors import LikelihoodError, quoted

_AT_ONCE = 512
"""Fragments that are read before the kernel takes them in."""


Note: TypeAlias = Callable[[Sequence[Fragment], Sequence[Info]], None]
"""Is told of fragments that were taken in, and what was done."""


class _Ready(NamedTuple):
    """Fragments that have been read.

    Attributes:
        clusters: the table that they are for.
        fragments: as they came.
        records: as the kernel reads them.
        begin: the place of the first of them among all.

    """

    clusters: Clusters
    fragments: Sequence[Fragment]
    records: Records
    begin: int


class OneByOne:
    """Fragments that are taken in each when its turn has come.

    Args:
        holding: what the session holds.
        whole: whether a step looks at all clusters.
        fragments: in order.

    """

    def __init__(self, holding: SessionPages, whole: bool, fragments: Sequence[Fragment]) -> None:
        self._holding, self._whole, self._fragments = holding, whole, fragments
        self._ready: _Ready | None = None

    def take(self, at: int) -> tuple[Info, Records, int]:
        """Take in a fragment; those before it have been.

        Returns:
            What was done, and where the fragment's record is.

        Raises:
            InfeasibleFragment: constraints leave it no place.
            LikelihoodError: as a session's `add`.
            ContradictionError: likewise.

        """
        x, bindings = self._fragments[at], self._holding.bindings
        try:
            ready = self._read(at)
            k = at - ready.begin
            self._holding.have_ids(bindings.mates(x))
            number = len(self._holding.held)
            contradiction = bindings.expect(number, (x,))[1]
            if contradiction is not None:
                raise contradiction
            try:
                info = self._taken_in(ready, k)
            except BaseException:
                bindings.forget({number: x})
                raise
        except LikelihoodError as error:
            raise LikelihoodError(f'fragment "{quoted(x.id)}": {error}') from error
        return info, ready.records, k

    def _taken_in(self, ready: _Ready, k: int) -> Info:
        info = ready.clusters.add(ready.fragments, ready.records, k)
        if info is None:
            self._holding.reach(ready.records.keys_of(k), closed=True)
            info = ready.clusters.add(ready.fragments, ready.records, k)
        assert info is not None, "what its keys lead to is here"
        return info

    def _read(self, at: int) -> _Ready:
        """Have a fragment read, and some of the next ones."""
        ready = self._ready
        known = ready is not None and at < ready.begin + len(ready.fragments)
        if ready is not None and known and ready.clusters is self._holding.clusters:
            return ready
        part = self._fragments[at : at + _AT_ONCE]
        while len(part) > 1:
            try:
                self._ready = self._made(part, at)
                return self._ready
            except Exception:  # one of them is to be refused, when its turn has come
                part = part[: len(part) // 2]
        self._ready = self._made(part, at)
        return self._ready

    def _made(self, fragments: Sequence[Fragment], begin: int) -> _Ready:
        holding = self._holding
        holding.settle()
        if self._whole:
            holding.have_all()
        records = holding.clusters.read(fragments)
        holding.lead(records.keys)
        return _Ready(holding.clusters, fragments, records, begin)


def together(
    run: CompiledRun,
    holding: SessionPages,
    clusters: InKernel,
    index: CandidateIndex | None,
    fragments: Sequence[Fragment],
    note: Note,
    cornered: Callable[[Fragment], None],
) -> None:
    """Take in fragments by a likelihood of the kernel's own; while it does, the next are read.

    Args:
        run: all subproblems of which are here.
        holding: what the session holds.
        clusters: the table.
        index: of the session.
        fragments: in order.
        note: is told of those that were taken in.
        cornered: takes in a fragment that constraints leave no place.

    Raises:
        LikelihoodError: as a session's `add`.
        ContradictionError: likewise.

    """
    table = clusters.table
    parts = [fragments[i : i + _AT_ONCE] for i in range(0, len(fragments), _AT_ONCE)]
    with ThreadPoolExecutor(1) as beside:
        ahead = [beside.submit(_encoded, clusters, index, part) for part in parts[:1]]
        try:
            for _, following in zip_longest(parts, parts[1:]):
                encoded, refusal = ahead[0].result()
                for one in encoded:
                    table.tell(one.records.encoded)
                del ahead[0]
                if following is not None:
                    ahead.append(beside.submit(_encoded, clusters, index, following))
                for one in encoded:
                    _take_in(run, holding, table, one, note, cornered)
                if refusal is not None:
                    raise refusal
        finally:
            for left in ahead:  # what was encoded has numbers that the kernel must know
                for one in left.result()[0]:
                    table.tell(one.records.encoded)


def _take_in(
    run: CompiledRun,
    holding: SessionPages,
    table: CompiledClusters,
    ready: _Ready,
    note: Note,
    cornered: Callable[[Fragment], None],
) -> None:
    """See `together`."""
    fragments, bindings, at = ready.fragments, holding.bindings, 0
    while at < len(fragments):
        first = len(holding.held)
        some, contradiction = bindings.expect(first, fragments[at:])
        infos, refusal = run.add(table, ready.records, at, at + some)
        left = fragments[at + len(infos) : at + some]
        bindings.forget(dict(enumerate(left, first + len(infos))))
        note(fragments[at : at + len(infos)], infos)
        at += len(infos)
        if isinstance(refusal, InfeasibleFragment):
            cornered(fragments[at])
            at += 1
        elif refusal is not None:
            bad = quoted(fragments[at].id)
            raise LikelihoodError(f'fragment "{bad}": {refusal}')
        elif contradiction is not None:
            raise contradiction


def _encoded(
    clusters: InKernel, index: CandidateIndex | None, fragments: Sequence[Fragment]
) -> tuple[list[_Ready], LikelihoodError | None]:
    """Fragments that the kernel is still to be told of, and why it cannot read the next one."""

    def read(part: Sequence[Fragment]) -> _Ready:
        keys = keys_of(index, part)
        return _Ready(clusters, part, Records(clusters.table.encode(part), *keys), 0)

    try:
        return [read(fragments)], None
    except LikelihoodError:
        encoded: list[_Ready] = []
        for fragment in fragments:
            try:
                encoded.append(read((fragment,)))
            except LikelihoodError as error:
                return encoded, error
        raise
