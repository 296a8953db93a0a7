"""The pages of a session in memory: the simplest store there is, for tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kbforge.contracts import Checkpoint, Fragment, Led, Page, Totals


class MemoryPages:
    """See `kbforge.contracts.Pages`; it is as of the last checkpoint that it was given.

    Args:
        first: the checkpoint to begin with, which has everything.
        fragments: all of the session's, by number.

    Attributes:
        fetched: names of the pages that were asked for, in order.

    """

    def __init__(self, first: Checkpoint, fragments: Mapping[int, Fragment]) -> None:
        self.fetched: list[int] = []
        self._pages: dict[int, Page] = {}
        self._fragments: dict[int, Fragment] = {}
        self._homes: dict[int, int] = {}
        self._led: dict[int, Led] = {}
        self.write(first, fragments)

    def write(self, checkpoint: Checkpoint, fragments: Mapping[int, Fragment]) -> None:
        """Take up a checkpoint.

        Args:
            checkpoint: of a session with these pages.
            fragments: its fragments, by number; those of the checkpoint's pages at least.

        """
        self._totals = checkpoint.totals
        for name in checkpoint.gone:
            del self._pages[name]
        self._pages |= {page.name: page for page in checkpoint.pages}
        for key, led in checkpoint.led.items():
            if led.families or led.closed:
                self._led[key] = led
            else:
                self._led.pop(key, None)
        self._homes = {
            number: page.name for page in self._pages.values() for number in page.members.tolist()
        }
        known = self._fragments | dict(fragments)
        self._fragments = {number: known[number] for number in self._homes}

    @property
    def totals(self) -> Totals:
        """What the session knew beside its pages."""
        return self._totals

    def page(self, name: int) -> Page:
        """One subproblem.

        Raises:
            KeyError: there is none of that name.

        """
        page = self._pages[name]
        self.fetched.append(name)
        return page

    def names(self) -> Sequence[int]:
        """All subproblems, ascending."""
        return sorted(self._pages)

    def fragments(self, numbers: Sequence[int]) -> Mapping[int, Fragment]:
        """Fragments by number; those that there are not are left out."""
        return {n: self._fragments[n] for n in numbers if n in self._fragments}

    def numbers(self, ids: Sequence[str]) -> Mapping[str, int]:
        """The numbers of fragments by id; ids that none has are left out."""
        return {x.id: n for n, x in self._fragments.items() if x.id in ids}

    def homes(self, numbers: Sequence[int]) -> Mapping[int, int]:
        """The subproblem of each fragment; those that there are not are left out."""
        return {n: self._homes[n] for n in numbers if n in self._homes}

    def led(self, keys: Sequence[int]) -> Mapping[int, Led]:
        """Where keys lead; keys that lead nowhere are left out."""
        return {key: self._led[key] for key in keys if key in self._led}

    def keys(self) -> Sequence[int]:
        """All keys that lead anywhere."""
        return sorted(self._led)
