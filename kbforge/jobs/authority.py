"""Reads an authority: a file of fragments, a knowledge base, or a table."""

from __future__ import annotations

from dataclasses import replace

from kbforge import registry
from kbforge.errors import quoted
from kbforge.files.fragments import held, read_fragments
from kbforge.files.kinds import kind_of
from kbforge.fit.authority import Authority
from kbforge.jobs.load import read
from kbforge.jobs.views import entities_of
from kbforge.registry import ending_of
from kbforge.store.database import is_store


def read_authority(path: str) -> Authority:
    """The known entities of a file.

    These are the entities of a knowledge base (a file or a store), or else the fragments of each
    label: of JSON lines ("-" is standard input), or of a table that a source reads.

    Raises:
        KBForgeError: it cannot be read, or has no entities.
        BadRecord: the first bad record.

    """
    if is_store(path) or (path != "-" and kind_of(path) == "entities"):
        found = Authority.of_entities(entities_of(path))
    elif path == "-" or ending_of(path) in ("", ".jsonl"):
        found = Authority.of_fragments(held(read_fragments(path)))
    else:
        how = f"kbforge load SOURCE {quoted(path, 400)} -o authority.jsonl reads it"
        source = registry.require_plugin_of("sources", path, how)
        found = Authority.of_fragments(held(read(registry.create("sources", source), [path])))
    return replace(found, name="standard input" if path == "-" else path)
