"""Entities as a spreadsheet of two sheets.

| sheet | a row is |
|---|---|
| entities | an entity, with the columns of `wide` |
| fragments | a fragment: its id, its entity's id and name, its source and its row there |

Confidences and counts are numbers; everything else is text, so that 00123 stays what it is. A text
that begins with = + - or @ is stored as a text that stays one when it is edited: nothing in the
file is a formula. Characters that XML does not hold are written as Excel writes them (`_x000B_`).
Same view, same bytes: the file has no time in it.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import tempfile
import zipfile
from collections.abc import Iterator
from datetime import datetime
from typing import Any, ClassVar

from kbforge.contracts import Entity, Exporter, View
from kbforge.errors import KBForgeError, quoted
from kbforge.files.io import open_output, require_openpyxl
from kbforge_plugins.exporters.tables import ENTITY_COLUMNS, CellJoiner, WideRows, safe

OF_FRAGMENT = ("fragment", "entity_id", "entity_name", "source", "row")
_MOST_ROWS = 1_048_576
_MOST_CHARACTERS = 32_767
"""Of a cell, in UTF-16 units. Excel refuses a file with more of either."""
_NUMBERS = range(ENTITY_COLUMNS.index("confidence"), len(ENTITY_COLUMNS))
_BEGINNING = datetime(2000, 1, 1)
_ESCAPED = re.compile("_(?=x[0-9A-Fa-f]{4}_)|[\x01-\x08\x0b-\x1f\ufffe\uffff]")
_MODIFIED = re.compile(rb"(<dcterms:modified[^>]*>)[^<]*")


class XlsxExporter(Exporter):
    """A spreadsheet: one row an entity, and a second sheet with the fragments."""

    endings: ClassVar = (".xlsx",)

    def __init__(self, separator: str = "|") -> None:
        """Set the options.

        Args:
            separator: one character between several values; within a value a backslash escapes it,
                and the backslash.

        Raises:
            UsageError: a separator that is not one character, or that is the backslash.
            KBForgeError: openpyxl is not installed.

        """
        require_openpyxl()
        self._rows = WideRows(CellJoiner(separator, "xlsx"), str)

    def export(self, view: View, target: str) -> None:
        """Write the two sheets.

        Raises:
            KBForgeError: more rows, columns or characters than a spreadsheet holds.

        """
        from openpyxl import Workbook
        from openpyxl.writer.excel import ExcelWriter

        with (
            open_output(target) as out,
            tempfile.TemporaryFile() as waiting,
            tempfile.TemporaryFile() as whole,
        ):
            book = Workbook(write_only=True)
            book.properties.created = _BEGINNING
            entities, fragments = (_Sheet(book, name) for name in ("entities", "fragments"))
            with contextlib.closing(entities), contextlib.closing(fragments):
                fragments.append(OF_FRAGMENT)
                for row in self._rows.of(_with_fragments(view, fragments), waiting):
                    entities.append(_numbered(row) if entities.rows else row)
                with _Archive(whole, "w", zipfile.ZIP_DEFLATED) as archive:
                    ExcelWriter(book, archive).save()
            whole.seek(0)
            shutil.copyfileobj(whole, out)


def _with_fragments(view: View, sheet: _Sheet) -> Iterator[Entity]:
    """The entities, whose fragments go to their sheet on the way."""
    for entity in view.entities():
        for fragment in view.fragments(entity):
            sheet.append((fragment.id, entity.id, entity.name, fragment.source, fragment.row))
        yield entity


def _numbered(row: list[str]) -> list[object]:
    """A row whose numbers are numbers; an empty cell is none."""
    return [
        (None if not cell else float(cell) if "." in cell or "e" in cell else int(cell))
        if place in _NUMBERS
        else cell or None
        for place, cell in enumerate(row)
    ]


class _Sheet:
    """A sheet that is written row by row."""

    def __init__(self, book: Any, name: str) -> None:
        self._sheet, self._name, self.rows = book.create_sheet(name), name, 0

    def append(self, row: Any) -> None:
        """Write the next row.

        Raises:
            KBForgeError: the sheet is full, or a cell too long.

        """
        if self.rows == _MOST_ROWS:
            raise KBForgeError(
                f"a spreadsheet has at most {_MOST_ROWS:,} rows, and the sheet {self._name} needs "
                "more; kbforge export -o FILE.csv has no such limit"
            )
        self._sheet.append([self._text(c) if isinstance(c, str) else c for c in row])
        self.rows += 1

    def close(self) -> None:
        """Leave no file behind, whether it was saved or something failed."""
        if not self._sheet.closed:
            self._sheet.close()
            self._sheet._writer.cleanup()

    def _text(self, text: str) -> Any:
        from openpyxl.cell import WriteOnlyCell

        written = _ESCAPED.sub(_escape, text.replace("\0", "\ufffd"))
        if len(written) * 2 > _MOST_CHARACTERS and (
            len(written.encode("utf-16-le")) > 2 * _MOST_CHARACTERS
        ):
            raise KBForgeError(
                f"a cell of a spreadsheet has at most {_MOST_CHARACTERS:,} characters, and row "
                f"{self.rows + 1:,} of the sheet {self._name} needs more for "
                f"{quoted(text, 40)}; kbforge export --format wide -o FILE.csv has no such limit"
            )
        cell = WriteOnlyCell(self._sheet, written)
        cell.data_type = "s"  # whatever it looks like: a formula, or an error such as #N/A
        if safe(text) != text:
            cell.quotePrefix = True
        return cell


def _escape(found: re.Match[str]) -> str:
    return f"_x{ord(found[0]):04X}_"


class _Archive(zipfile.ZipFile):
    """A zip file without times."""

    def writestr(self, zinfo_or_arcname: Any, data: Any, *args: Any, **named: Any) -> None:
        content = data.encode() if isinstance(data, str) else data
        if zinfo_or_arcname == "docProps/core.xml":
            content = _MODIFIED.sub(rb"\g<1>2000-01-01T00:00:00Z", content)
        with self.open(self._entry(zinfo_or_arcname), "w") as entry:
            entry.write(content)

    def write(self, filename: Any, arcname: Any = None, *args: Any, **named: Any) -> None:
        with (
            open(filename, "rb") as file,
            self.open(self._entry(arcname), "w", force_zip64=True) as entry,
        ):
            shutil.copyfileobj(file, entry, 1 << 20)

    @staticmethod
    def _entry(name: str) -> zipfile.ZipInfo:
        info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
        info.compress_type = zipfile.ZIP_DEFLATED
        return info
