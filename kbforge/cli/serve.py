"""The verb serve: a store as pages and protocols."""

from __future__ import annotations

from typing import Annotated

import typer

from kbforge.cli import options
from kbforge.cli.options import option

app = typer.Typer(add_completion=False)


@app.command()
def serve(
    store: options.Store,
    port: Annotated[int, option("--port", "Port; 0 takes any.", min=0, max=65_535)] = 8000,
) -> None:
    """Serve a store: pages to look at and review, and an API.

    Examples:

        kbforge serve kb.sqlite

        kbforge serve kb.sqlite --port 8080
    """
    import uvicorn

    from kbforge.serve.app import application
    from kbforge.serve.service import Service

    uvicorn.run(application(Service(store)), host="127.0.0.1", port=port, log_level="warning")
