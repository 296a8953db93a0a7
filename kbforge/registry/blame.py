"""Blame: which plugin raised an error while it ran.

An error belongs to a plugin if, of all the frames that it went through, the innermost one that is
ours or a loaded plugin's is the plugin's. A library that the plugin called is the plugin's
business; what the plugin called back is ours.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from kbforge.errors import KBForgeError, PluginError, quoted

_OUR_DISTRIBUTION = "kbforge"
_OURS = {"kbforge", "kbforge_plugins", "kbforge_training", "kbforge_grammars"}
_TYPERS = {"click", "typer"}  # how a verb ends well, or says that it was used wrongly


@dataclass(frozen=True, slots=True)
class _Loaded:
    """A stranger's plugin that this process uses."""

    called: str
    kind: str


_loaded: dict[str, _Loaded] = {}
"""By module; the first plugin of a package stands for all its modules."""


def remember(module: str, called: str, distribution: str, kind: str) -> None:
    """That a plugin is used from now on.

    Args:
        module: that it is in.
        called: what a sentence calls it.
        distribution: that it belongs to.
        kind: of plugin.

    """
    if distribution != _OUR_DISTRIBUTION:
        _loaded[module] = _Loaded(called, kind)
        _loaded.setdefault(module.partition(".")[0], _Loaded(called, kind))


@contextlib.contextmanager
def blamed() -> Iterator[None]:
    """What a stranger's plugin raises in this block becomes one sentence with its name.

    So do `sys.exit`, unless it ends the plugin's own verb, and a `KeyboardInterrupt` that no signal
    raised. What is raised elsewhere passes.

    Raises:
        PluginError: instead of what the plugin raised.

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
    plugin, place = found
    if isinstance(error, SystemExit) and plugin.kind == "commands":
        return None
    said = quoted(f"{type(error).__name__}: {error}".removesuffix(": "), 400)
    return f"{plugin.called} failed at {quoted(place)}: {said}"


def _culprit(trace: TracebackType | None) -> tuple[_Loaded, str] | None:
    """The plugin that the innermost known frame belongs to, and the place; None if it is ours."""
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
