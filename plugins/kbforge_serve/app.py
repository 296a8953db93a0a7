"""The web application: combines pages, API, reconciliation and MCP behind one guard.

Each interface is a module with `router(service)`. Handlers are plain functions, each run in a
thread; those that wait for other events are coroutines.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import threading
from collections.abc import AsyncIterator

from anyio import to_thread
from fastapi import Depends, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException
from starlette.responses import Response

from kbforge.errors import KBForgeError
from kbforge.version import __version__
from kbforge_serve import api, frame, pages, reconcile, security
from kbforge_serve.failures import UNEXPECTED, answer_to, failure, mistake_in
from kbforge_serve.metrics import Metrics
from kbforge_serve.security import Access, Guard
from kbforge_serve.service import Service

THREADS = 3
"""Maximum concurrent handlers. With eight of them Python's lock changes threads at each SQLite
query: that costs half as much again, and doubles the longest times."""


def application(service: Service, access: Access | None = None) -> Guard:
    """The application that serves a store; it closes the service at the end.

    Without `access`, programs on this machine have access.
    """
    access = Access() if access is None else access

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        threading.Thread(target=service.readers.warm, daemon=True).start()
        handlers, loop = to_thread.current_default_thread_limiter(), asyncio.get_running_loop()
        handlers.total_tokens = THREADS
        # Python's lock goes round: the fewer read meanwhile, the sooner it is written
        service.writer.on_turn = lambda writes: loop.call_soon_threadsafe(
            setattr, handlers, "total_tokens", 1 if writes else THREADS
        )
        yield
        service.close()

    app = FastAPI(
        title="KBForge",
        version=__version__,
        description=inspect.getdoc(api) or "",
        lifespan=lifespan,
        openapi_url="/api/openapi.json",
        docs_url=None,  # their pages load scripts from elsewhere
        redoc_url=None,
    )
    say_errors(app, service.readers.path)
    metrics = Metrics(service)
    app.include_router(frame.router())
    app.include_router(metrics.router())
    app.include_router(security.router(access))
    app.include_router(pages.router(service))
    app.include_router(reconcile.router(service, access))
    # the guard asks for the token; the document says how to send it
    sent = [] if not access.is_closed else [Depends(HTTPBearer(auto_error=False))]
    app.include_router(api.router(service), dependencies=sent)
    described = app.openapi
    app.openapi = lambda: api.complete(described())  # type: ignore[method-assign]
    # outermost, so that no answer goes around it
    return Guard(app, access, on_answer=metrics.answered)


def say_errors(app: FastAPI, store: str) -> None:
    """Answer every error with a message, in one format."""

    @app.exception_handler(KBForgeError)
    async def in_words(request: Request, error: KBForgeError) -> Response:
        return answer_to(request, error, store)

    @app.exception_handler(HTTPException)
    async def refused(request: Request, error: HTTPException) -> Response:
        said = {
            404: "there is nothing at this address",
            405: "this address needs a different method",
        }
        sentence = said.get(error.status_code, str(error.detail))
        return failure(request, error.status_code, sentence, error.headers)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return failure(request, 422, mistake_in(error.errors()))

    @app.exception_handler(Exception)
    async def unexpected(request: Request, error: Exception) -> Response:
        return failure(request, 500, UNEXPECTED)
