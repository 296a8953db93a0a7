"""Entities as a folder of CSV files for `neo4j-admin database import`.

| file | header |
|---|---|
| entities.csv | entityId:ID(Entity), the name and numbers of the entity, its attributes, :LABEL |
| fragments.csv | fragmentId:ID(Fragment), source, metadata as JSON, its attributes, :LABEL |
| members.csv | :START_ID(Fragment), :END_ID(Entity), :TYPE |

Every attribute of any entity or fragment is a column, an array of strings.
Values of an array are separated by U+001F, for the import knows no escape within an array:

    neo4j-admin database import full --array-delimiter=U+001F --multiline-fields=true \\
        --nodes=kb/entities.csv --nodes=kb/fragments.csv --relationships=kb/members.csv

That character and NUL become U+FFFD within a value. An attribute's name keeps letters, digits and
underscores; the rest becomes an underscore, since a header gives colons and brackets a meaning.
What a node does not have is an empty field without quotes, which is no property.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO

import orjson

from kbforge.contracts import Entity, Exporter, Fragment, View
from kbforge.files.io import open_folder

ENTITIES, FRAGMENTS, MEMBERS = "entities.csv", "fragments.csv", "members.csv"
BETWEEN = "\x1f"
_FORBIDDEN = str.maketrans({"\0": "\ufffd", BETWEEN: "\ufffd"})
_OF_ENTITY = (
    *("entityId:ID(Entity)", "entityName:string", "confidence:double"),
    *("reported:double", "subproblem:long"),
)
_OF_FRAGMENT = ("fragmentId:ID(Fragment)", "source:string", "metadata:string")
_OF_MEMBER = (":START_ID(Fragment)", ":END_ID(Entity)", ":TYPE")


class Neo4jExporter(Exporter):
    """A folder of nodes and relationships for neo4j-admin database import."""

    def export(self, view: View, target: str) -> None:
        """Write the three files of the folder."""
        names = (ENTITIES, FRAGMENTS, MEMBERS)
        with (
            open_folder(target, names, "exporter neo4j") as folder,
            tempfile.TemporaryFile() as entities,
            tempfile.TemporaryFile() as fragments,
            open(folder / MEMBERS, "wb") as members,
        ):
            nodes = _Nodes(_OF_ENTITY, "Entity", entities)
            pieces = _Nodes(_OF_FRAGMENT, "Fragment", fragments)
            members.write(_row(_OF_MEMBER))
            for entity in view.entities():
                of_it = {k: [v.value for v in vs] for k, vs in entity.properties.items()}
                nodes.add(_entity(entity), of_it)
                for fragment in view.fragments(entity):
                    pieces.add(_fragment(fragment), fragment.properties)
                    members.write(_row([fragment.id, entity.id, "BELONGS_TO"]))
            nodes.write(folder / ENTITIES)
            pieces.write(folder / FRAGMENTS)


class _Nodes:
    """Nodes of a kind, which wait for the attributes of the last one."""

    def __init__(self, first: Sequence[str], label: str, waiting: IO[bytes]) -> None:
        self._first, self._label, self._waiting = first, label, waiting
        self._places: dict[str, int] = {}

    def add(self, cells: Sequence[str | None], properties: Mapping[str, Sequence[str]]) -> None:
        held = [
            (self._places.setdefault(attribute, len(self._places)), [_clean(v) for v in values])
            for attribute, values in properties.items()
        ]
        self._waiting.write(orjson.dumps([cells, held], option=orjson.OPT_APPEND_NEWLINE))

    def write(self, path: Path) -> None:
        attributes = sorted(self._places)
        order = [self._places[attribute] for attribute in attributes]
        self._waiting.seek(0)
        with open(path, "wb") as out:
            columns = _columns(attributes, self._first)
            out.write(_row([*self._first, *columns, ":LABEL"]))
            for line in self._waiting:
                cells, held = orjson.loads(line)
                found = {place: BETWEEN.join(values) for place, values in held}
                properties = (found.get(place) for place in order)
                out.write(_row([*cells, *properties, self._label], clean=False))


def _entity(entity: Entity) -> list[str | None]:
    reported = None if entity.reported is None else repr(entity.reported)
    numbers = (repr(entity.confidence), reported)
    return [_clean(entity.id), _clean(entity.name), *numbers, str(entity.subproblem)]


def _fragment(fragment: Fragment) -> list[str | None]:
    source = None if fragment.source is None else _clean(fragment.source)
    metadata = None if fragment.metadata is None else orjson.dumps(dict(fragment.metadata)).decode()
    return [_clean(fragment.id), source, metadata]


def _columns(attributes: Iterable[str], taken: Sequence[str]) -> list[str]:
    """A header field an attribute, each with a name of its own."""
    names = {column.partition(":")[0]: None for column in taken}
    for attribute in attributes:
        plain = re.sub(r"\W", "_", attribute) or "_"
        name, number_of = plain, 1
        while name in names:
            number_of += 1
            name = f"{plain}_{number_of}"
        names[name] = None
    return [f"{name}:string[]" for name in list(names)[len(taken) :]]


def _clean(text: str) -> str:
    return text.translate(_FORBIDDEN)


def _row(cells: Iterable[str | None], clean: bool = True) -> bytes:
    """A line of CSV: every cell in quotes, and nothing for none."""
    texts = ("" if cell is None else f'"{_quoted(cell, clean)}"' for cell in cells)
    return f"{','.join(texts)}\n".encode()


def _quoted(cell: str, clean: bool) -> str:
    return (_clean(cell) if clean else cell).replace('"', '""')
