"""`kbforge plugins`: lists plugins and their options, checks them, and writes new ones."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from typing import Annotated, Any

import typer

from kbforge import registry
from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import quoted
from kbforge.registry.options import describe

_COLUMNS = ("kind", "name", "distribution", "version", "status")

app = typer.Typer(no_args_is_help=True, add_completion=False)


@app.callback()
def plugins() -> None:
    """List and describe the installed plugins; create a new one."""


@app.command("list")
def list_plugins(
    kind: Annotated[str | None, option("--kind", "List only this kind, such as sources.")] = None,
    check: Annotated[
        bool, option("--check", "Load each plugin; exit with 1 if one is broken.")
    ] = False,
    as_json: options.Json = False,
) -> None:
    """List the plugins: kind, name, distribution, version, status.

    This reads only metadata and imports nothing; --check loads each plugin and reports why a plugin
    is broken. A plugin that needs an extra is not broken: its line names what to install.

    Examples:

        kbforge plugins list --kind likelihoods

        kbforge plugins list --check --json
    """
    wanted = None if kind is None else registry.kind_called(kind)
    rows = [_row(plugin, check) for plugin in registry.installed(wanted)]
    damaged = registry.damaged()
    if as_json:
        unreadable = [{"distribution": name, "cause": cause} for name, cause in damaged]
        console.print_json({"plugins": rows, "damaged": unreadable})
    else:
        _print_table(rows)
        for name, cause in damaged:
            damage = f"{quoted(name)}: {quoted(cause, 400)}"
            console.note(f"kbforge: the plugins of {damage} are unknown")
    whole = ("ok", "needs extra")
    if check and (damaged or any(row["status"] not in whole for row in rows)):
        raise typer.Exit(1)


@app.command("show")
def show_plugin(
    kind: Annotated[str, typer.Argument(help="The kind, such as likelihood.")],
    name: Annotated[str, typer.Argument(help="The plugin's name.")],
    as_json: options.Json = False,
) -> None:
    """Describe a plugin, and its options for --set.

    Example:

        kbforge plugins show likelihood gaussian
    """
    kind = registry.kind_called(kind)
    plugin = registry.find(kind, name)
    summary, taken = describe(registry.load(kind, name))
    if as_json:
        described = {"summary": summary, "options": [*map(asdict, taken)]}
        console.print_json(_row(plugin, check=False) | described)
        return
    out = console.stdout()
    out.print(f"{plugin.kind} {plugin.name} ({plugin.distribution} {plugin.version})", markup=False)
    out.print(summary, markup=False)
    if kind == "commands":
        out.print(f"\nIts options: kbforge {plugin.name} --help", markup=False)
    elif taken:
        out.print()
        singular, needed = registry.singular(kind), "(required)"
        rows = (
            (f"{singular}.{o.name}", o.type, needed if o.default is None else o.default, o.help)
            for o in taken
        )
        out.print(console.table_of(("option", "type", "default", ""), rows))
    else:
        out.print("\nIt has no options.")


@app.command("new")
def new_plugin(
    kind: Annotated[str, typer.Argument(help="The kind, such as source.")],
    name: Annotated[str, typer.Argument(help="The new plugin's name, such as my-lines.")],
    output: Annotated[
        str | None,
        option("--output", "-o", "The new folder.", show_default="kbforge-NAME"),
    ] = None,
) -> None:
    """Create a plugin: a distribution of your own whose tests pass.

    The folder holds one module, its tests, pyproject.toml and README.md. The module is a small
    working example; change it into your plugin.

    Examples:

        kbforge plugins new source my-lines

        kbforge plugins new likelihood my-rates -o plugins/my-rates
    """
    from kbforge.jobs.scaffold import new_plugin as write

    kind = registry.kind_called(kind)
    files = write(kind, name, output)
    folder = files[0].parent
    typer.echo(f"{quoted(str(folder), 400)}: {', '.join(sorted(file.name for file in files))}\n")
    commands = (
        f"cd {shlex.quote(str(folder))}",
        "pip install -e '.[test]'",
        f"kbforge plugins show {registry.singular(kind)} {name}",
        "pytest",
    )
    typer.echo("\n".join(["Next:", *(f"  {command}" for command in commands)]))


def _row(plugin: registry.Plugin, check: bool) -> dict[str, Any]:
    status, cause = registry.check(plugin) if check else registry.glance(plugin)
    plain = {name: getattr(plugin, name) for name in _COLUMNS}
    return {**plain, "status": status, "cause": cause}


def _print_table(rows: list[dict[str, Any]]) -> None:
    cells = ([quoted(row[column], 400) for column in _COLUMNS] for row in rows)
    console.stdout().print(console.table_of(_COLUMNS, cells))
    for row in rows:
        if row["cause"]:
            console.note(f"kbforge: {row['cause']}")
