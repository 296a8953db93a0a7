"""The web application: the doors in one place, behind one guard."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI

from kbforge.serve.service import Service
from kbforge.version import __version__


def application(service: Service) -> FastAPI:
    """The application that serves a store; it closes the service at its end."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        service.close()

    return FastAPI(title="KBForge", version=__version__, lifespan=lifespan)
