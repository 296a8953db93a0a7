"""Several stores in one server: those of a folder, each below /s/NAME.

A request to /s/kb/entity/1 goes to the application of kb.sqlite as one to /entity/1, with the root
/s/kb. So what serves a store knows of no other: `frame.page` puts the root before links, and
`_translated` before addresses of redirects. The index has the rest: the list, signing in, static
files. It also answers for stores that are not there or not open to a token, which therefore cannot
tell the two apart.

Stores come and go with their files. The first request opens a store; it is closed when nobody has
used it for a while, or when too many are open and it was used longest ago.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from urllib.parse import quote, urlsplit

from anyio import to_thread
from fastapi import FastAPI, Request
from fastapi.responses import Response
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection
from starlette.types import Message, Receive, Scope, Send

from kbforge.errors import BusyError, KBForgeError, UsageError, quoted
from kbforge.store.database import Database, is_store
from kbforge.store.store import Store
from kbforge_serve import frame, logs, security
from kbforge_serve.answers import Facts
from kbforge_serve.app import THREADS, application, say_errors
from kbforge_serve.failures import sentence_of
from kbforge_serve.frame import STORES
from kbforge_serve.security import Access, Guard
from kbforge_serve.service import Service

MOST_OPEN = 8
"""Maximum number of open stores, because each has its models in memory."""
IDLE = 600.0
"""Seconds without a request after which a store is closed."""
_LOOK = 10.0  # seconds between two looks for such stores
_HELD = 32 << 20  # bytes of the bodies of all current requests of a store


def paths_of(folder: str) -> dict[str, str]:
    """The stores of a folder, by name: the files `*.sqlite`, without this suffix."""
    found = sorted(Path(folder).glob("[!.]*.sqlite"))
    return {path.stem: str(path) for path in found if is_store(str(path))}


@dataclass(eq=False, slots=True)
class _Open:
    """An open store."""

    service: Service
    guard: Guard
    requests: int = 0  # under way
    used: float = field(default_factory=time.monotonic)


class Stores:
    """The application that serves the stores of a folder; raises a UsageError if it has none."""

    def __init__(self, folder: str, access: Access, idle: float = IDLE) -> None:
        if not paths_of(folder):
            raise UsageError(f"{quoted(folder, 400)} has no store: expected files *.sqlite")
        self._folder, self._access, self._idle = folder, access, idle
        self._open: dict[str, _Open] = {}
        self._turn = asyncio.Lock()  # of opening and closing
        self._index = Guard(self._made_index(), access, on_answer=partial(logs.answered, None))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; it also keeps its store open."""
        one: _Open | None = None
        path = scope["path"] if scope["type"] == "http" else ""
        name, _, rest = path.removeprefix(STORES).partition("/")
        if path.startswith(STORES) and self._lets_in(name, HTTPConnection(scope)):
            try:
                one = self._open.get(name) or await self._opened(name)
            except KBForgeError as error:
                scope["unopened"] = error
        if one is None:
            await self._index(scope, receive, send)
            return
        inside = {**scope, "path": f"/{rest}", "root_path": f"{STORES}{name}"}
        one.requests += 1
        try:
            await one.guard(inside, receive, _translated(inside, send))
        finally:
            one.requests, one.used = one.requests - 1, time.monotonic()

    def stop(self) -> None:
        """End requests that wait for events."""
        for one in self._open.values():
            one.service.feed.stop()

    def _lets_in(self, name: str, asked: HTTPConnection) -> bool:
        sender = self._access.sender(asked.headers, asked.cookies)
        lets_in = sender is not None and sender.opens(name)
        return lets_in and (name in self._open or name in paths_of(self._folder))

    async def _opened(self, name: str) -> _Open:
        """Open a store; errors as `Readers`, and BusyError if too many others are in use."""
        async with self._turn:
            if name in self._open:
                return self._open[name]
            if len(self._open) >= MOST_OPEN:
                idle = [one for one, at in self._open.items() if not at.requests]
                if not idle:
                    raise BusyError("too many stores are open at once; try again", 5)
                await self._close(min(idle, key=lambda one: self._open[one].used))
            path = str(Path(self._folder, f"{name}.sqlite"))
            service = await asyncio.to_thread(Service, path)
            threading.Thread(target=service.readers.warm, daemon=True).start()
            self._open[name] = one = _Open(service, application(service, self._access))
            one.guard.most_held = _HELD
            return one

    async def _close(self, name: str) -> None:
        service = self._open.pop(name).service
        await asyncio.to_thread(service.close)
        gc.unfreeze()  # its models, too, which `Readers.warm` froze
        gc.collect()
        gc.freeze()

    async def _close_idle(self) -> None:
        while True:
            await asyncio.sleep(min(_LOOK, self._idle))
            async with self._turn:
                for name, one in list(self._open.items()):
                    if not one.requests and time.monotonic() - one.used > self._idle:
                        await self._close(name)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: FastAPI) -> AsyncIterator[None]:
        to_thread.current_default_thread_limiter().total_tokens = THREADS
        closing = asyncio.create_task(self._close_idle())
        yield
        closing.cancel()
        for name in list(self._open):
            await self._close(name)

    def _made_index(self) -> FastAPI:
        """The application of everything that belongs to no store."""
        app = FastAPI(lifespan=self._lifespan, openapi_url=None, docs_url=None, redoc_url=None)
        say_errors(app, self._folder)
        app.include_router(frame.router())
        app.include_router(security.router(self._access))

        @app.get(security.HEALTH)
        def health() -> Response:
            return frame.json_of({"ok": True})

        @app.get("/.json")
        def listed(request: Request) -> Response:
            return frame.json_of({"stores": self._listed(request)})

        @app.get("/")
        @app.get(STORES)
        def index(request: Request) -> Response:
            return frame.page(request, "stores.html", stores=self._listed(request), json="/.json")

        @app.api_route(f"{STORES}{{rest:path}}", methods=["GET", "POST", "DELETE"])
        def unopened(request: Request) -> Response:
            raise request.scope.get("unopened") or HTTPException(404)

        return app

    def _listed(self, request: Request) -> list[Facts]:
        """The stores that the sender may open, with their sizes and last runs."""
        sender = request.scope["sender"]
        return [
            {"name": name, "at": quote(name, safe=""), **_summary(path)}
            for name, path in paths_of(self._folder).items()
            if sender.opens(name)
        ]


def _summary(path: str) -> Facts:
    """A store at a glance, or why it cannot be read."""
    try:
        with Database(path, verify=False) as database:
            store = Store(database)
            store.require_made()
            sizes = {"fragments": store.n_fragments, "entities": store.n_entities}
            return {**sizes, "run": store.last_run}
    except KBForgeError as error:
        return {"error": sentence_of(error, path)}


def _translated(inside: Scope, send: Send) -> Send:
    """Send answers with addresses of the store as those of the server."""
    host = Headers(scope=inside).get("host", "")

    async def translated(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            to = urlsplit(headers.get("location", ""))
            if to.netloc in ("", host) and to.path.startswith("/"):
                path = quote(inside["root_path"]) + to.path
                headers["location"] = to._replace(path=path).geturl()
        await send(message)

    return translated
