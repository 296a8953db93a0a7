from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import ClassVar

from kbforge.contracts import Entity
from kbforge.testing import ExporterContract


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
    options: ClassVar = {"values": "all", "guard_formulas": False}
    streaming = False

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        return [(row["entity_id"], self._values(list(row.items())[5:])) for row in rows(target)]

    def _values(self, cells: list[tuple[str, str]]) -> set[str]:
        of_attributes = (cell for attribute, cell in cells if attribute != "vector")
        split = (re.findall(r"(?:\\.|[^|])+", cell, re.DOTALL) for cell in of_attributes)
        return {re.sub(r"\\(.)", r"\1", part) for parts in split for part in parts}


class TestMembers(ExporterContract):
    name = "members"
    options: ClassVar = {"guard_formulas": False}

    def holds(self, entity: Entity) -> set[str]:
        return set(entity.fragments)

    def parse(self, target: Path) -> list[tuple[str, set[str]]]:
        found: dict[str, set[str]] = {}
        for row in rows(target):
            found.setdefault(row["entity_id"], set()).add(row["fragment"])
        return list(found.items())
