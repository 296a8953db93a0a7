"""The plugin's own tests: KBForge's contracts, then what is special to it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from kbforge_vcard.exporter import VCardExporter
from kbforge_vcard.source import VCardSource

from kbforge.contracts import Entity, Fragment, Value
from kbforge.kb.view import EntitiesView
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


_ESCAPE = re.compile(r"\\(.)")


def plain(text: str) -> str:
    """A vCard has one kind of line end within a text."""
    return text.replace("\r\n", "\n")


class TestVCardExporter(ExporterContract):
    name = "vcard"

    def holds(self, entity: Entity) -> set[str]:
        # a contact has a name in any case
        named = {"name"} & entity.properties.keys()
        return {plain(value) for value in super().holds(entity)} | (
            set() if named else {entity.name}
        )

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: list[tuple[str, set[str]]] = []
        for line in target.read_bytes().decode().split("\r\n")[:-1]:
            key, _, text = line.partition(":")
            text = _ESCAPE.sub(lambda m: {"n": "\n"}.get(m[1], m[1]), text)
            if key == "UID":
                found.append((text, set()))
            elif key not in ("BEGIN", "VERSION", "SOURCE", "END"):
                found[-1][1].add(text)
        return found


def test_sources_are_told(tmp_path: Path) -> None:
    entity = Entity("e", "Ada", {"name": (Value("Ada", ("a",)),)}, ("a",), 1.0, 0)
    view = EntitiesView(lambda: iter([entity]), [Fragment("a", {"name": ("Ada",)}, source="x;y")])
    VCardExporter().export(view, str(tmp_path / "kb.vcf"))
    assert b"\r\nSOURCE:x\\;y\r\n" in (tmp_path / "kb.vcf").read_bytes()


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
