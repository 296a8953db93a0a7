"""A store of people and their employers, of which two are called Acme and one is hostile; one of
the people has gone from Acme to another."""

from __future__ import annotations

from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments

HOSTILE = "</bdi></td><script>alert(1)</script>"


def _stated(
    id: str, name: str, register: str = "", seen: str = "", source: str | None = None, **more: str
) -> Fragment:
    """A fragment; two of one register are different entities."""
    own = {"name": name} | ({"register": register} if register else {}) | more
    metadata = {"seen": seen} if seen else None
    return Fragment(
        id, {key: (value,) for key, value in own.items()}, source=source, metadata=metadata
    )


_FRAGMENTS = [
    _stated("acme 1", "Acme", "north"),
    _stated("acme 2", "Acme", "south"),
    _stated("acme 3", "Acme", "north"),
    _stated("hydro 1", "Norsk Hydro"),
    _stated("hydro 2", HOSTILE),
    _stated("ada", "Ada Berg", employer="Acme", knows="Bo Dahl"),
    _stated("bo", "Bo Dahl", employer="NORSK HYDRO"),
    _stated("cy", "Cy Eide", employer=HOSTILE),
    _stated("eli 1", "Eli Foss", seen="2001", employer="Acme"),
    _stated("eli 2", "Eli Foss", seen="2004-03", employer="Acme"),
    _stated("eli 3", "Eli Foss", seen="2010-05", employer="Norsk Hydro"),
    _stated("eli 4", "Eli Foss", seen="2012", employer="Norsk Hydro"),
    _stated("flo 1", "Flo Gran", source="crm", town="Oslo"),
    _stated("flo 2", "Flo Gran", source="crm", town="OSLO"),
    _stated("flo 3", "Flo Gran", source=HOSTILE, town="Bergen"),
    _stated("flo 4", "Flo Gran", source="till", town="Oslo"),
    *(_stated(f"p{k}", f"Person Number{k}", employer="Norsk Hydro") for k in range(30)),
]


def make_linked(path: Path) -> Path:
    """Make the store."""
    options = RunOptions(
        likelihood="names", alpha=1.0, refers="employer,knows", link="register", time="seen"
    )
    add_fragments(str(path), _FRAGMENTS, options)
    return path
