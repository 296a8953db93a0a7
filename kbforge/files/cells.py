"""CSV cells that no spreadsheet evaluates as formulas."""

from __future__ import annotations

import re

_FORMULA = re.compile(r"\s*[=+\-@\t\r＝＋－＠]")  # full-width ones too
_NUMBER = re.compile(r"[+-]?\d+([.,]\d+)*(e[+-]?\d+)?", re.IGNORECASE | re.ASCII)
# a space behind the country code: no spreadsheet can read "+49 174" as arithmetic, but "+49-174"
_PHONE = re.compile(r"\+\d{1,4}(?:[ \xa0](?:\(\d{1,5}\)[ \xa0]?)?\d+)+(?:[-/.]\d+)*", re.ASCII)


def safe(cell: str) -> str:
    """A cell that no spreadsheet evaluates: formulas get an apostrophe."""
    if not _FORMULA.match(cell) or _NUMBER.fullmatch(cell) or _PHONE.fullmatch(cell):
        return cell
    return f"'{cell}"
