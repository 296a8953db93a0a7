from __future__ import annotations

import csv
import io
import json
from typing import ClassVar

from kbforge.testing import ExporterContract


class TestJsonl(ExporterContract):
    name = "jsonl"

    def parse(self, data: bytes) -> list[tuple[str, set[str]]]:
        records = [json.loads(line) for line in data.decode().split("\n")[:-1]]
        return [
            (r["id"], {v["value"] for vs in r["properties"].values() for v in vs}) for r in records
        ]


class TestCsv(ExporterContract):
    name = "csv"
    options: ClassVar = {"guard_formulas": False}

    def parse(self, data: bytes) -> list[tuple[str, set[str]]]:
        rows = list(csv.DictReader(io.StringIO(data.decode(), newline="")))
        found: list[tuple[str, set[str]]] = []
        for row in rows:
            if not found or found[-1][0] != row["entity_id"]:
                found.append((row["entity_id"], set()))
            if row["attribute"]:
                found[-1][1].add(row["value"])
        return found
