"""CSV: its writer, and cells that no spreadsheet evaluates as formulas."""

from __future__ import annotations

import contextlib
import csv
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

_FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")  # full-width ones too
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# a space behind the country code: no spreadsheet can read "+49 174" as arithmetic, but "+49-174"
_PHONE = re.compile(r"\+\d{1,4}(?:[ \xa0](?:\(\d{1,5}\)[ \xa0]?)?\d+)+(?:[-/.]\d+)*", re.ASCII)


def safe(cell: str) -> str:
    """A cell that no spreadsheet evaluates: formulas get an apostrophe."""
    if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell) or _PHONE.fullmatch(cell):
        return cell
    return f"'{cell}"


@contextlib.contextmanager
def csv_writer(out: BinaryIO, dialect: str | type[csv.Dialect] = "excel") -> Iterator[Any]:
    """A `csv.writer` of quoted cells in UTF-8 to a stream, which stays open."""
    text = io.TextIOWrapper(out, encoding="utf-8", newline="", write_through=True)
    try:
        yield csv.writer(text, dialect, quoting=csv.QUOTE_ALL)
    finally:
        text.detach()
