"""vCards (RFC 6350, and its predecessor 3.0) as fragments: one contact, one fragment."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath

from kbforge.contracts import Fragment, OnBad, Source
from kbforge.errors import BadRecord, quoted
from kbforge.files.io import called, read_lines

_ATTRIBUTES = {
    "FN": "name",
    "NICKNAME": "name",
    "EMAIL": "email",
    "TEL": "phone",
    "ORG": "organisation",
    "TITLE": "title",
    "BDAY": "born",
    "URL": "web",
    "NOTE": "note",
}
_ESCAPE = re.compile(r"\\(.)")


class VCardSource(Source):
    """Address books. Contacts become fragments with the attributes name, email, phone, ...

    Args:
        label: a property that names the gold entity, such as X-PERSON.

    """

    def __init__(self, label: str | None = None) -> None:
        self._label = label.upper() if label else None

    def read(self, inputs: Sequence[str], on_bad: OnBad) -> Iterator[Fragment]:
        """Yield one fragment a contact; a bad contact costs only itself."""
        for path in inputs:
            for number, card in enumerate(_cards(path, on_bad), 1):
                try:
                    yield self._fragment(card, f"{PurePath(path).stem}-{number}")
                except BadRecord as error:
                    on_bad(error, b"\n".join(card.lines))

    def _fragment(self, card: _Card, minted_id: str) -> Fragment:
        if not card.ended:
            raise BadRecord(card.where, "END:VCARD", "the next contact or the end of the file")
        record: dict[str, object] = {"id": minted_id, "source": card.where.rpartition(":")[0]}
        properties: dict[str, list[str]] = {}
        for name, value in _properties(card):
            if name == "UID":
                record["id"] = value
            elif name == self._label:
                record["label"] = value
            elif name in _ATTRIBUTES:
                values = properties.setdefault(_ATTRIBUTES[name], [])
                if value not in values:
                    values.append(value)
        return Fragment.from_json(record | {"properties": properties}, card.where)


@dataclass
class _Card:
    """The lines of one contact, unfolded, and where it begins."""

    where: str
    lines: list[bytes] = field(default_factory=list)
    ended: bool = False


def _cards(path: str, on_bad: OnBad) -> Iterator[_Card]:
    card: _Card | None = None
    for number, line in read_lines(path, on_bad):
        where = f"{called(path)}:{number}"
        keyword = line.strip().upper()
        if keyword == b"BEGIN:VCARD":
            if card is not None:
                yield card
            card = _Card(where)
        elif card is None:
            on_bad(BadRecord(where, "BEGIN:VCARD", f'"{quoted(str(line, "latin-1"), 40)}"'), line)
        elif keyword == b"END:VCARD":
            card.ended = True
            yield card
            card = None
        elif line[:1] in (b" ", b"\t") and card.lines:
            card.lines[-1] += line[1:]
        else:
            card.lines.append(line)
    if card is not None:
        yield card


def _properties(card: _Card) -> Iterator[tuple[str, str]]:
    for line in card.lines:
        try:
            text = line.decode()
        except UnicodeDecodeError:
            got = f'"{quoted(str(line, "latin-1"), 40)}"'
            raise BadRecord(card.where, "UTF-8", got) from None
        key, colon, value = text.partition(":")
        if not colon:
            raise BadRecord(card.where, "NAME:value on every line", f'"{quoted(text, 40)}"')
        name = key.partition(";")[0].rpartition(".")[2].upper()
        value = _ESCAPE.sub(lambda m: "\n" if m[1] in "nN" else m[1], value).strip()
        if value:
            yield name, value
