"""The plugin registry: one entry-point group a kind, loaded only when named.

A plugin is a class in some installed distribution, announced by an entry point in the group
`kbforge.<kind>`; ours use the same groups as everyone's. Listing reads distribution metadata and
imports nothing. Creating one imports that one module only, so a broken plugin breaks only the
command that names it. The constructor's signature is the plugin's configuration schema.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, distributions
from typing import Any

import kbforge
from kbforge.config import bind_options
from kbforge.errors import PluginError

KINDS: Mapping[str, str] = {
    "sources": "read fragments from files",
    "serializers": "write a set of fragments as text",
    "grammars": "what texts a language model may produce",
    "likelihoods": "score a set of fragments as one entity",
    "surrogates": "propose cheaply for an expensive likelihood",
    "features": "turn fragments into numbers",
    "indexes": "retrieve candidate clusters",
    "clusterers": "group fragments into entities",
    "resamplers": "reduce putative particles to P",
    "calibrators": "choose the concentration alpha",
    "exporters": "write entities to files",
    "executors": "spread work over workers",
    "commands": "verbs of the command line",
}

_GROUP_PREFIX = "kbforge."


@dataclass(frozen=True, slots=True)
class Plugin:
    """What the metadata say of one plugin; nothing was imported to know it.

    Attributes:
        status: "ok", or "incompatible" if the distribution requires another version of kbforge.
        requires: the distribution's requirement on kbforge, "" if it states none.

    """

    kind: str
    name: str
    distribution: str
    version: str
    requires: str
    status: str
    entry_point: EntryPoint


def installed(kind: str | None = None) -> list[Plugin]:
    """All plugins (of a kind), by kind in the order of `KINDS`, then name, then distribution."""
    kinds = list(KINDS)
    found = [plugin for plugin in _scan() if kind is None or plugin.kind == kind]
    return sorted(found, key=lambda p: (kinds.index(p.kind), p.name, p.distribution))


def names(kind: str) -> list[str]:
    """The names available in a kind, sorted."""
    return sorted({plugin.name for plugin in installed(kind)})


def load(kind: str, name: str) -> Any:
    """Import the plugin of that name and return its object (usually a class).

    Raises:
        PluginError: unknown, claimed by two distributions, incompatible, or it fails to import.

    """
    plugin = find(kind, name)
    if plugin.status != "ok":
        raise PluginError(
            f"{_called(plugin)} requires kbforge{plugin.requires}, this is {kbforge.__version__}"
        )
    try:
        return plugin.entry_point.load()
    except Exception as error:  # a stranger's import may raise anything; the cause is kept
        raise PluginError(
            f"{_called(plugin)} cannot be loaded: {type(error).__name__}: {error}"
        ) from error


def create(kind: str, name: str, options: Mapping[str, object] | None = None) -> Any:
    """Construct the plugin with options checked against its constructor.

    String options are converted to the parameter's annotated type, so that `--set` and TOML give
    the same result.

    Raises:
        PluginError: as for `load`.
        UsageError: an option that the constructor does not have or cannot take.

    """
    factory = load(kind, name)
    return factory(**bind_options(factory, f"{_singular(kind)} {name}", options or {}))


def find(kind: str, name: str) -> Plugin:
    """The metadata of one plugin.

    Raises:
        PluginError: no or more than one distribution claims the name.

    """
    claims = [plugin for plugin in installed(kind) if plugin.name == name]
    if not claims:
        available = ", ".join(names(kind)) or "none"
        raise PluginError(
            f'there is no {_singular(kind)} "{name}"; available: {available} '
            f"(see kbforge plugins list)"
        )
    if len(claims) > 1:
        owners = " and ".join(f"{c.distribution} {c.version}" for c in claims)
        raise PluginError(
            f'the {_singular(kind)} name "{name}" is claimed by {owners}; uninstall one of them'
        )
    return claims[0]


@cache
def _scan() -> tuple[Plugin, ...]:
    return tuple(_plugins_of_all(distributions()))


def _plugins_of_all(found: Iterator[Distribution] | Any) -> Iterator[Plugin]:
    seen: set[str] = set()
    for distribution in found:
        # metadata of a damaged installation must not break anyone else
        name = (distribution.metadata["Name"] or "") if distribution.metadata else ""
        if not name or name.lower() in seen:
            continue  # the first on the path shadows the rest, as for imports
        seen.add(name.lower())
        entry_points = [e for e in distribution.entry_points if e.group.startswith(_GROUP_PREFIX)]
        if entry_points:
            yield from _plugins_of(distribution, name, entry_points)


def _plugins_of(
    distribution: Distribution, name: str, entry_points: list[EntryPoint]
) -> Iterator[Plugin]:
    requires = _requirement_on_kbforge(distribution)
    status = "ok" if _satisfied(requires) else "incompatible"
    for entry_point in entry_points:
        kind = entry_point.group.removeprefix(_GROUP_PREFIX)
        if kind in KINDS:
            yield Plugin(
                kind, entry_point.name, name, distribution.version, requires, status, entry_point
            )


def _requirement_on_kbforge(distribution: Distribution) -> str:
    from packaging.requirements import InvalidRequirement, Requirement

    for line in distribution.requires or []:
        try:
            requirement = Requirement(line)
        except InvalidRequirement:
            continue
        if requirement.name.lower() == "kbforge" and not requirement.extras:
            return str(requirement.specifier)
    return ""


def _satisfied(specifier: str) -> bool:
    from packaging.specifiers import SpecifierSet

    return SpecifierSet(specifier).contains(kbforge.__version__, prereleases=True)


def _singular(kind: str) -> str:
    return {"indexes": "index"}.get(kind, kind.removesuffix("s"))


def _called(plugin: Plugin) -> str:
    return f'the {_singular(plugin.kind)} "{plugin.name}" of {plugin.distribution} {plugin.version}'
