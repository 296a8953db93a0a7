"""A new plugin of any kind, as a distribution whose tests pass: `kbforge plugins new`.

The files come from templates: `templates/KIND/` has the module and its tests, and
`kbforge/templates/` the files that all kinds share. A distribution that adds a kind may ship
templates for it in the package of the kind's base class.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

from kbforge import registry
from kbforge.errors import OutputError, UsageError, quoted
from kbforge.files.io import open_folder
from kbforge.version import DISTRIBUTION, __version__

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_TEMPLATES = "templates"
_OBJECTS = {"commands": "app", "grammars": "grammar"}  # functions, and what Typer calls an app


def new_plugin(kind: str, name: str, target: str | None = None) -> list[Path]:
    """Write the distribution of a new plugin; returns its files.

    Args:
        kind: in the plural, as the registry has it.
        name: of the plugin: small letters, digits and dashes.
        target: the new folder; None is kbforge-NAME in the working directory.

    Raises:
        UsageError: the name cannot be one or is taken, or the kind has no template.
        OutputError: there is something under the folder's name, or it cannot be written.

    """
    _require_name(kind, name)
    folders = [_templates_of(kind), _templates_of("sources")]
    values = _values(kind, name)
    distribution, module = values["distribution"], values["module"]
    contents = {
        f"{module}.py": _rendered(folders, f"{kind}/module.py.jinja", values),
        f"test_{name.replace('-', '_')}.py": _rendered(folders, f"{kind}/test.py.jinja", values),
        "pyproject.toml": _rendered(folders, "pyproject.toml.jinja", values),
        "README.md": _rendered(folders, "README.md.jinja", values),
    }
    folder = Path(target or distribution)
    if os.path.lexists(folder):
        raise OutputError(
            f"{quoted(str(folder), 400)} is there already; choose another folder with -o, or "
            "another name"
        )
    with open_folder(str(folder), contents, "plugins new") as writing:
        for file, text in contents.items():
            (writing / file).write_text(text, encoding="utf-8")
    return [folder / file for file in contents]


def _require_name(kind: str, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise UsageError(
            f'"{quoted(name)}": expected a name of small letters, digits and dashes that begins '
            "with a letter, such as my-lines"
        )
    for taken, of_kind in _claims(kind):
        if name in taken:
            one = registry.singular(of_kind)
            raise UsageError(
                f'the {one} "{name}" is installed already, and a name that two distributions '
                "claim belongs to neither; choose another one"
            )


def _claims(kind: str) -> list[tuple[list[str], str]]:
    """The names that a new plugin of this kind cannot have, and the kind that has them."""
    if kind == "kinds":
        return [(registry.kinds(), kind)]
    # a grammar comes with a serializer of its own
    also = ["serializers"] if kind == "grammars" else []
    return [(registry.names(one), one) for one in (kind, *also)]


def _values(kind: str, name: str) -> dict[str, str]:
    """What the templates insert."""
    major, minor = __version__.split(".")[:2]
    singular, prefix = registry.singular(kind), _camel(name)
    own = _camel(registry.singular(name)) if kind == "kinds" else prefix + _camel(singular)
    return {
        "kind": kind,
        "singular": singular,
        "name": name,
        "prefix": prefix,
        "object": _OBJECTS.get(kind, own),
        "distribution": f"kbforge-{name}",
        "module": f"kbforge_{name.replace('-', '_')}",
        "kbforge": DISTRIBUTION,
        "least": f"{major}.{minor}",
        "next": f"{major}.{int(minor) + 1}",
        "rules": "",
    }


def _camel(name: str) -> str:
    return "".join(word.capitalize() for word in name.split("-"))


def _templates_of(kind: str) -> Path:
    """The folder with the templates of a kind: of the package that has its base class."""
    package = "kbforge"
    if kind not in registry.KINDS:
        package = registry.find("kinds", kind).entry_point.module.partition(".")[0]
    spec = find_spec(package)
    for place in (spec and spec.submodule_search_locations) or ():
        folder = Path(place) / _TEMPLATES
        if (folder / kind / "module.py.jinja").is_file():
            return folder
    raise UsageError(
        f"there is no template for {quoted(kind)}: expected {package}/{_TEMPLATES}/{quoted(kind)}"
    )


def _rendered(folders: list[Path], template: str, values: dict[str, str]) -> str:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(  # of Python, so nothing is escaped
        loader=FileSystemLoader(folders),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template(template).render(values)
