"""Reads an authority: a file of fragments, a knowledge base, or a table."""

from __future__ import annotations

from dataclasses import replace

from kbforge.files.fragments import held, read_fragments
from kbforge.files.kinds import kind_of
from kbforge.fit.authority import Authority
from kbforge.jobs.views import entities_of
from kbforge.store.database import is_store


def read_authority(path: str) -> Authority:
    """The known entities in a file.

    These are the entities of a knowledge base (a file or a store), or else the fragments of each
    label, as `read_fragments` reads them.

    Raises:
        KBForgeError: it cannot be read, or has no entities.
        BadRecord: the first bad record.

    """
    if is_store(path) or (path != "-" and kind_of(path) == "entities"):
        found = Authority.of_entities(entities_of(path))
    else:
        found = Authority.of_fragments(held(read_fragments(path)))
    return replace(found, name="standard input" if path == "-" else path)
