"""A session whose pages lie elsewhere: it holds those that it has read so far.

A fragment is here if its page is. Where all of the clusters are that a step looks at, the step
decides what it would if all others were here, too: it looks at none of them.

A live table is settled by the first fragment that it encodes. So it is shown the first one that
there is before any page comes in, wherever that lies.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kbforge.clustering.core import Core
from kbforge.clustering.paging.codec import hold, numbers_in
from kbforge.clustering.paging.totals import resume
from kbforge.clustering.revise.replace import Replacement
from kbforge.contracts import Fragment, Pages

_WINDOW = 64
"""Numbers to look for the first fragment among; twice as many where none of them is there."""

_AT_ONCE = 10_000
"""Pages that are fetched together, at most."""


@dataclass(slots=True, kw_only=True)
class PagedCore(Core):
    """See `Core`.

    Attributes:
        pages: as of the last checkpoint, or of the opening.
        removed: numbers of fragments that were there and are no more.
        asked: ids that were looked up in the pages.
        in_order: whether fragments are known to be here by ascending number.
        searched: no fragment with a smaller number lies elsewhere.

    """

    pages: Pages
    removed: set[int] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    in_order: bool = True
    searched: int = 0

    def begin(self, settings: Mapping[str, Any]) -> None:
        """Go on from where the pages were left.

        Raises:
            UsageError: as `resume`.

        """
        totals = self.pages.totals
        resume(self, totals, settings, "the pages are")
        self.state.fragments_elsewhere = totals.n_fragments
        self.state.blocks_elsewhere = totals.n_subproblems
        self.since = {}
        if self.model.table is not None:
            self.model.table.sparse = True
        if self.model.candidates is not None:
            self.model.candidates.follow(self.pages.led)

    def replace(self, replacement: Replacement) -> None:
        Core.replace(self, replacement)
        self.removed.update(replacement.regrouped.removed)

    def lead(self, x: Fragment) -> None:
        candidates = self.model.candidates
        if candidates is None or not self.rules.splits:
            self.have_all()
            return
        self._settle_table()
        if self.bindings is not None:
            closure = self.bindings.closure
            self.have_ids(closure.members.get(closure.component.get(x.id, ""), ()))
        keys = candidates.keys(x)
        candidates.know(keys)
        self.have(candidates.open_families(keys))
        self.have(candidates.closed_families(keys, self.state.in_heaviest))

    def have(self, numbers: Iterable[int]) -> None:
        wanted = self._elsewhere(numbers)
        if wanted:
            self._fetch(sorted(set(self.pages.homes(wanted).values())))

    def have_ids(self, ids: Iterable[str]) -> None:
        unknown = [id for id in ids if id not in self.asked]
        if unknown:
            self.have(sorted(self.pages.numbers(unknown).values()))
            self.asked.update(unknown)

    def have_all(self) -> None:
        if self.state.blocks_elsewhere:
            names = self._elsewhere(self.pages.names())
            for begin in range(0, len(names), _AT_ONCE):
                self._fetch(names[begin : begin + _AT_ONCE])
        if not self.in_order:
            self.model.fragments = dict(sorted(self.model.fragments.items()))
            self.in_order = True

    def have_keys(self) -> None:
        if self.model.candidates is not None:
            self.model.candidates.know(self.pages.keys())

    def have_first(self, gone: Collection[int]) -> None:
        if self.model.table is not None and min(self.model.fragments) in gone:
            first = self._first(gone)
            self.have([] if first is None else [first])

    def _elsewhere(self, numbers: Iterable[int]) -> list[int]:
        """Those that are not here, and have not been."""
        here, removed = self.model.fragments, self.removed
        return [n for n in numbers if n not in here and n not in removed]

    def _fetch(self, names: list[int]) -> None:
        """Have these pages here; whatever is raised, nothing has changed."""
        pages = [self.pages.page(name) for name in names]
        numbers = numbers_in(pages)
        found = self.pages.fragments(numbers)
        fragments = {number: found[number] for number in numbers}
        self._settle_table()
        hold(self, pages, fragments)
        self.in_order = False
        self.state.fragments_elsewhere -= len(fragments)
        self.state.blocks_elsewhere -= len(pages)

    def _settle_table(self) -> None:
        """Have a table that was shown the first fragment, if there is any."""
        table = self.model.table
        if table is None or table.live is not None:
            return
        first = self._first(())
        if first is not None:
            table.begin(self.pages.fragments([first])[first])

    def _first(self, gone: Collection[int]) -> int | None:
        """The smallest number of a fragment that there is, here or elsewhere, but for some."""
        here = min((n for n in self.model.fragments if n not in gone), default=None)
        if not self.state.fragments_elsewhere:
            return here
        end = self.state.n_fragments if here is None else here
        width = _WINDOW
        while self.searched < end:
            stop = min(self.searched + width, end)
            homes = self.pages.homes(self._elsewhere(range(self.searched, stop)))
            if homes:
                return min(homes)
            self.searched, width = stop, 2 * width
        return here
