"""The `kbforge` program: finds its verbs as plugins, turns errors into sentences.

Every verb is an entry point in the group `kbforge.commands` whose object is a Typer app with one
command (or sub-commands). The help page imports the verbs; one that fails to import is listed as
broken and hurts no other.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import typer
from typer.core import TyperGroup

from kbforge import __version__, registry
from kbforge.errors import EXIT_INTERRUPTED, KBForgeError, PluginError


class _Verbs(TyperGroup):
    """A command group whose members are the plugins of kind `commands`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return registry.names("commands")

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in registry.names("commands"):
            return None
        try:
            app = registry.load("commands", cmd_name)
            command = typer.main.get_command(app)
        except PluginError as error:
            return _broken(cmd_name, error)
        command.name = cmd_name
        return command


def _broken(name: str, error: PluginError) -> Any:
    """A stand-in for a verb that cannot be loaded: listed in the help, and says why when run."""
    app = typer.Typer()

    @app.command(name, help="(broken; see kbforge plugins list --check)")
    def command() -> None:
        raise error

    return typer.main.get_command(app)


app = typer.Typer(
    cls=_Verbs,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"kbforge {__version__}")
        raise typer.Exit


@app.callback()
def kbforge(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
) -> None:
    """Turn entity fragments into a knowledge base.

    A first run:

        kbforge load csv people.csv --id id -o fragments.jsonl

        kbforge cluster fragments.jsonl -o kb.jsonl

        kbforge show kb.jsonl
    """


def main() -> None:
    """Run the program and exit: 0 done, 1 error, 2 usage, 130 interrupted."""
    try:
        app()
    except KBForgeError as error:
        _fail(str(error), error.exit_code)
    except KeyboardInterrupt:
        _fail("interrupted", EXIT_INTERRUPTED)
    except BrokenPipeError:
        # the reader of our pipe went away; not an error, and nothing may be flushed at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        _fail(f"{name}{(error.strerror or str(error)).lower()}", KBForgeError.exit_code)
    except MemoryError:
        _fail("out of memory", KBForgeError.exit_code)


def _fail(sentence: str, code: int) -> None:
    print(f"kbforge: {sentence}", file=sys.stderr)
    sys.exit(code)


if __name__ == "__main__":
    main()
