"""Who may ask the server what: the guard before all doors.

A page of a stranger, open in the user's browser, can send requests to this machine. So

- `Host` must name this machine while the server listens on loopback. A stranger's name that was
  bent to 127.0.0.1 (DNS rebinding) is refused.
- Requests that write must come from the server's own pages, by `Sec-Fetch-Site` or `Origin`, or
  from a program, which sends neither. The pages' cookie is not sent along from elsewhere either.
- Any other address than loopback needs a token: programs send `Authorization: Bearer TOKEN`, people
  sign in once with a form and get a cookie, which is derived from the token.
- Bodies are bounded in size and in time, and paths lead nowhere.
- Every answer says what a browser may do with it. The pages need no inline script or style.

The guard is an ASGI middleware that reads no body, so streams pass through.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbforge.errors import UsageError, quoted
from kbforge.serve.failures import failure, wants_page

if TYPE_CHECKING:
    from fastapi import APIRouter

SIGN_IN = "/sign-in"
STATIC = "/static/"
"""The files that every copy of KBForge has."""
READ_ONLY = "/reconcile"
"""Where any site may post, because nothing there writes: the questions of reconciliation."""

LEAST_TOKEN = 16  # characters: it cannot be guessed, however often somebody tries
MOST_BYTES = 1 << 20
"""Of a body."""
MOST_BATCH = 16 << 20
"""Of a body of fragments."""
_BATCHES = ("/api/fragments", READ_ONLY)
_SILENCE = 10.0  # seconds without a byte of the body
_SLOWEST = 60.0  # seconds for the whole body
MOST_AT_ONCE = 256
"""Requests that are being answered, those that wait for changes among them."""
_FOR_ANY_SITE = {
    "access-control-allow-origin": "*",
    "cross-origin-resource-policy": "cross-origin",
}
"""Of answers under `READ_ONLY`, refusals among them."""
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    # a form of our own pages has an Origin then, which no-referrer would withhold
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
"""Of every answer that does not say otherwise itself."""


@dataclass(frozen=True, slots=True)
class Access:
    """From where the server can be reached, and by whom.

    Attributes:
        host: the address that it listens on.
        token: what whoever asks must know; None lets all programs of this machine ask.

    Raises:
        UsageError: the address is open to others and there is no token, or the token is short.

    """

    host: str = "127.0.0.1"
    token: str | None = None

    def __post_init__(self) -> None:
        if self.token is None and not self.is_loopback:
            raise UsageError(
                f"--host {quoted(self.host)} can be reached from other machines, and so needs a "
                f"token: set KBFORGE_TOKEN, for example to {secrets.token_urlsafe(24)}"
            )
        if self.token is not None and (
            len(self.token) < LEAST_TOKEN or not self.token.isascii() or " " in self.token
        ):
            raise UsageError(
                f"--token: expected {LEAST_TOKEN} characters of ASCII or more, without spaces"
            )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return _is_loopback(self.host)

    @property
    def cookie(self) -> str:
        """The cookie of whoever has signed in; the token cannot be told from it."""
        key = (self.token or "").encode()
        return hmac.new(key, b"cookie of kbforge serve", hashlib.sha256).hexdigest()

    def knows(self, headers: Headers, cookies: Mapping[str, str]) -> bool:
        """Whether a request shows that it knows the token, if there is one."""
        if self.token is None:
            return True
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self.is_token(given.strip()):
            return True
        return _equal(cookies.get(self.cookie_name, ""), self.cookie)

    def is_token(self, given: str) -> bool:
        """Whether this is the token; the time it takes does not tell."""
        return self.token is not None and _equal(given, self.token)

    @property
    def cookie_name(self) -> str:
        """Of this store alone: cookies do not know ports, and so servers share them."""
        return f"kbforge-{self.cookie[:8]}"


def _equal(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(), b.encode())


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Guard:
    """Lets through what `Access` allows, and bounds bodies; see the module.

    Attributes:
        app: the application behind it.

    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self._access = app, access
        self._running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; the life of the application passes, and there are no web sockets."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        asked = HTTPConnection(scope)
        began = time.perf_counter()
        always = _FOR_ANY_SITE if _is_read_only(scope["path"]) else {}

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                took = 1000 * (time.perf_counter() - began)
                headers["server-timing"] = f"answer;dur={took:.1f}"
                for name, value in (_HEADERS | always).items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refusal(asked)
        if refused is not None:
            await refused(scope, receive, send_guarded)
            return
        self._running += 1
        try:
            await self.app(scope, _bounded(asked, receive), send_guarded)
        finally:
            self._running -= 1

    def _refusal(self, asked: HTTPConnection) -> Response | None:
        """The answer to a request that goes no further."""
        access, path = self._access, asked.scope["path"]
        host = _name_of(asked.headers.get("host", ""))
        if host is None or (access.is_loopback and not self._is_ours(host)):
            sentence = "the Host header names another server; this one answers to localhost"
            return failure(asked, 421, sentence)
        if {"..", "."} & set(path.split("/")) or "\\" in path or "\0" in path:
            return failure(asked, 400, "the path has parts that lead elsewhere")
        if asked.scope["method"] not in _SAFE and _is_foreign(asked) and not _is_read_only(path):
            return failure(asked, 403, "a page of another site may not write here")
        if asked.scope["method"] == "OPTIONS" and _is_read_only(path):
            return Response(status_code=204, headers=_PREFLIGHT)
        if not _is_open(path) and not access.knows(asked.headers, asked.cookies):
            if wants_page(asked) and asked.scope["method"] == "GET":
                asks = asked.scope["query_string"].decode("latin-1")
                back = quote(f"{path}?{asks}" if asks else path, safe="")
                return RedirectResponse(f"{SIGN_IN}?next={back}", 303)
            needed = {"WWW-Authenticate": 'Bearer realm="kbforge"'}
            return failure(asked, 401, "expected the header Authorization: Bearer TOKEN", needed)
        length = asked.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18:
            return failure(asked, 400, "the Content-Length is not a number")
        if int(length) > _most_bytes(path):
            return failure(asked, 413, _too_large(path), {"Connection": "close"})
        if self._running >= MOST_AT_ONCE:
            return failure(asked, 503, "too many requests at once", {"Retry-After": "1"})
        return None

    def _is_ours(self, host: str) -> bool:
        return _is_loopback(host) or host == self._access.host.lower()


def _name_of(host: str) -> str | None:
    """The name or address in a Host header, in lower case; None if it has none."""
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:
        return None


def _is_foreign(asked: HTTPConnection) -> bool:
    """Whether a browser sent this on behalf of another site's page."""
    fetched = asked.headers.get("sec-fetch-site")
    if fetched is not None:
        return fetched not in ("same-origin", "none")
    origin = asked.headers.get("origin")
    return origin is not None and urlsplit(origin).netloc != asked.headers.get("host")


def _is_open(path: str) -> bool:
    """Whether a path needs no token."""
    return path == SIGN_IN or path.startswith(STATIC)


def _is_read_only(path: str) -> bool:
    return path == READ_ONLY or path.startswith(f"{READ_ONLY}/")


def _most_bytes(path: str) -> int:
    return MOST_BATCH if path in _BATCHES else MOST_BYTES


def _too_large(path: str) -> str:
    return f"the body is larger than {_most_bytes(path):,} bytes; send less at a time"


def _bounded(asked: HTTPConnection, receive: Receive) -> Receive:
    """A `receive` that ends a body which is too large or too slow."""
    most = _most_bytes(asked.scope["path"])
    loop = asyncio.get_running_loop()
    read, ended, end = 0, False, loop.time() + _SLOWEST

    async def receive_bounded() -> Message:
        nonlocal read, ended
        if ended:  # what comes now says that the other side has gone, whenever it does
            return await receive()
        try:
            async with asyncio.timeout_at(min(loop.time() + _SILENCE, end)):
                message: Message = await receive()
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly", {"Connection": "close"}) from None
        read += len(message.get("body", b""))
        if read > most:
            sentence = _too_large(asked.scope["path"])
            raise HTTPException(413, sentence, {"Connection": "close"})
        ended = not message.get("more_body", False)
        return message

    return receive_bounded


# --- signing in -----------------------------------------------------------------------------------


def router(access: Access) -> APIRouter:
    """The form where people sign in; it exists only if there is a token."""
    from fastapi import APIRouter  # kbforge mcp has the guard, and not FastAPI

    from kbforge.serve.frame import page

    routes = APIRouter(include_in_schema=False)
    if access.token is None:
        return routes

    @routes.get(SIGN_IN)
    async def form(request: Request) -> Response:
        return page(request, "sign_in.html", wrong=False)

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode(errors="replace"))
        if not access.is_token(fields.get("token", [""])[0].strip()):
            return page(request, "sign_in.html", status=401, wrong=True)
        answer = RedirectResponse(_own(request.query_params.get("next", "/")), 303)
        answer.set_cookie(access.cookie_name, access.cookie, httponly=True, samesite="strict")
        return answer

    return routes


def _own(path: str) -> str:
    """A path of this server, or its start: no form leads elsewhere."""
    whole = urlsplit(path)
    own = path.startswith("/") and not whole.netloc and not path.startswith(("//", "/\\"))
    return path if own and path.isprintable() else "/"
