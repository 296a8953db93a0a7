"""The plugin's own tests: KBForge's contracts, then what is special to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote

from kbforge_vcard.source import VCardSource

from kbforge.testing import ExporterContract, SourceContract

CONTACTS = Path(__file__).parent.parent / "contacts.vcf"


def card(name: str, note: str = "a note " * 30) -> bytes:
    return f"BEGIN:VCARD\r\nVERSION:4.0\r\nFN:{name}\r\nNOTE:{note}\r\nEND:VCARD\r\n".encode()


class TestVCardSource(SourceContract):
    name = "vcard"
    filename = "contacts.vcf"

    def document(self, n: int) -> bytes:
        return b"".join(card(f"Contact {i}") for i in range(n))

    def bad_documents(self) -> Mapping[str, bytes]:
        bad = {
            "no end": b"BEGIN:VCARD\nFN:x\n",
            "nothing known": b"BEGIN:VCARD\nVERSION:4.0\nEND:VCARD\n",
            "not UTF-8": b"BEGIN:VCARD\nFN:\xff\nEND:VCARD\n",
            "no colon": b"BEGIN:VCARD\nFN x\nEND:VCARD\n",
            "a stray line": b"FN:x\n",
            "NUL": b"BEGIN:VCARD\nFN:a\0b\nEND:VCARD\n",
        }
        return {what: card("A") + record + card("B") for what, record in bad.items()}


_QUAD = re.compile(r'<urn:x:entity:([^>]*)> <([^>]*)> (?:"((?:[^"\\]|\\.)*)"|<[^>]*>) <[^>]*> \.')
_ESCAPE = re.compile(r"\\(.)")


class TestNQuadsExporter(ExporterContract):
    name = "nquads"
    options = {"base": "urn:x:"}  # noqa: RUF012

    def parse(self, data: bytes) -> list[tuple[str, set[str]]]:
        found: dict[str, set[str]] = {}
        for line in data.decode().split("\n")[:-1]:
            quad = _QUAD.fullmatch(line)
            assert quad, line
            values = found.setdefault(unquote(quad[1]), set())
            if quad[3] is not None:
                values.add(_ESCAPE.sub(lambda m: {"n": "\n", "r": "\r"}.get(m[1], m[1]), quad[3]))
        return list(found.items())


def test_lines_are_unfolded_and_unescaped() -> None:
    def fail(error: Exception, raw: bytes) -> None:
        raise error

    second = list(VCardSource(label="x-person").read([str(CONTACTS)], fail))[1]
    assert second.id == "mail-1"
    assert second.label == "ohlsson"
    assert second.properties == {
        "name": ("Ohlsson, Margarethe", "M. Ohlsson"),
        "email": ("m.ohlsson@example.org",),
        "note": ("Met at the harbour\nprefers letters",),
    }
