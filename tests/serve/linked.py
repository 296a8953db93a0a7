"""A store of people and their employers, of which two are called Acme and one is hostile."""

from __future__ import annotations

from pathlib import Path

from kbforge.contracts import Fragment
from kbforge.fit.choices import RunOptions
from kbforge.jobs.update import add_fragments

HOSTILE = "</bdi></td><script>alert(1)</script>"


def _stated(id: str, name: str, register: str = "", **more: str) -> Fragment:
    """A fragment; two of one register are different entities."""
    own = {"name": (name,), "register": (register or id,)}
    return Fragment(id, own | {key: (value,) for key, value in more.items()})


_FRAGMENTS = [
    _stated("acme 1", "Acme", "north"),
    _stated("acme 2", "Acme", "south"),
    _stated("acme 3", "Acme", "north"),
    _stated("hydro 1", "Norsk Hydro"),
    _stated("hydro 2", HOSTILE),
    _stated("ada", "Ada Berg", employer="Acme", knows="Bo Dahl"),
    _stated("bo", "Bo Dahl", employer="NORSK HYDRO"),
    _stated("cy", "Cy Eide", employer=HOSTILE),
    *(_stated(f"p{k}", f"Person Number{k}", employer="Norsk Hydro") for k in range(30)),
]


def make_linked(path: Path) -> Path:
    """Make the store."""
    options = RunOptions(likelihood="names", alpha=1.0, refers="employer,knows", link="register")
    add_fragments(str(path), _FRAGMENTS, options)
    return path
