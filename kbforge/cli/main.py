"""The `kbforge` program: finds its verbs as plugins, and turns errors into sentences.

Every verb is an entry point in the group `kbforge.commands`. Its object is a Typer app with one
command (or sub-commands). The help page imports the verbs. A verb that fails to import is listed as
broken, and the others work.
"""

from __future__ import annotations

import contextlib
import ctypes
import difflib
import functools
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from kbforge.errors import KBForgeError, PluginError, UsageError, escaped, quoted
from kbforge.interrupts import exit_code, heeded, sentence
from kbforge.registry import (
    Plugin,
    blamed,
    find,
    library_missing,
    load,
    names,
    require_extra,
)
from kbforge.version import DISTRIBUTION, __version__

# The panels of the help page. The last one also has our verbs that are not named here; the verbs of
# another distribution have a panel of their own.
_PANELS = {
    "Start": (
        "load",
        "cluster",
        "link",
        "resolve",
        "show",
        "explain",
        "serve",
        "mcp",
        "evaluate",
        "export",
        "report",
    ),
    "Living knowledge base": (
        *("status", "changes", "review", "decide", "remove", "refit", "check", "backup"),
    ),
    "Learn": ("train-pairs", "train-lm", "train-ngram", "train-attributes", "calibrate"),
    "More": ("run", "plugins", "lab"),
}
_MOST = (1 << 63) - 1  # of a whole number

# Typer has its own copy of click, which exports only this subclass
UsageMistake: Any = typer.BadParameter.__base__


class _Verbs(TyperGroup):
    """A command group whose members are the plugins of kind `commands`."""

    def list_commands(self, ctx: Any) -> list[str]:
        order = [verb for verbs in _PANELS.values() for verb in verbs]
        return sorted(
            names("commands"),
            key=lambda name: (order.index(name) if name in order else len(order), name),
        )

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in names("commands"):
            return None
        try:
            command = verb_called(cmd_name)
        except PluginError as error:
            return _broken(cmd_name, error)
        command.name = cmd_name
        _shorten_help(command)
        # one line without markup: brackets of another distribution must not break the help page
        command.short_help = command.get_short_help_str(200).replace("[", "\\[")
        command.rich_help_panel = _panel(cmd_name)
        return command

    def make_context(self, *args: Any, **extra: Any) -> Any:
        with _ended_in_words(), _escaped_usage():
            return super().make_context(*args, **extra)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name = args[0]
        known = names("commands")
        if name not in known and not name.startswith("-") and not ctx.resilient_parsing:
            close = difflib.get_close_matches(name, known, 1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            ctx.fail(f"No such command '{name}'.{hint}")
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        with _ended_in_words(), blamed(), _escaped_usage():
            return super().invoke(ctx)


def verb_called(name: str) -> Any:
    """The command that a distribution registered as this verb; a `PluginError` if it is broken."""
    app = load("commands", name)
    try:
        return _checked(typer.main.get_command(app), find("commands", name))
    except Exception as error:  # whatever another distribution's app makes Typer raise
        raise PluginError(
            f'the command "{name}" cannot be used: {type(error).__name__}: {error}'
        ) from error


def _checked(command: Any, plugin: Plugin) -> Any:
    """The command; it refuses numbers of more than 64 bits, names a missing extra, and spells out
    the query of a table."""
    for member in getattr(command, "commands", {}).values():
        _checked(member, plugin)
    run = command.callback
    if run is None:
        return command
    flags = {parameter.name: parameter.opts[0] for parameter in command.params}

    @functools.wraps(run)
    def checked(*args: Any, **options: Any) -> Any:
        for name, value in options.items():
            if type(value) is int and not -_MOST <= value <= _MOST:
                got = quoted(value, 40)
                raise UsageError(f"{flags[name]}: expected a whole number of 64 bits, got {got}")
        if plugin.entry_point.extras:
            require_extra(plugin)  # the help needs none
        return run(*args, **options)

    command.callback = checked
    if "id_column" in flags:
        make = command.make_context

        def made(name: str | None, arguments: list[str], *more: Any, **others: Any) -> Any:
            return make(name, _spelled_out(arguments), *more, **others)

        command.make_context = made
    return command


def _spelled_out(arguments: Sequence[str]) -> list[str]:
    """The arguments of a verb that reads tables: `--query SQL` is `--set source.query=SQL`."""
    found = list(arguments)
    end = found.index("--") if "--" in found else len(found)
    for at in reversed(range(end)):
        word, equals, query = found[at].partition("=")
        if word == "--query" and (equals or at + 1 < end):
            found[at : at + (1 if equals else 2)] = [
                f"--set=source.query={query if equals else found[at + 1]}"
            ]
    return found


@contextlib.contextmanager
def _ended_in_words() -> Iterator[None]:
    """End with a message after an interrupt, and without an error after a closed pipe."""
    try:
        yield
    except KeyboardInterrupt:
        _fail(sentence(), exit_code())
    except BrokenPipeError:  # its reader wants no more: flush nothing
        _drop_output()
        sys.exit(0)


@contextlib.contextmanager
def _escaped_usage() -> Iterator[None]:
    """Escape the user's input, which Typer repeats in its messages."""
    try:
        yield
    except UsageMistake as error:
        error.message = escaped(error.message)
        raise


def _panel(verb: str) -> str:
    """The panel of the help page that lists a verb."""
    distribution = find("commands", verb).distribution
    if distribution != DISTRIBUTION:
        return f"Commands of {distribution}"
    *_, last = _PANELS
    return next((title for title, verbs in _PANELS.items() if verb in verbs), last)


def _shorten_help(command: Any) -> None:
    """Unwrap the help of a command and of its sub-commands, one line per paragraph, so that the
    terminal's width decides where lines end."""
    paragraphs = (command.help or "").split("\n\n")
    lines = (p if p.startswith(" ") else " ".join(p.split()) for p in paragraphs)
    command.help = "\n\n".join(lines)
    for member in getattr(command, "commands", {}).values():
        _shorten_help(member)


def _broken(name: str, error: PluginError) -> Any:
    """A placeholder for a broken verb: it is listed, and reports the reason when it is run."""
    app = typer.Typer(add_completion=False)

    @app.command(
        name,
        help="(broken; see kbforge plugins list --check)",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    def command() -> None:
        raise error

    return typer.main.get_command(app)


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from kbforge.kernel.binding import kernel_status

        typer.echo(f"kbforge {__version__}\n{kernel_status()}")
        raise typer.Exit


@app.callback()
def kbforge(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Turn entity fragments into a knowledge base.

    A first run:

        kbforge cluster people.csv -o kb.jsonl

        kbforge show kb.jsonl

    kbforge COMMAND --help explains a command.
    """


def main() -> None:
    """Run the program and exit.

    The exit code is 0 for success, 1 for an error, 2 for wrong usage, and 128 plus the signal's
    number for a signal: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.
    """
    _occupy_closed_streams()
    _return_large_memory()
    try:
        with _ended_in_words(), heeded():
            app()
    except SystemExit as ended:
        _leave(ended.code)
    except KBForgeError as error:
        _fail(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        missing = library_missing(error.name or "", "this command")
        if missing is None:
            raise
        _fail(str(missing), missing.exit_code)
    except OSError as error:
        _fail(_sentence(error), KBForgeError.exit_code)
    except MemoryError:
        _fail("out of memory", KBForgeError.exit_code)


def _occupy_closed_streams() -> None:
    """Replace closed standard streams with files that can be neither read nor written.

    Otherwise the next opened file would get their number and receive the output. Text for a closed
    standard error is discarded.
    """
    if sys.stdin is None:
        sys.stdin = _unusable(0, os.O_WRONLY, "r")
    if sys.stdout is None:
        sys.stdout = _unusable(1, os.O_RDONLY, "w")
    if sys.stderr is None:
        sys.stderr = _unusable(2, os.O_WRONLY, "w")


_LARGE_THRESHOLD, _LARGE = -3, 1 << 20  # M_MMAP_THRESHOLD of malloc.h, and bytes


def _return_large_memory() -> None:
    """Have glibc return large arrays to the system as soon as they are freed.

    Otherwise it raises the threshold by itself, and keeps holes that nothing else fits in.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    if mallopt is not None:
        mallopt(_LARGE_THRESHOLD, _LARGE)


def _unusable(number: int, flags: int, mode: str) -> Any:
    opened = os.open(os.devnull, flags)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)
    return open(number, mode, encoding="utf-8", closefd=False)


def _fail(sentence: str, code: int) -> NoReturn:
    print(f"kbforge: {escaped(sentence)}", file=sys.stderr)
    _leave(code)


def _sentence(error: OSError) -> str:
    """The error message for a file or a standard stream."""
    from kbforge.files.io import reason_of

    return f"{error.filename or 'cannot write standard output'}: {reason_of(error)}"


def _leave(code: str | int | None) -> NoReturn:
    """Flush and exit; if the disk is full, exit with an error without flushing again."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        if not code:
            print(f"kbforge: {escaped(_sentence(error))}", file=sys.stderr)
            code = KBForgeError.exit_code
    sys.exit(code)


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


if __name__ == "__main__":
    main()
