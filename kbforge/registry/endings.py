"""Which plugin reads or writes a file, by the file's ending.

A source or an exporter states its endings as the class attribute `endings`. The plugin that has the
ending for a name is asked first, so that the usual formats import one module only.
"""

from __future__ import annotations

from pathlib import PurePath

from kbforge.errors import PluginError, UsageError, quoted
from kbforge.registry.discovery import installed, load, names, singular

_PACKED = (".gz", ".zst", ".zstd")


def ending_of(path: str) -> str:
    """The ending that names the format, in lower case: ".csv" of "people.CSV.gz"; "" without one.

    A name that is nothing but the ending of a compressed file has no format.
    """
    name = PurePath(path).name.lower()
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return PurePath(name).suffix


def plugin_of(kind: str, path: str) -> str | None:
    """The name of the plugin of a kind that states the ending of a path; None if none does.

    Raises:
        UsageError: several state it.

    """
    ending = ending_of(path)
    if not ending:
        return None
    if ending[1:] in names(kind) and ending in _stated(kind, ending[1:]):
        return ending[1:]
    claims = [name for name in names(kind) if ending in _stated(kind, name)]
    if len(claims) > 1:
        raise UsageError(
            f"{quoted(path, 400)}: the {kind} {' and '.join(claims)} take {quoted(ending)}; "
            f"name one of them"
        )
    return claims[0] if claims else None


def endings(kind: str) -> list[str]:
    """All endings that plugins of a kind state, sorted."""
    return sorted({ending for name in names(kind) for ending in _stated(kind, name)})


def require_plugin_of(kind: str, path: str, how: str) -> str:
    """As `plugin_of`, where there must be one.

    Args:
        kind: "sources" or "exporters".
        path: of the file.
        how: says how to name a plugin.

    Raises:
        UsageError: none or several state the ending.

    """
    found = plugin_of(kind, path)
    if found is None:
        ending = quoted(ending_of(path), 40)
        got = f"the ending {ending}" if ending else "no ending"
        raise UsageError(
            f"{quoted(path, 400)}: expected an ending that {_article(kind)} takes "
            f"({', '.join(endings(kind))}), got {got}; {how}"
        )
    return found


def _article(kind: str) -> str:
    one = singular(kind)
    return f"an {one}" if one[0] in "aeiou" else f"a {one}"


def _stated(kind: str, name: str) -> tuple[str, ...]:
    """The endings of one plugin; none of one that is broken."""
    if any(p.status != "ok" for p in installed(kind) if p.name == name):
        return ()
    try:
        return tuple(getattr(load(kind, name), "endings", ()))
    except PluginError:
        return ()
