"""The fragments, subproblems and constraints of a compiled session, in memory or elsewhere.

A session opened on pages has here what it has looked at so far, as the reference does: the kernel
says when a fragment's keys lead to what is not here, and it is fetched.

To the reference engine, what is held is itself pages: what the kernel does not do, a removal, say,
a session of the reference does that is opened on these. It fetches what it looks at, and what it
has changed comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from ctypes import CDLL
from itertools import accumulate, chain

import numpy as np

from kbforge.clustering.compiled.run import CompiledRun, Copies
from kbforge.clustering.compiled.tables import Clusters
from kbforge.clustering.constraints import Closure, FragmentTags, Tag
from kbforge.clustering.core import Ids
from kbforge.clustering.pages import numbers_in
from kbforge.contracts import (
    Checkpoint,
    Cluster,
    Constraints,
    Fragment,
    IntArray,
    KeyFamilies,
    Page,
    Pages,
    Totals,
)
from kbforge.errors import ContradictionError, UsageError
from kbforge.kernel.binding import address

_WINDOW = 64
"""Numbers to look for the first fragment among; twice as many where none of them is there."""

_AT_ONCE = 10_000
"""Pages that are fetched together, at most."""


class SessionPages(Pages):
    """See above.

    Args:
        run: the particles.
        copies: of them.
        bindings: what constraints say of the fragments.
        made: makes an empty table of their clusters.
        totals: what the session knows beside its subproblems.

    Attributes:
        bindings: what constraints say of the fragments that are here.
        held: fragments by number; None: it is not here.
        n_fragments: how many there are, here and elsewhere.
        ids: the numbers of those that are here.
        clusters: the table.
        source: where the other subproblems lie; None: all are here.

    """

    def __init__(
        self,
        run: CompiledRun,
        copies: Copies,
        bindings: CompiledBindings,
        made: Callable[[], Clusters],
        totals: Callable[[], Totals],
    ) -> None:
        self._run, self._copies, self._made, self._totals = run, copies, made, totals
        self.bindings = bindings
        self.held: list[Fragment | None] = []
        self.n_fragments = 0
        self.ids = Ids(lambda: dict(self.here()))
        self.clusters = made()
        self.source: Pages | None = None
        self._settled = True
        self._known: set[int] = set()  # keys, of a session with a source
        self._asked: set[str] = set()  # ids that were looked up in it
        self._absent: set[int] = set()  # numbers that no fragment has, as far as they are known
        self._searched = 0  # no fragment has a smaller number

    def follow(self, totals: Totals, source: Pages | None) -> None:
        """Be, while empty, as one that had numbered so many.

        Args:
            totals: what it knew.
            source: where its subproblems lie; None: they are yet to be put in.

        """
        self.held = [None] * totals.n_numbers
        self.n_fragments, self.source = totals.n_fragments, source
        self._settled = source is None
        self._run.number(totals.n_numbers, totals.n_slots)
        self._copies.resume(totals, source is not None)

    def took_in(self, fragments: Sequence[Fragment], numbers: Sequence[int]) -> None:
        """These have been taken in; their numbers are the next ones."""
        self.held += fragments
        self.n_fragments += len(fragments)
        self.ids.put(dict(zip(numbers, fragments, strict=True)))

    # -- have it here -------------------------------------------------------------------------

    def settle(self) -> None:
        """Have a table that was shown the first fragment that there is. May raise."""
        if self._settled:
            return
        first = self._first()
        if first is not None:
            self.clusters.show(self.fragments([first])[first])
        self._settled = True

    def know(self, keys: Iterable[int]) -> None:
        """Have it known where these keys lead."""
        if self.source is None:
            return
        unknown = [key for key in dict.fromkeys(keys) if key not in self._known]
        if unknown:
            self._copies.put_led(self.source.led(unknown), changes=False)
            self._known.update(unknown)

    def have(self, numbers: Iterable[int]) -> None:
        """Have here the subproblems of fragments, of those that there are."""
        wanted = [number for number in numbers if self._is_elsewhere(number)]
        if not wanted:
            return
        assert self.source is not None
        homes = self.source.homes(wanted)
        nowhere = [number for number in wanted if number not in homes]
        self._absent.update(nowhere)
        self._copies.absent(nowhere)
        self._fetch(sorted(set(homes.values())))

    def have_ids(self, ids: Iterable[str]) -> None:
        """The same, of the fragments with these ids."""
        if self.source is None:
            return
        unknown = [id for id in ids if id not in self._asked]
        if unknown:
            self.have(sorted(self.source.numbers(unknown).values()))
            self._asked.update(unknown)

    def have_all(self) -> None:
        """Have here all subproblems."""
        if self.source is not None:
            self._fetch([name for name in self.source.names() if self._is_elsewhere(name)])

    def have_keys(self) -> None:
        """Have it known where all keys lead."""
        if self.source is not None:
            self.know(self.source.keys())

    def lead(self, keys: IntArray) -> None:
        """Have it known where keys lead, and have here what open ones lead to."""
        if self.source is not None:
            self.know(keys.tolist())
            self.reach(keys, closed=False)

    def reach(self, keys: IntArray, closed: bool) -> None:
        """Have here what keys lead to.

        Args:
            keys: known ones.
            closed: whether closed keys are followed, too.

        """
        if self.source is not None:
            self.have(self._copies.elsewhere(keys, closed))

    def _fetch(self, names: Sequence[int]) -> None:
        assert self.source is not None
        for begin in range(0, len(names), _AT_ONCE):
            pages = [self.source.page(name) for name in names[begin : begin + _AT_ONCE]]
            self.put(pages, self.source.fragments(numbers_in(pages)))

    def put(self, pages: Sequence[Page], fragments: Mapping[int, Fragment]) -> None:
        """Hold subproblems, too. Whatever is raised, nothing has changed.

        Args:
            pages: of the subproblems.
            fragments: theirs, by number.

        """
        if not pages:
            return
        self.settle()
        self._run.fit_sizes(max(int(page.lengths.max()) for page in pages))
        held = {number: fragments[number] for number in numbers_in(pages)}
        self.bindings.take_in(held)
        self.clusters.hold(pages, held, lambda: self._copies.hold(pages))
        new = {number: x for number, x in held.items() if self.held[number] is None}
        for number, x in new.items():
            self.held[number] = x
        self.ids.put(new)

    # -- what the reference has changed -------------------------------------------------------

    def replace(self, names: Collection[int], now: Checkpoint, removed: Mapping[int, str]) -> None:
        """Other subproblems have taken the place of some.

        Args:
            names: of those that there were.
            now: those that there are, where keys lead that led elsewhere, and the totals.
            removed: the ids of fragments that are no more, by number.

        """
        members = numbers_in(now.pages)
        fragments = self.fragments(members)
        first = self._first() if removed else None
        known = [name for name in names if name < len(self.held)]
        homes = self._copies.homes(known)
        here = [name for name, home in zip(known, homes, strict=True) if name == home]
        if here:
            gone = self._copies.pages(np.array(sorted(here), dtype=np.int64))
            self.clusters.release(np.concatenate([page.slots for page in gone]))
            self._copies.drop(here)
        self._run.number(now.totals.n_numbers, now.totals.n_slots)
        self._copies.resume(now.totals, elsewhere=False)
        self._forget(removed)
        self.put(now.pages, fragments)
        self._copies.put_led(now.led, changes=True)
        if self.source is not None:
            self._known.update(now.led)
        if first in removed:
            self._begin_anew()

    def _forget(self, removed: Mapping[int, str]) -> None:
        gone = {n: x for n in removed if (x := self.held[n]) is not None}
        self.ids.forget([x.id for x in gone.values()])
        self.bindings.forget(gone)
        for number in removed:
            self.held[number] = None
        self.n_fragments -= len(removed)
        self._absent.update(removed)
        self._copies.absent(removed)

    def _begin_anew(self) -> None:
        """Fill another table: the first fragment had settled what the old one reads."""
        self.clusters, self._settled = self._made(), False
        self.settle()
        names = self._copies.names()
        if len(names):
            self.clusters.hold(self._copies.pages(names), dict(self.here()), lambda: None)

    # -- as pages -----------------------------------------------------------------------------

    @property
    def totals(self) -> Totals:
        return self._totals()

    def page(self, name: int) -> Page:
        if self.source is not None and self._is_elsewhere(name):
            return self.source.page(name)
        if self.homes((name,)).get(name) != name:
            raise KeyError(name)
        return self._copies.page(name)

    def names(self) -> Sequence[int]:
        here: list[int] = self._copies.names().tolist()
        if self.source is None:
            return here
        return sorted([*here, *(n for n in self.source.names() if self._is_elsewhere(n))])

    def fragments(self, numbers: Sequence[int]) -> dict[int, Fragment]:
        """Fragments by number; those that there are not are left out."""
        found = {n: x for n in numbers if (x := self.held[n]) is not None}
        left = [n for n in numbers if self._is_elsewhere(n)]
        if left and self.source is not None:
            found |= self.source.fragments(left)
        return found

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        self.have_ids(ids)
        found: dict[str, int] = {}
        for id in ids:
            try:
                found[id] = self.ids.of(id)
            except UsageError:
                continue
        return found

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        inside = [number for number in numbers if 0 <= number < len(self.held)]
        found = dict(zip(inside, self._copies.homes(inside), strict=True))
        homes = {number: home for number, home in found.items() if home >= 0}
        left = [number for number in inside if self._is_elsewhere(number)]
        if left and self.source is not None:
            homes |= self.source.homes(left)
        return homes

    def led(self, keys: Sequence[int]) -> Mapping[int, KeyFamilies]:
        self.know(keys)
        found = self._copies.led_of(keys)
        return {key: led for key, led in found.items() if led.families or led.closed}

    def keys(self) -> Sequence[int]:
        self.have_keys()
        return list(self._copies.led())

    # -----------------------------------------------------------------------------------------

    def here(self) -> Iterable[tuple[int, Fragment]]:
        """The fragments that are here, by ascending number."""
        return ((number, x) for number, x in enumerate(self.held) if x is not None)

    def _is_elsewhere(self, number: int) -> bool:
        """Whether a fragment may be there that is not here."""
        return (
            self.source is not None
            and 0 <= number < len(self.held)
            and self.held[number] is None
            and number not in self._absent
        )

    def _first(self) -> int | None:
        """The smallest number of a fragment that there is."""
        width = _WINDOW
        while self._searched < len(self.held):
            stop = min(self._searched + width, len(self.held))
            homes = self.homes(range(self._searched, stop))
            if homes:
                return min(homes)
            self._searched, width = stop, 2 * width
        return None


class CompiledBindings:
    """What constraints say of the fragments of a run.

    Args:
        kernel: the library.
        run: address of the run; it lives longer.

    Attributes:
        tags: of the fragments that are here; None: there are no constraints.

    """

    def __init__(self, kernel: CDLL, run: int) -> None:
        self._kernel, self._run = kernel, run
        self.tags: FragmentTags | None = None
        self._component: dict[str, int] = {}
        self._value: dict[str, int] = {}

    @property
    def constraints(self) -> Constraints:
        """Those in force."""
        return Constraints() if self.tags is None else self.tags.constraints

    def bind(self, constraints: Constraints, fragments: Iterable[tuple[int, Fragment]]) -> None:
        """From now on these constraints are in force; the particles are as they were.

        Args:
            constraints: any.
            fragments: those that are here, by ascending number.

        Raises:
            ContradictionError: they cannot all hold; nothing has changed.

        """
        closure = Closure(constraints.decisions)
        if not constraints:
            self.tags = None
            self._kernel.kb_bind(self._run, -1, None, None)
            return
        tags = FragmentTags(constraints, closure)
        bound = {n: x for n, x in fragments if tags.concern(x)}
        for number, x in bound.items():
            tags.require_possible(x)
            tags.take_in(number, x)
        self.tags = tags
        self._component = {name: k for k, name in enumerate(closure.members)}
        self._value = {}
        apart = [
            [self._component[other] for other in closure.apart.get(name, ())]
            for name in closure.members
        ]
        starts, others = _columns(apart)
        self._kernel.kb_bind(self._run, len(apart), address(starts), address(others))
        self._tell({number: tags.of(number) for number in bound})
        self._kernel.kb_tag_clusters(self._run)

    def take_in(self, fragments: Mapping[int, Fragment]) -> None:
        """These fragments are here, too, by number; the run is yet to be told of their clusters."""
        if self.tags is not None:
            bound = [number for number, x in fragments.items() if self.tags.concern(x)]
            for number in bound:
                self.tags.take_in(number, fragments[number])
            self._tell({number: self.tags.of(number) for number in bound})

    def expect(
        self, first: int, fragments: Sequence[Fragment]
    ) -> tuple[int, ContradictionError | None]:
        """These fragments come next.

        Args:
            first: the number that the first of them gets.
            fragments: any.

        Returns:
            How many of them may come, and what is wrong with the one after those.

        """
        if self.tags is None:
            return len(fragments), None
        bound, contradiction = list[int](), None
        for number, x in enumerate(fragments, first):
            if not self.tags.concern(x):
                continue
            try:
                self.tags.require_possible(x)
            except ContradictionError as error:
                fragments, contradiction = fragments[: number - first], error
                break
            self.tags.take_in(number, x)
            bound.append(number)
        self._tell({number: self.tags.of(number) for number in bound})
        return len(fragments), contradiction

    def preview(self, number: int, x: Fragment) -> None:
        """Look at what the kernel would do with a fragment if it had this number."""
        if self.tags is not None:
            self._tell({number: self.tags.of_fragment(x)})

    def forget(self, fragments: Mapping[int, Fragment]) -> None:
        """These fragments, by number, are no more, or have not come after all."""
        if self.tags is not None:
            bound = {n: x for n, x in fragments.items() if self.tags.of(n)}
            self.tags.forget(bound)
            self._tell(dict.fromkeys(bound, frozenset()))

    def mates(self, x: Fragment) -> Sequence[str]:
        """The ids of all that decisions make one with a fragment."""
        if self.tags is None:
            return ()
        closure = self.tags.closure
        return closure.members.get(closure.component.get(x.id, ""), ())

    def allow(self, cluster: Cluster) -> bool:
        """Whether constraints let fragments be one cluster."""
        return self.tags is None or self.tags.allow([cluster])

    def _tell(self, tags: Mapping[int, frozenset[Tag]]) -> None:
        """Tell the kernel the tags of fragments, by number."""
        if not tags:
            return
        components, values = list[int](), list[list[int]]()
        for own in tags.values():
            components.append(next((self._component[name] for decided, name in own if decided), -1))
            values.append(
                [self._value.setdefault(v, len(self._value)) for decided, v in own if not decided]
            )
        told, of = np.array(list(tags), dtype=np.int64), np.array(components, dtype=np.int64)
        starts, flat = _columns(values)
        self._kernel.kb_tag(self._run, len(told), *map(address, (told, of, starts, flat)))


def _columns(lists: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Where each list begins, and the end, shape [lists + 1], and all numbers."""
    starts = np.fromiter(accumulate(map(len, lists), initial=0), np.int64, len(lists) + 1)
    return starts, np.fromiter(chain.from_iterable(lists), np.int64, int(starts[-1]))
