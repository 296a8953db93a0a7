"""The plugin registry: lists plugins, makes them by name, and checks their contracts.

A plugin is a class in some installed distribution, announced by an entry point in the group
`kbforge.<kind>`. Listing reads distribution metadata and imports nothing. Creating a plugin imports
its module only, so a broken plugin breaks only the command that names it. A plugin that needs an
extra of its distribution names it in its entry point (`module:Class [extra]`). The constructor's
signature is the configuration schema (`kbforge.registry.options`). A class has the base class of
its kind in `kbforge.contracts`, which is checked once, when it is loaded.

A source or an exporter declares the extensions of its files in the class attribute `endings`, or
the beginnings of addresses, such as `postgresql://`. A plugin whose name is the extension is
checked first, so the usual formats import only one module.

An error of a running plugin becomes a sentence with its name (`blamed`). Among the frames in
KBForge and in loaded plugins, the innermost one decides: an error belongs to the plugin of that
frame. So the plugin is responsible for libraries that it calls, and KBForge for callbacks.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from importlib import metadata
from importlib.metadata import Distribution, EntryPoint, distributions
from pathlib import Path, PurePath
from types import TracebackType
from typing import Any

from kbforge.errors import KBForgeError, PluginError, UsageError, did_you_mean, quoted
from kbforge.registry.options import bind_options
from kbforge.version import DISTRIBUTION, __version__

KINDS: Mapping[str, str] = {
    "sources": "read fragments from files",
    "serializers": "write a set of fragments as text",
    "likelihoods": "score a set of fragments as one entity",
    "clusterers": "group fragments into entities",
    "calibrators": "choose the concentration alpha",
    "exporters": "write entities to files",
    "commands": "verbs of the command line",
}

_PACKED = (".gz", ".bz2", ".zst", ".zstd")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+://")
_GROUP_PREFIX = "kbforge."
_LONGEST_NAME = 200  # bytes; most file systems take 255, extensions included
_OURS = {"kbforge", "kbforge_plugins", "kbforge_graphs", "kbforge_lm"}
_OURS |= {"kbforge_serve", "kbforge_training", "kbforge_grammars"}
_TYPERS = {"click", "typer"}  # how a verb ends well, or says that it was used wrongly
_DISTRIBUTIONS = {"sklearn": "scikit-learn"}  # of modules with another name
_OUR_LINE = re.compile(r"entity[-_.]+fragments(?![\w.-])", re.IGNORECASE)

_loaded: dict[str, tuple[str, str]] = {}
"""The names in messages of each third-party plugin in use, and its kind, by module; the first
plugin of a package represents all its modules."""


@dataclass(frozen=True, slots=True)
class Plugin:
    """The metadata of one plugin, read without importing anything.

    `status` is "ok"; "incompatible" if the distribution requires another version of KBForge; or
    "duplicate" if another distribution claims the same name. `cause` is a sentence about the last
    two. `glance` reports whether its extra is installed.
    """

    kind: str
    name: str
    distribution: str
    version: str
    status: str
    cause: str
    entry_point: EntryPoint


def installed(kind: str | None = None) -> list[Plugin]:
    """All plugins (of a kind), by kind in the order of `KINDS`, then name, then distribution."""
    order = list(KINDS)
    found = [plugin for plugin in _scan()[0] if kind is None or plugin.kind == kind]
    return sorted(found, key=lambda p: (order.index(p.kind), p.name, p.distribution))


def names(kind: str) -> list[str]:
    """The names available in a kind, sorted."""
    return sorted({plugin.name for plugin in installed(kind)})


def load(kind: str, name: str) -> Any:
    """Import the plugin of that name and return its class (a function for some kinds).

    Raises a PluginError if it is unknown, claimed by two distributions, incompatible, fails to
    import (for example because its extra is not installed), or lacks something that its kind's
    contract requires.
    """
    plugin = find(kind, name)
    if plugin.status != "ok":
        raise PluginError(plugin.cause)
    if plugin.distribution != DISTRIBUTION:
        module = plugin.entry_point.module
        _loaded[module] = _called(plugin), kind
        _loaded.setdefault(module.partition(".")[0], _loaded[module])
    try:
        loaded = plugin.entry_point.load()
    except (Exception, SystemExit) as error:  # a stranger's import may raise anything
        if isinstance(error, ImportError):
            require_extra(plugin)
        cause = quoted(f"{type(error).__name__}: {error}", 400)
        raise PluginError(f"{_called(plugin)} cannot be loaded: {cause}") from error
    # the page of help loads all commands, and can do without NumPy
    if kind == "commands":
        return loaded
    return checked(loaded, kind, _called(plugin))


def glance(plugin: Plugin) -> tuple[str, str]:
    """The status of a plugin, "needs extra" if its extra is not installed, and the cause.

    Nothing is imported.
    """
    missing = _missing(plugin)
    if plugin.status != "ok" or not missing:
        return plugin.status, plugin.cause
    extra = ",".join(plugin.entry_point.extras)
    return "needs extra", _install(_short(plugin), missing, plugin.distribution, extra)


def require_extra(plugin: Plugin) -> None:
    """Refuse a plugin whose extra is not installed; the PluginError has the command."""
    status, cause = glance(plugin)
    if status == "needs extra":
        raise PluginError(cause)


def library_missing(module: str, user: str) -> KBForgeError | None:
    """The error about a `user` ("--gpu") that needs a module of an extra; None if no extra has
    it."""
    package = module.partition(".")[0]
    wanted = _normalized(_DISTRIBUTIONS.get(package, package))
    pairs = _extras(DISTRIBUTION)
    having = [extra for extra, name in pairs if _normalized(name) == wanted]
    if not having:
        return None
    sizes = Counter(extra for extra, _ in pairs)
    smallest = min(having, key=sizes.__getitem__)  # not "all"
    return KBForgeError(_install(user, [wanted], DISTRIBUTION, smallest))


def check(plugin: Plugin) -> tuple[str, str]:
    """Load a plugin and catch errors; returns its status, "broken" if that fails, and the cause.

    A plugin whose extra is not installed is not loaded.
    """
    status, cause = glance(plugin)
    if status == "needs extra":
        return status, cause
    try:
        # whatever it prints while it is imported is not our output
        with contextlib.redirect_stdout(sys.stderr):
            load(plugin.kind, plugin.name)
    except PluginError as error:
        return ("broken" if plugin.status == "ok" else plugin.status), str(error)
    return plugin.status, plugin.cause


def create(
    kind: str, name: str, options: Mapping[str, object] | None = None, role: str | None = None
) -> Any:
    """Construct a plugin; text is converted to the annotated types, so `--set` and TOML are
    equivalent.

    Raises:
        PluginError: as for `load`; `role` replaces the singular kind in the message.
        UsageError: an unknown option, or an invalid value.

    """
    factory = load(kind, name)
    require_extra(find(kind, name))
    return factory(**bind_options(factory, f"{role or singular(kind)} {name}", options or {}))


def find(kind: str, name: str) -> Plugin:
    """The metadata of one plugin.

    Raises a PluginError if no distribution, or more than one, claims the name.
    """
    claims = [plugin for plugin in installed(kind) if plugin.name == name]
    if not claims:
        available = ", ".join(names(kind)) or "none"
        raise PluginError(
            f'there is no {singular(kind)} "{quoted(name)}"{did_you_mean(name, names(kind))}; '
            f"available: {available} "
            f"(see kbforge plugins list)"
        )
    if len(claims) > 1:
        raise PluginError(claims[0].cause)
    return claims[0]


def damaged() -> list[tuple[str, str]]:
    """The distributions whose metadata cannot be read, each with the cause."""
    return list(_scan()[1])


@cache
def _scan() -> tuple[tuple[Plugin, ...], tuple[tuple[str, str], ...]]:
    found: list[Plugin] = []
    broken: list[tuple[str, str]] = []
    seen: set[str] = set()
    for distribution in distributions():
        try:
            # most announce none, and their metadata need not be parsed
            if f"[{_GROUP_PREFIX}" not in (distribution.read_text("entry_points.txt") or ""):
                continue
            name = _normalized(distribution.metadata["Name"])
            if name in seen:
                continue
            seen.add(name)
            # the first on the path shadows the rest, as for imports
            found.extend(_plugins_of(metadata.distribution(name)))
        except Exception as error:  # damaged metadata may raise anything, in any reader
            folder = Path(str(getattr(distribution, "_path", "a distribution"))).name
            broken.append((folder, f"{type(error).__name__}: {error}"))
    return _mark_duplicates([p for p in found if p.kind in KINDS]), tuple(broken)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _plugins_of(distribution: Distribution) -> list[Plugin]:
    name, version = distribution.metadata["Name"], distribution.version
    needs = _unmet_requirement(distribution)
    found = [
        Plugin(kind, entry_point.name, name, version, "ok", "", entry_point)
        for entry_point in distribution.entry_points
        if (kind := entry_point.group.removeprefix(_GROUP_PREFIX)) != entry_point.group
    ]
    if needs:
        return [replace(p, status="incompatible", cause=f"{_called(p)} {needs}") for p in found]
    return found


def _mark_duplicates(found: list[Plugin]) -> tuple[Plugin, ...]:
    claims: dict[tuple[str, str], list[Plugin]] = {}
    for plugin in found:
        claims.setdefault((plugin.kind, plugin.name), []).append(plugin)
    out = []
    for plugin in found:
        if len(sharing := claims[plugin.kind, plugin.name]) > 1:
            owners = " and ".join(sorted(quoted(f"{p.distribution} {p.version}") for p in sharing))
            name = f'the {singular(plugin.kind)} name "{quoted(plugin.name)}"'
            cause = f"{name} is claimed by {owners}; uninstall one of them"
            plugin = replace(plugin, status="duplicate", cause=cause)
        out.append(plugin)
    return tuple(out)


def _unmet_requirement(distribution: Distribution) -> str:
    """What a distribution requires of KBForge, in words; "" if this version has it."""
    # packaging is slow to import and most requirements name something else
    ours = [line for line in distribution.requires or [] if _OUR_LINE.match(line)]
    if not ours:
        return ""
    from packaging.requirements import Requirement
    from packaging.specifiers import SpecifierSet

    requirements = [Requirement(line) for line in ours]
    applying = [r.specifier for r in requirements if r.marker is None or r.marker.evaluate()]
    requires = ",".join(map(str, applying)).strip(",")
    if SpecifierSet(requires).contains(__version__, prereleases=True):
        return ""
    return f"requires {DISTRIBUTION}{requires}, but this is {__version__}"


def _missing(plugin: Plugin) -> list[str]:
    """The distributions of a plugin's extra that are not installed."""
    wanted = plugin.entry_point.extras
    named = [name for extra, name in _extras(plugin.distribution) if extra in wanted]
    return [name for name in dict.fromkeys(named) if not _is_installed(name)]


@cache
def _extras(distribution: str) -> tuple[tuple[str, str], ...]:
    """(extra, distribution that it installs), as required on this system and Python."""
    from packaging.requirements import InvalidRequirement, Requirement

    about, lines = metadata.metadata(distribution), []
    for line in metadata.requires(distribution) or ():
        with contextlib.suppress(InvalidRequirement):  # a stranger's, on another distribution
            lines.append(Requirement(line))
    return tuple(
        (extra, line.name)
        for extra in about.get_all("Provides-Extra") or ()
        for line in lines
        if line.marker is not None
        and line.marker.evaluate({"extra": extra})
        and not line.marker.evaluate({"extra": ""})
    )


def _is_installed(distribution: str) -> bool:
    try:
        metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return False
    return True


def _install(user: str, missing: Iterable[str], distribution: str, extra: str) -> str:
    names = [quoted(name) for name in missing]
    verb = "is" if len(names) == 1 else "are"
    return (
        f"{user} needs {' and '.join(names)}, which {verb} not installed: "
        f"{install_command(extra, distribution)}"
    )


def install_command(extra: str, distribution: str = DISTRIBUTION) -> str:
    """The command that installs an extra, from the origin of the installed distribution.

    The origin is the folder, file or address in its direct_url.json, otherwise the package index.
    """
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    editable, what = "", f"{distribution}[{extra}]"
    try:
        told = json.loads(metadata.distribution(distribution).read_text("direct_url.json") or "{}")
        scheme, *_ = address = urlsplit(told["url"])
        if scheme != "file":
            vcs = told.get("vcs_info")
            of_vcs = f"{vcs['vcs']}+{told['url']}@{vcs['commit_id']}" if vcs else told["url"]
            what = f"{what} @ {of_vcs}"
        elif os.path.exists(place := url2pathname(address.path)):
            editable = "-e " if told.get("dir_info", {}).get("editable") else ""
            what = f"{place}[{extra}]"
    except (metadata.PackageNotFoundError, ValueError, LookupError, TypeError, AttributeError):
        pass  # nothing is known of where it came from
    return f"pip install {editable}{shlex.quote(quoted(what, 400))}"


def singular(kind: str) -> str:
    """The singular of a kind in messages: "likelihood" for "likelihoods"."""
    return kind.removesuffix("s")


def kind_called(text: str) -> str:
    """The kind that `text` names, in the plural or the singular; a UsageError if there is none."""
    for kind in KINDS:
        if text in (kind, singular(kind)):
            return kind
    meant = did_you_mean(text, [*KINDS, *map(singular, KINDS)])
    raise UsageError(f'there is no kind "{quoted(text)}"; kinds: {", ".join(KINDS)}{meant}')


def _short(plugin: Plugin) -> str:
    return f'the {singular(plugin.kind)} "{quoted(plugin.name)}"'


def _called(plugin: Plugin) -> str:
    return f"{_short(plugin)} of {quoted(f'{plugin.distribution} {plugin.version}')}"


def ending_of(path: str) -> str:
    """The extension of the format, in lower case: ".csv" of "people.CSV.gz"; "" without one.

    A name that is only the extension of a compressed file has no format. Of an address it is the
    beginning: "postgresql://".
    """
    if scheme := _SCHEME.match(path):
        return scheme[0]
    return PurePath(unpacked(PurePath(path).name.lower())).suffix


def is_address(path: str) -> bool:
    """Whether an input or output is not a file, but has an address such as postgresql://host/db."""
    return _SCHEME.match(path) is not None


def name_of(path: str) -> str:
    """A file's name without its extensions: "people" of data/people.csv.gz; or a database's."""
    if is_address(path):
        name = path.partition("?")[0].rpartition("@")[2]
        name = _SCHEME.sub("", name).partition("/")[2]
        return PurePath(name).stem or "database"
    name = unpacked(PurePath(path).name)
    return name[: len(name) - len(ending_of(path))] or name


def unpacked(name: str) -> str:
    """The name of a file without the extensions of compressed files."""
    for suffix in _PACKED:
        name = name.removesuffix(suffix)
    return name


def named_after(default: str, inputs: Iterable[str]) -> str:
    """The default output of a verb, such as NAME.kb.jsonl: NAME is the inputs' names.

    `abt-buy.kb.jsonl` for abt.csv and buy.csv; `kb.jsonl` for standard input, which has no name.
    """
    name = os.fsencode("-".join(name_of(path) for path in inputs if path != "-"))
    if not name:
        return default.removeprefix("NAME.")
    if len(name) > _LONGEST_NAME:
        name = name[:_LONGEST_NAME].decode(errors="ignore").encode()
    return default.replace("NAME", os.fsdecode(name))


def plugin_of(kind: str, path: str) -> str | None:
    """The name of the plugin that declares a path's extension; a UsageError if several do."""
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


def require_plugin_of(kind: str, path: str, how: str) -> str:
    """As `plugin_of`, but a UsageError if there is none; `how` explains how to name a plugin."""
    found = plugin_of(kind, path)
    if found is None:
        ending = quoted(ending_of(path), 40)
        got = f"the extension {ending}" if ending else "no extension"
        one = singular(kind)
        article = "an" if one[0] in "aeiou" else "a"
        endings = sorted({ending for name in names(kind) for ending in _stated(kind, name)})
        raise UsageError(
            f"{quoted(path, 400)}: expected an extension that {article} {one} takes "
            f"({', '.join(endings)}), got {got}; {how}"
        )
    return found


def _stated(kind: str, name: str) -> tuple[str, ...]:
    """The extensions of one plugin; empty for a broken one."""
    if any(p.status != "ok" for p in installed(kind) if p.name == name):
        return ()
    try:
        return tuple(getattr(load(kind, name), "endings", ()))
    except PluginError:
        return ()


def _bases() -> Mapping[str, type]:
    """The base class of each kind whose plugins are classes."""
    from kbforge import contracts  # imports NumPy

    return {
        "sources": contracts.Source,
        "serializers": contracts.Serializer,
        "likelihoods": contracts.Likelihood,
        "clusterers": contracts.Clusterer,
        "calibrators": contracts.Calibrator,
        "exporters": contracts.Exporter,
    }


def checked(factory: Any, kind: str, called: str) -> Any:
    """The plugin's class, after checking its base class and all required methods.

    Errors name the plugin `called`. Raises a PluginError if it is not a class, lacks the base
    class, or lacks a method.
    """
    base = _bases().get(kind)
    if base is None:
        return factory
    if not inspect.isclass(factory):
        raise PluginError(
            f"{called} is a {type(factory).__name__}, expected a class; "
            f"announce one that has the base class {_path(base)}"
        )
    _require_methods(factory, base, called)
    if base not in factory.__mro__:
        raise PluginError(
            f"{called} does not have the base class {_path(base)}; "
            f"derive {factory.__name__} from it"
        )
    return factory


def _require_methods(factory: type, base: type, called: str) -> None:
    """Refuse a class that lacks a method required by its contract."""
    abstract = [getattr(one, "__abstractmethods__", ()) for one in (base, factory)]
    for name in sorted({name for names in abstract for name in names}):
        method = getattr(factory, name, None)
        if not callable(method) or getattr(method, "__isabstractmethod__", False):
            parameters = inspect.signature(method or getattr(base, name)).parameters
            expected = ", ".join(parameter for parameter in parameters if parameter != "self")
            raise PluginError(
                f"{called} has no method {name}, expected {name}({expected}); "
                f"define it as {_path(base)} says"
            )


def _path(base: type) -> str:
    from kbforge import contracts

    exported = getattr(contracts, base.__name__, None) is base
    return f"{'kbforge.contracts' if exported else base.__module__}.{base.__name__}"


@contextlib.contextmanager
def blamed() -> Iterator[None]:
    """Replace an error of a third-party plugin with a PluginError that names it.

    A `sys.exit` counts as an error, unless it ends the plugin's own verb, and so does a
    `KeyboardInterrupt` that no signal raised. Other errors pass.
    """
    try:
        yield
    except (KBForgeError, BrokenPipeError, MemoryError):
        raise
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        sentence = _sentence(error)
        if sentence is None:
            raise
        raise PluginError(sentence) from error


def _sentence(error: BaseException) -> str | None:
    if type(error).__module__.partition(".")[0] in _TYPERS:
        return None
    found = _culprit(error.__traceback__)
    if found is None:
        return None
    (called, kind), place = found
    if isinstance(error, SystemExit) and kind == "commands":
        return None
    said = quoted(f"{type(error).__name__}: {error}".removesuffix(": "), 400)
    return f"{called} failed at {quoted(place)}: {said}"


def _culprit(trace: TracebackType | None) -> tuple[tuple[str, str], str] | None:
    """The plugin of the innermost known frame, and the place; None if it is KBForge's own."""
    found = None
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package in _OURS:
            found = None
        elif (plugin := _loaded.get(module) or _loaded.get(package)) is not None:
            file = os.path.basename(trace.tb_frame.f_code.co_filename)
            found = plugin, f"{file}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found
