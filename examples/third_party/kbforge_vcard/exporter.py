"""Entities as vCards: one contact an entity, its attributes as properties."""

from __future__ import annotations

import re

from kbforge.contracts import Exporter, View
from kbforge.files.io import open_output

_PROPERTIES = {"name": "FN", "email": "EMAIL", "phone": "TEL", "web": "URL", "note": "NOTE"}
# what https://www.rfc-editor.org/rfc/rfc6350 does not let stand in a text as it is
_ESCAPES = str.maketrans({"\\": "\\\\", "\n": "\\n", ",": "\\,", ";": "\\;"})
_LINE_END = re.compile(r"\r\n?|\n")


class VCardExporter(Exporter):
    """Address books.

    Args:
        others: how the properties begin that attributes without one of their own become.

    """

    def __init__(self, others: str = "X-") -> None:
        self._others = others

    def export(self, view: View, target: str) -> None:
        """Write one contact for each entity, with the sources of its fragments where known."""
        with open_output(target) as out:
            for entity in view.entities():
                lines = ["BEGIN:VCARD", "VERSION:4.0", f"UID:{_text(entity.id)}"]
                for attribute, values in entity.properties.items():
                    key = _PROPERTIES.get(attribute) or self._others + _key(attribute)
                    lines += [f"{key}:{_text(value.value)}" for value in values]
                sources = [fragment.source for fragment in view.fragments(entity)]
                lines += [f"SOURCE:{_text(source)}" for source in dict.fromkeys(sources) if source]
                if "name" not in entity.properties:
                    lines.append(f"FN:{_text(entity.name)}")
                out.write("\r\n".join([*lines, "END:VCARD", ""]).encode())


def _text(value: str) -> str:
    return _LINE_END.sub("\n", value).translate(_ESCAPES)


def _key(attribute: str) -> str:
    return re.sub("[^A-Za-z0-9]+", "-", attribute).strip("-").upper() or "VALUE"
