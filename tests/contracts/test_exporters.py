from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from openpyxl import load_workbook
from openpyxl.utils.escape import unescape

from kbforge.contracts import Entity, Meaning, Value
from kbforge.testing import ExporterContract
from tests.exporters import readers


def rows(target: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(target.read_bytes().decode(), newline="")))


class TestJsonl(ExporterContract):
    name = "jsonl"

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        records = [json.loads(line) for line in target.read_bytes().decode().split("\n")[:-1]]
        return [
            (r["id"], {v["value"] for vs in r["properties"].values() for v in vs}) for r in records
        ]


class TestCsv(ExporterContract):
    name = "csv"
    options: ClassVar = {"guard_formulas": False}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: list[tuple[str, set[str]]] = []
        for row in rows(target):
            if not found or found[-1][0] != row["entity_id"]:
                found.append((row["entity_id"], set()))
            if row["attribute"]:
                found[-1][1].add(row["value"])
        return found


class TestWide(ExporterContract):
    name = "wide"
    options: ClassVar = {"guard_formulas": False}
    streaming = False

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return [(row["entity_id"], self._values(list(row.items())[5:])) for row in rows(target)]

    def _values(self, cells: list[tuple[str, str]]) -> set[str]:
        of_attributes = (cell for attribute, cell in cells if attribute != "vector")
        split = (re.findall(r"(?:\\.|[^|])+", cell, re.DOTALL) for cell in of_attributes)
        return {re.sub(r"\\(.)", r"\1", part) for parts in split for part in parts}


class TestXlsx(TestWide):
    name = "xlsx"
    options: ClassVar = {}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        with target.open("rb") as file:
            header, *found = load_workbook(file)["entities"].iter_rows(values_only=True)
        names = [unescape(str(name)) for name in header]
        cells = [[unescape(str(cell or "")) for cell in row] for row in found]
        return [(row[0], self._values(list(zip(names, row, strict=True))[5:])) for row in cells]


class TestMembers(ExporterContract):
    name = "members"
    options: ClassVar = {"guard_formulas": False}

    def holds(self, entity: Entity) -> set[str]:
        return set(entity.fragments)

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: dict[str, set[str]] = {}
        for row in rows(target):
            found.setdefault(row["entity_id"], set()).add(row["id"])
        return list(found.items())


def in_a_ring(entities: list[Entity]) -> list[Entity]:
    """The entities, each of which names the next one by its last value, under the same text."""
    return [
        replace(
            one,
            properties={
                **one.properties,
                f"to {one.name}": (
                    Value(_last(one), one.fragments, meanings=(Meaning(other.id, 0.75),)),
                ),
            },
        )
        for one, other in zip(entities, entities[1:] + entities[:1], strict=True)
    ]


def _last(entity: Entity) -> str:
    values = [value.value for found in entity.properties.values() for value in found]
    return values[-1] if values else entity.id


class Linked(ExporterContract):
    """Memory does not grow with the relations either: many entities name the first."""

    def _many(self, n: int) -> Iterator[Entity]:
        for one in super()._many(n):
            (note,) = one.properties["note"]
            meant = replace(note, meanings=(Meaning("E0", 0.75),))
            yield replace(one, properties={"note": (meant,)})


class TestRelations(Linked):
    name = "relations"
    options: ClassVar = {"guard_formulas": False}
    streaming = False

    def entities(self) -> list[Entity]:
        return in_a_ring(super().entities())

    def holds(self, entity: Entity) -> set[str]:
        return {entity.name, f"to {entity.name}", *entity.fragments, _last(entity)}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        def parts(cell: str) -> set[str]:
            found = re.findall(r"(?:\\.|[^|])+", cell, re.DOTALL)
            return {re.sub(r"\\(.)", r"\1", part, flags=re.DOTALL) for part in found}

        return [
            (
                row["head_id"],
                {row["head"], row["relation"]} | parts(row["fragments"]) | parts(row["values"]),
            )
            for row in rows(target)
        ]

    def test_nul_survives_or_is_replaced(self, tmp_path: Path) -> None:
        """An entity that names no other is in no relation."""


def in_question(entity: Entity) -> Entity:
    """The entity, with a probability for each value, and one value more."""
    stated = {**entity.properties, "known as": (Value(entity.name, entity.fragments),)}
    return replace(
        entity,
        properties={
            attribute: tuple(replace(value, confidence=0.5) for value in values)
            for attribute, values in stated.items()
        },
    )


class TestContradictions(ExporterContract):
    name = "contradictions"
    options: ClassVar = {"guard_formulas": False}

    def entities(self) -> list[Entity]:
        return [*map(in_question, super().entities())]

    def exported(self, entities: list[Entity], folder: Path, known: bool = False) -> Path:
        return super().exported([*map(in_question, entities)], folder, known)

    def holds(self, entity: Entity) -> set[str]:
        return super().holds(entity) | {entity.name}

    def _many(self, n: int) -> Iterator[Entity]:
        return map(in_question, super()._many(n))

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: dict[str, set[str]] = {}
        for row in rows(target):
            found.setdefault(row["entity_id"], set()).add(row["value"])
        return list(found.items())


def texts(found: dict[str, dict[str, tuple[str | None, set[tuple[str, str]]]]]) -> list[Any]:
    """The values of each entity, of what is read fragment by fragment."""
    return [
        (entity, {value for _, said in held.values() for _, value in said})
        for entity, held in found.items()
    ]


class TestParquet(ExporterContract):
    name = "parquet"

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return texts(readers.parquet(target))


class TestFtm(ExporterContract):
    name = "ftm"

    def holds(self, entity: Entity) -> set[str]:
        return {
            value.value if attribute == "name" else f"{attribute}: {value.value}"
            for attribute, values in entity.properties.items()
            for value in values
        }

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return texts(readers.ftm(target))


class TestKBLaM(ExporterContract):
    name = "kblam"

    def test_memory_does_not_grow_with_the_relations(self, tmp_path: Path) -> None:
        class Many(Linked):
            name = "kblam"

        Many().test_memory_does_not_grow_with_the_entities(tmp_path)

    def entities(self) -> list[Entity]:
        """KBLaM knows entities by name, and those alone that have attributes."""
        return [replace(e, id=e.name) for e in super().entities() if e.properties]

    def holds(self, entity: Entity) -> set[str]:
        return {"; ".join(v.value for v in values) for values in entity.properties.values()}

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: dict[str, set[str]] = {}
        for row in readers.kblam(target):
            found.setdefault(row["name"], set()).add(row["description"])
        return [("E-nul" if name == "a" else name, held) for name, held in found.items()]


class TestPairs(ExporterContract):
    name = "pairs"
    options: ClassVar = {"guard_formulas": False}

    def entities(self) -> list[Entity]:
        """Each with two fragments or more, for one alone is in no pair."""
        return [
            replace(entity, fragments=(*entity.fragments, f"{entity.id} and | \"'\n=1"))
            for entity in super().entities()
        ]

    def holds(self, entity: Entity) -> set[str]:
        return set(entity.fragments) if len(entity.fragments) > 1 else set()

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: dict[str, set[str]] = {}
        for row in rows(target):
            found.setdefault(row["entity_id"], set()).update((row["left"], row["right"]))
        return list(found.items())
