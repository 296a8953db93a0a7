"""The installed verbs, for pipelines: their options, and how to run them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from kbforge import registry
from kbforge.errors import PluginError, UsageError, quoted
from kbforge.registry import blamed
from kbforge.version import __version__
from kbforge.words import did_you_mean

if TYPE_CHECKING:
    from kbforge.recipe.read import Option

# Typer has its own copy of click, which exports only this subclass
UsageMistake: Any = typer.BadParameter.__base__


class InstalledVerb:
    """A verb of an installed distribution, or its sub-command.

    Args:
        words: the verb and its sub-commands.

    Raises:
        KBForgeError: there is no such verb, or it is broken.

    """

    def __init__(self, words: Sequence[str]) -> None:
        self._called = " ".join(("kbforge", *words))
        self._command = _command_of(words)
        self._distribution = registry.find("commands", words[0])

    @property
    def program(self) -> str:
        """kbforge with its version, and the distribution if it is another."""
        ours, plugin = f"kbforge {__version__}", self._distribution
        if plugin.distribution == "kbforge":
            return ours
        return f"{plugin.distribution} {plugin.version} on {ours}"

    @property
    def options(self) -> Mapping[str, Option]:
        """The long options, without their dashes."""
        params = (p for p in self._command.params if p.param_type_name == "option")
        return {option.name: option for option in map(_option, params)}

    def run(self, arguments: Sequence[str]) -> int:
        """Call the verb with the arguments of a command line."""
        try:
            with blamed():
                code = self._command.main(
                    list(arguments), prog_name=self._called, standalone_mode=False
                )
        except SystemExit as error:
            # a text means exit code 1
            code = error.code if isinstance(error.code, int | None) else 1
        except UsageMistake as error:
            said = " ".join(str(error.format_message()).split())
            raise UsageError(f"{said} (see {self._called} --help)") from error
        return code if isinstance(code, int) else 0


def verb_called(name: str) -> Any:
    """The command that a distribution registered as this verb.

    Raises:
        PluginError: there is none, or it is broken.

    """
    app = registry.load("commands", name)
    try:
        return typer.main.get_command(app)
    except Exception as error:  # whatever another distribution's app makes Typer raise
        raise PluginError(
            f'the command "{name}" cannot be used: {type(error).__name__}: {error}'
        ) from error


def _command_of(words: Sequence[str]) -> Any:
    """The command of a verb and its sub-commands."""
    command = verb_called(words[0])
    for used, word in enumerate(words[1:], 1):
        members = getattr(command, "commands", {})
        if word not in members:
            raise UsageError(
                f'"{quoted(" ".join(words[:used]))}" has no sub-command "{quoted(word)}"'
                f"{did_you_mean(word, members)}; "
                f"expected {', '.join(sorted(members)) or 'none'}"
            )
        command = members[word]
    members = getattr(command, "commands", None)
    if members and isinstance(command, TyperGroup):
        raise UsageError(
            f'"{quoted(" ".join(words))}" needs a sub-command: one of {", ".join(sorted(members))}'
        )
    return command


def _option(parameter: Any) -> Option:
    from kbforge.recipe.read import Option

    return Option(
        flag=str(max(parameter.opts, key=len)),
        is_switch=parameter.is_flag,
        off=next(iter(parameter.secondary_opts), ""),
        repeats=parameter.multiple,
        is_output="--output" in parameter.opts or "-o" in parameter.opts,
        default=parameter.default if isinstance(parameter.default, str) else "",
    )
