"""The verb serve: a store as pages and protocols."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from kbforge.cli import console
from kbforge.cli.options import option
from kbforge.errors import UsageError, quoted

if TYPE_CHECKING:
    from starlette.types import ASGIApp

app = typer.Typer(add_completion=False)

_MOST_HELPERS = 4  # processes; each has the models in memory


@app.command()
def serve(
    store: Annotated[
        str,
        typer.Argument(help="Store, which kbforge cluster --into creates; or a folder of several."),
    ],
    port: Annotated[int, option("--port", "Port; 0 selects a free one.", min=0, max=65_535)] = 8000,
    host: Annotated[
        str, option("--host", "Address to listen on. Other machines need a token.")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        option(
            "--token",
            "Require this token: programs send it as Authorization: Bearer TOKEN, people sign in "
            "with it. Other users of this machine can see it here, but not in the variable.",
            envvar="KBFORGE_TOKEN",
        ),
    ] = None,
    tokens: Annotated[
        str | None,
        option(
            "--tokens",
            "File of tokens, TOML: for each name a table with token and right, which is read, "
            "answer, write or administer, and perhaps stores, a list of names. The audit has the "
            "name.",
            metavar="FILE",
        ),
    ] = None,
    allow_origin: Annotated[
        list[str] | None,
        option(
            "--allow-origin",
            "Let pages of another site, such as https://example.org, read /reconcile; may be "
            "repeated. Pages of this machine always may.",
            metavar="ORIGIN",
        ),
    ] = None,
    gold: Annotated[
        str | None,
        option(
            "--gold",
            "Labelled fragments, JSON lines: the page of quality scores the store against them. "
            "By default the labels of its own fragments count, if they have any.",
        ),
    ] = None,
    log_json: Annotated[
        bool,
        option(
            "--log-json",
            "Log each answer and each write on standard error, as a line of JSON.",
            envvar="KBFORGE_LOG_JSON",
        ),
    ] = False,
    open_it: Annotated[bool, option("--open", "Open the first page in a browser.")] = False,
) -> None:
    """Serve a store: pages to look at and review, and an API.

    Pages are at /, the API is under /api (its OpenAPI document is /api/openapi.json), and the
    reconciliation service for OpenRefine is at /reconcile. Ctrl-C ends the server when the requests
    under way have ended. Other commands can write to the store at the same time.

    A folder serves its stores, the files *.sqlite, below /s/NAME, such as /s/kb/entities and
    /s/kb/api; those that come later, too. A store is opened by its first request.

    Examples:

        kbforge serve kb.sqlite

        kbforge serve kb.sqlite --port 8080 --open

        KBFORGE_TOKEN=$(openssl rand -hex 16) kbforge serve kb.sqlite --host 0.0.0.0

        kbforge serve kb.sqlite --host 0.0.0.0 --tokens tokens.toml

        kbforge serve /var/lib/kbforge
    """
    import os
    import webbrowser
    from pathlib import Path

    from kbforge.kernel.binding import cores
    from kbforge_serve import logs
    from kbforge_serve.app import application
    from kbforge_serve.security import Access
    from kbforge_serve.server import address_of, listen
    from kbforge_serve.server import serve as run
    from kbforge_serve.service import Service
    from kbforge_serve.stores import Stores
    from kbforge_serve.tokens import Token, read_tokens

    if log_json:
        logs.begin()
    if token is not None and tokens is not None:
        raise UsageError("--token is one token, --tokens a file of several: give one of them")
    known = [Token(token)] if tokens is None else read_tokens(tokens)
    is_folder = os.path.isdir(store)
    if is_folder and gold is not None:
        raise UsageError("--gold is of one store, and this is a folder of several")
    known = [one for one in known if is_folder or one.opens(Path(store).stem)]
    if not known:
        raise UsageError(f"no token opens {quoted(store, 400)}")
    access = Access(host, known, tuple(allow_origin or ()))
    app: ASGIApp
    with listen(host, port) as listening:
        address = address_of(listening)
        if is_folder:
            stores = Stores(store, access)
            app, stop = stores, stores.stop
        else:
            service = Service(store, gold, min(cores(), _MOST_HELPERS))
            with console.progress(total=None, description="search index") as bar:
                service.search.prepare(bar.update)
            app, stop = application(service, access), service.feed.stop
        console.note(f"{quoted(store, 400)} is served at {address} until you press Ctrl-C")
        if open_it:  # the socket listens already, so the page waits for the server
            webbrowser.open(address)
        run(app, listening, stop)
