"""Constraints as the kernel honours them: Python gives fragments tags, the kernel clusters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from ctypes import CDLL
from itertools import accumulate, chain

import numpy as np

from kbforge.clustering.constraints.bindings import FragmentTags, Tag
from kbforge.clustering.constraints.closure import Closure
from kbforge.contracts import Cluster, Constraints, Fragment, IntArray
from kbforge.errors import ContradictionError
from kbforge.kernel.binding import address


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
