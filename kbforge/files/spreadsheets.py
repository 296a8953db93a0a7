"""The library for spreadsheets, which an extra of the distribution installs."""

from __future__ import annotations

from kbforge.errors import KBForgeError


def require_openpyxl() -> None:
    """Refuse to go on without openpyxl, or without the parser that makes it safe.

    Raises:
        KBForgeError: one of them is missing, or switched off.

    """
    try:
        from openpyxl import DEFUSEDXML
    except ImportError:
        DEFUSEDXML = False
    if not DEFUSEDXML:
        raise KBForgeError(
            "xlsx needs openpyxl and defusedxml; pip install 'kbforge[excel]' installs both"
        )
