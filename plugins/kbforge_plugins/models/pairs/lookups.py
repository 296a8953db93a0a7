"""Which row of a file states something, and how many of its fragments have a name."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from kbforge.contracts import FloatArray, IntArray
from kbforge_plugins.models.pairs.keeping import Reading, Writing
from kbforge_plugins.models.pairs.records import Statement, Table


class Statements:
    """The rows of statements.

    Args:
        digests: of the statements, by row, shape [rows, 2].

    """

    def __init__(self, digests: IntArray) -> None:
        self._digests = digests
        self._order = np.argsort(digests[:, 0], kind="stable")
        self._first = digests[self._order, 0]

    @classmethod
    def of(cls, statements: Sequence[Statement]) -> Statements:
        """These are the rows."""
        digests = [_digest(said) for said in statements]
        return cls(np.array(digests, dtype=np.int64).reshape(-1, 2))

    def __len__(self) -> int:
        return len(self._digests)

    def row(self, said: Statement) -> int | None:
        """The row of a statement; None if it has none."""
        first, second = _digest(said)
        at = int(np.searchsorted(self._first, first))
        while at < len(self._first) and self._first[at] == first:
            row = int(self._order[at])
            if self._digests[row, 1] == second:
                return row
            at += 1
        return None

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.array("statements", self._digests)

    @classmethod
    def taken(cls, kept: Reading) -> Statements:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        return cls(kept.array("statements", np.int64, -1, 2))


def _digest(said: Statement) -> tuple[int, int]:
    text = "".join(f"{len(a)} {len(v)} {a}{v}" for a, v in said)
    digest = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    return (
        int.from_bytes(digest[:8], "little", signed=True),
        int.from_bytes(digest[8:], "little", signed=True),
    )


class Called:
    """How many fragments and rows of a file have a name.

    Args:
        numbers: of the names, ascending.
        counts: fragments, and rows, shape [2, names].

    """

    def __init__(self, numbers: IntArray, counts: IntArray) -> None:
        self._numbers, self._counts = numbers, counts

    @classmethod
    def fitted(cls, table: Table, counts: IntArray) -> Called:
        """Those of a table.

        Args:
            table: of the file.
            counts: fragments of each row.

        """
        numbers, which = np.unique(table.numbers("name"), return_inverse=True)
        fragments = np.bincount(which, weights=counts, minlength=len(numbers))
        rows = np.bincount(which, minlength=len(numbers))
        return cls(numbers, np.stack([fragments.astype(np.int64), rows]))

    def __len__(self) -> int:
        return len(self._numbers)

    def of(self, table: Table) -> FloatArray:
        """Fragments and rows with the name of each row, shape [2, rows]."""
        wanted = table.numbers("name")
        if not len(self):
            return np.zeros((2, len(wanted)))
        at = np.searchsorted(self._numbers, wanted).clip(max=len(self) - 1)
        found = np.where(self._numbers[at] == wanted, self._counts[:, at], 0)
        return found.astype(np.float64)

    def keep(self, into: Writing) -> None:
        """Write what `taken` reads."""
        into.array("numbers", self._numbers)
        into.array("counts", self._counts)

    @classmethod
    def taken(cls, kept: Reading) -> Called:
        """What `keep` has written.

        Raises:
            ModelError: it is damaged.

        """
        numbers = kept.array("numbers", np.int64, -1)
        return cls(numbers, kept.array("counts", np.int64, 2, len(numbers), low=1))
