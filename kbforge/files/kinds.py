"""Recognizes a file by its first bytes, for messages about a wrong file.

A reader that cannot read a file calls `what_is`, and adds the answer to its error: "a store
(kbforge show kb.sqlite reads it)". Reading is bounded, and no large module is imported.
"""

from __future__ import annotations

import re
import tomllib
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import orjson

from kbforge.errors import KBForgeError, quoted
from kbforge.files.io import open_input

_HEAD = 1 << 16  # bytes that are looked at
_SQLITE = b"SQLite format 3\0"
_APPLICATION = slice(68, 72)  # where SQLite keeps whose file it is
_STORE = b"KBFG"
_MOST_PARTS = 32
_LONG_KEY = re.compile(rb"(?<![\w\"'.-])(?:[\w\"'-]+[ \t]*\.[ \t]*){%d}" % _MOST_PARTS)
_DELIMITERS = (b",", b"\t", b";", b"|")
_MAGIC = {
    b"PAR1": "parquet",
    b"PK\x03\x04": "zip",
    b"\xfd7zXZ\0": "xz",
    b"%PDF": "pdf",
    b"\x89PNG": "picture",
    b"\xff\xd8\xff": "picture",
    b"GIF8": "picture",
    b"\xd0\xcf\x11\xe0": "xls",
}


class FileKind(NamedTuple):
    """A kind of file: its name, and the command that reads it, with `{path}` for the file."""

    name: str
    use: str = ""

    def said(self, path: str) -> str:
        """The kind and its command, for an error's `got`."""
        return f"{self.name} ({self.command(path)})" if self.use else self.name

    def command(self, path: str) -> str:
        """The command that reads such a file, in words; "" if there is none."""
        shown = quoted("FILE" if path == "-" else path, 200)
        stem = quoted(Path(path).name.partition(".")[0].strip("-") or "fragments", 100)
        return self.use.format(path=shown, stem=stem)


_MANY = ("{stem}.fragments", "them")


def _loaded(name: str, words: str, stem: str = "{stem}", it: str = "it") -> FileKind:
    """A kind of file that a source reads."""
    return FileKind(name, f"kbforge load {words} -o {stem}.jsonl turns {it} into fragments")


KINDS: Mapping[str, FileKind] = {
    "store": FileKind("a store", "kbforge show {path} reads it"),
    "sqlite": FileKind("an SQLite database that is not a store"),
    "entities": FileKind("a knowledge base", "kbforge show {path} reads it"),
    "fragments": FileKind("fragments", "kbforge cluster {path} -o kb.jsonl makes a knowledge base"),
    "answers": FileKind(
        "answers about pairs", "kbforge cluster FRAGMENTS --answers {path} reads them"
    ),
    "quarantine": FileKind("records that kbforge load set aside"),
    "changes": FileKind("changes, as kbforge changes writes"),
    "table": _loaded("a table", "csv {path}"),
    "parquet": _loaded("a Parquet table", "parquet {path}"),
    "spreadsheet": _loaded("a spreadsheet", "xlsx {path}"),
    "calibration": FileKind(
        "a calibration file", "kbforge cluster FRAGMENTS --set calibration={path} reads it"
    ),
    "confidence": FileKind(
        "a confidence map", "kbforge cluster FRAGMENTS --set confidence-map={path} reads it"
    ),
    "pipeline": FileKind("a pipeline", "kbforge run {path} runs it"),
    "policy": FileKind("a policy of golden records", "kbforge export KB --policy {path} reads it"),
    "model": FileKind("a model", "kbforge cluster FRAGMENTS --likelihood {path} reads it"),
    "folder": FileKind("a folder"),
    "array": _loaded("one JSON array", "jsonl {path} --id KEY", "{stem}.fragments"),
    "object": FileKind(
        "one JSON object over several lines", "jq -c . {path} writes it on one line"
    ),
    "objects": _loaded("JSON objects that are not fragments", "jsonl {path} --id KEY", *_MANY),
    "spacy": _loaded("documents of spaCy", "spacy {path}", *_MANY),
    "triples": _loaded("triples", "triples {path}", *_MANY),
    "wikidata": _loaded("entities of Wikidata", "wikidata {path}", *_MANY),
    "toml": FileKind("another TOML file"),
    "empty": FileKind("an empty file"),
    "utf-16": FileKind("UTF-16 text", "iconv -f UTF-16 -t UTF-8 {path} writes UTF-8"),
    "utf-16-le": FileKind("UTF-16 text", "iconv -f UTF-16LE -t UTF-8 {path} writes UTF-8"),
    "utf-16-be": FileKind("UTF-16 text", "iconv -f UTF-16BE -t UTF-8 {path} writes UTF-8"),
    "zip": FileKind("a zip file"),
    "xz": FileKind("an xz file", "xz -dk {path} unpacks it"),
    "pdf": FileKind("a PDF"),
    "picture": FileKind("a picture"),
    "text": FileKind("plain text"),
    "binary": FileKind("a binary file"),
}


def what_is(path: str) -> str:
    """The kind of a file, in words for an error."""
    return KINDS[kind_of(path)].said(path)


def require_readable_as(path: str, expected: str, *kinds: str) -> None:
    """Refuse a file that is certainly of another kind.

    Standard input (which can be read only once), plain text and unrecognised content pass.
    """
    if path == "-" or not Path(path).is_file():
        return
    kind = kind_of(path)
    if kind not in (*kinds, "text", "binary", "empty", "toml", "policy"):
        where = quoted(path, 400)
        raise KBForgeError(f"{where}: expected {expected}, got {KINDS[kind].said(path)}")


def kind_of(path: str, head: bytes = b"") -> str:
    """The key in `KINDS` of a file's kind; for standard input only `head` is examined."""
    there = Path(path)
    if path != "-" and there.is_dir():
        return "model" if (there / "manifest.json").is_file() else "folder"
    if path != "-" and there.is_file():
        try:
            with open_input(path) as stream:
                head = stream.read(_HEAD)
        except (KBForgeError, OSError, EOFError, zlib.error):
            return "binary"
    return kind_of_bytes(head)


def kind_of_bytes(head: bytes) -> str:
    """The key in `KINDS` of content with these first bytes."""
    if not head:
        return "empty"
    if head.startswith(_SQLITE):
        return "store" if head[_APPLICATION] == _STORE else "sqlite"
    for magic, kind in _MAGIC.items():
        if head.startswith(magic):
            office = kind == "xls" or (kind == "zip" and b"[Content_Types].xml" in head)
            return "spreadsheet" if office else kind
    if b"\0" in head:
        marked = head.startswith((b"\xff\xfe", b"\xfe\xff"))
        return "utf-16" if marked else utf_16_without_mark(head) or "binary"
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    return _kind_of_text(text, len(head) >= _HEAD) if text else "empty"


def utf_16_without_mark(head: bytes) -> str:
    """`utf-16-le` or `utf-16-be` if the bytes are text in that encoding without its mark, else
    ""."""
    some = head[:400]
    odd, even = some[1::2], some[::2]
    for zeros, others, name in ((odd, even, "utf-16-le"), (even, odd, "utf-16-be")):
        if len(zeros) > 1 and 2 * zeros.count(0) > len(zeros) and not others.count(0):
            return name
    return ""


def _kind_of_text(text: bytes, is_cut: bool) -> str:
    first, newline, _ = text.partition(b"\n")
    if text.startswith((b"[{", b"[\n", b"[ ", b"[\r", b"[]")) and not _toml(text, is_cut):
        return "array"
    if text.startswith(b"{"):
        try:
            return _kind_of_record(orjson.loads(first))
        except orjson.JSONDecodeError:
            if is_cut and not newline:  # the first line goes on
                return "entities" if b'"subproblem"' in first else "text"
            return "object" if first.strip() == b"{" else "text"
    table = _toml(text, is_cut)
    if table:
        return kind_of_toml(table)
    if any(first.count(mark) for mark in _DELIMITERS):
        return "table"
    return "text"


def _kind_of_record(value: object) -> str:
    if not isinstance(value, dict):
        return "text"
    keys = value.keys()
    if {"properties", "fragments", "confidence"} <= keys:
        return "entities"
    if {"a", "b", "same"} <= keys:
        return "answers"
    if keys == {"where", "reason", "raw"}:
        return "quarantine"
    if {"kind", "before", "after"} <= keys:
        return "changes"
    if {"text", "ents"} <= keys:
        return "spacy"
    if {"head", "tail"} <= keys:
        return "triples"
    if {"type", "id", "labels"} <= keys:
        return "wikidata"
    if isinstance(value.get("properties"), dict) or "vector" in keys:
        return "fragments"
    return "objects"


def _toml(text: bytes, is_cut: bool) -> dict[str, Any] | None:
    """The tables, if it is TOML; a long file is not examined."""
    if is_cut:
        return None
    try:
        return toml_tables(text)
    except (ValueError, RecursionError):
        return None


def toml_tables(content: bytes) -> dict[str, Any]:
    """The tables of a TOML document.

    ValueError or RecursionError: it is not TOML, or a key has so many parts that Python's parser,
    which takes quadratic time, would need minutes.
    """
    if _LONG_KEY.search(content):
        raise ValueError(f"a key of more than {_MOST_PARTS} parts")
    return tomllib.loads(content.decode())


def kind_of_toml(table: Mapping[str, Any]) -> str:
    """The key in `KINDS` of a TOML file with these tables."""
    if "step" in table:
        return "pipeline"
    if "alpha" in table and "objective" in table:
        return "calibration"
    if "clustering" in table and ("pairs" in table or "entities" in table):
        return "confidence"
    if table and table.keys() <= {"default", "attributes", "sources", "date"}:
        return "policy"
    return "toml"
