"""The verb mcp: a store as tools for a language model."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import console, options
from kbforge.cli.options import option
from kbforge.errors import quoted

app = typer.Typer(add_completion=False)


@app.command()
def mcp(
    store: options.Store,
    http: Annotated[
        bool, option("--http", "Serve by HTTP instead of standard input and output.")
    ] = False,
    port: Annotated[
        int, option("--port", "With --http: port; 0 selects a free one.", min=0, max=65_535)
    ] = 8001,
    by: options.By = None,
) -> None:
    """Serve a store to language models (Model Context Protocol).

    A client, such as a desktop assistant or a code editor, starts this command and talks to it
    through standard input and output. With --http it listens at http://127.0.0.1:PORT/mcp instead,
    for programs on this machine only.

    Clients can ask you before they call the two tools that write: add_fragments and decide.

    Examples:

        kbforge mcp kb.sqlite

        kbforge mcp kb.sqlite --http --port 8001
    """
    from contextlib import closing

    from kbforge.store.audit import signed
    from kbforge_serve.mcp import over_http, server
    from kbforge_serve.service import Service

    with signed(by), closing(Service(store)) as service:
        with console.progress(total=None, description="search index") as bar:
            service.search.prepare(bar.update)
        tools = server(service)
        if not http:
            tools.run()
            return
        from kbforge_serve.server import address_of, listen, serve

        with listen("127.0.0.1", port) as listening:
            console.note(
                f"{quoted(store, 400)} is served at {address_of(listening)}mcp until you press "
                "Ctrl-C"
            )
            serve(over_http(tools), listening)
