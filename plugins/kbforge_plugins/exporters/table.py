"""Tables for spreadsheets: what the exporters csv, wide and members write alike.

The dialect is RFC 4180 in UTF-8, and every cell stands in quotes, so that a program that splits at
semicolons or tabs still finds the cells. A cell that a spreadsheet would take for a formula gets an
apostrophe in front; numbers and phone numbers do not.
"""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from typing import BinaryIO

from kbforge.errors import UsageError

_FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")  # full-width ones too
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# a space behind the country code: no spreadsheet can read "+49 174" as arithmetic, but "+49-174"
_PHONE = re.compile(r"\+\d{1,4}(?:[ \xa0](?:\(\d{1,5}\)[ \xa0]?)?\d+)+(?:[-/.]\d+)*", re.ASCII)


def safe(cell: str) -> str:
    """A cell that no spreadsheet computes."""
    if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell) or _PHONE.fullmatch(cell):
        return cell
    return f"'{cell}"


@contextlib.contextmanager
def table(out: BinaryIO) -> Iterator[Callable[[Sequence[str]], object]]:
    """What writes one row to a binary stream, which stays the caller's to close."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    try:
        yield csv.writer(text, quoting=csv.QUOTE_ALL).writerow
    finally:
        text.detach()


class Joined:
    """Several texts in one cell, between them one character.

    Within a text the character and the backslash are written behind a backslash.

    Raises:
        UsageError: a separator that is not one character, or that is the backslash.

    """

    def __init__(self, separator: str, exporter: str) -> None:
        if len(separator) != 1 or separator == "\\":
            raise UsageError(
                f"exporter {exporter}: separator must be one character, not a backslash"
            )
        self._separator = separator

    def __call__(self, texts: Sequence[str]) -> str:
        """The content of the cell."""
        return self._separator.join(map(self._escaped, texts))

    def _escaped(self, text: str) -> str:
        escaped = text.replace("\\", "\\\\")
        return escaped.replace(self._separator, f"\\{self._separator}")


def number(value: float | None) -> str:
    """A number's cell; empty for none."""
    return "" if value is None else repr(value)


def numbers(vector: Sequence[float] | None) -> str:
    """A vector's cell: numbers separated by spaces; empty for none."""
    return " ".join(map(repr, vector or ()))
