"""Writes a new plugin as a distribution with passing tests: `kbforge plugins new`.

The files come from templates: `kbforge/templates/KIND/` has the module and its tests, and
`kbforge/templates/` the files shared by all kinds.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from kbforge import registry
from kbforge.errors import OutputError, UsageError, quoted
from kbforge.files.io import open_folder
from kbforge.version import DISTRIBUTION, __version__

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TEMPLATES = Path(__file__).parents[1] / "templates"


def new_plugin(kind: str, name: str, target: str | None = None) -> list[Path]:
    """Write the distribution of a new plugin; returns its files.

    Args:
        kind: in the plural, as in the registry.
        name: of the plugin: lower-case letters, digits and dashes.
        target: the new folder; None is kbforge-NAME in the working directory.

    Raises:
        UsageError: the name is invalid or taken.
        OutputError: the folder exists already, or cannot be written.

    """
    _require_name(kind, name)
    values = _values(kind, name)
    distribution, module = values["distribution"], values["module"]
    contents = {
        f"{module}.py": _rendered(f"{kind}/module.py.jinja", values),
        f"test_{name.replace('-', '_')}.py": _rendered(f"{kind}/test.py.jinja", values),
        "pyproject.toml": _rendered("pyproject.toml.jinja", values),
        "README.md": _rendered("README.md.jinja", values),
    }
    folder = Path(target or distribution)
    if os.path.lexists(folder):
        raise OutputError(
            f"{quoted(str(folder), 400)} exists already; choose another folder with -o, or "
            "another name"
        )
    with open_folder(str(folder), contents, "plugins new") as writing:
        for file, text in contents.items():
            (writing / file).write_text(text, encoding="utf-8")
    return [folder / file for file in contents]


def _require_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{quoted(name)}": expected a name of lower-case letters, digits and dashes that '
            "begins with a letter, such as my-lines"
        )
    if name in registry.names(kind):
        raise UsageError(
            f'the {registry.singular(kind)} "{name}" is installed already, and a name that two '
            "distributions claim belongs to neither; choose another one"
        )


def _values(kind: str, name: str) -> dict[str, str]:
    """The values that the templates insert."""
    major, minor = __version__.split(".")[:2]
    singular, prefix = registry.singular(kind), _camel(name)
    return {
        "kind": kind,
        "singular": singular,
        "name": name,
        "prefix": prefix,
        "object": "app" if kind == "commands" else prefix + _camel(singular),
        "distribution": f"kbforge-{name}",
        "module": f"kbforge_{name.replace('-', '_')}",
        "kbforge": DISTRIBUTION,
        "least": f"{major}.{minor}",
        "next": f"{major}.{int(minor) + 1}",
    }


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _rendered(template: str, values: dict[str, str]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # of Python, so nothing is escaped
        loader=FileSystemLoader(_TEMPLATES),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(values)
