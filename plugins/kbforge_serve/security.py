"""The guard of the server: who may send which request.

A page of another site, open in the user's browser, can send requests to this machine. So

- `Host` must name this machine while the server listens on loopback. A foreign name that resolves
  to 127.0.0.1 (DNS rebinding) is refused.
- Requests that write must come from the server's own pages, by `Sec-Fetch-Site` or `Origin`, or
  from a program, which sends neither. The pages' cookie is not sent along from elsewhere either.
- No page of another site reads an answer, except those of reconciliation, which pages of this
  machine read (OpenRefine's are), and pages of the origins that were allowed.
- A request has one length: `Content-Length` together with `Transfer-Encoding`, which a proxy may
  interpret differently, is refused.
- Any address other than loopback needs a token: programs send `Authorization: Bearer TOKEN`, users
  sign in once with a form and get a cookie, which is derived from the token. A token has rights and
  a name (`kbforge_serve.tokens`); the audit has the name. Without tokens, pages sign what a browser
  writes with the name in another cookie, which a form in their footer sets.
- Bodies are bounded in size and in time, and paths cannot leave the server.
- Every answer restricts what a browser may do with it. The pages need no inline script or style.

The guard is an ASGI middleware. It reads the whole body before it calls the application, so a slow
body costs little; a file that is sent, and answers, pass through as streams.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import parse_qs, quote, unquote, urlsplit

from fastapi import APIRouter
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from kbforge.errors import UsageError, quoted, spelled
from kbforge.store.audit import MOST_NAME, signed
from kbforge_serve.failures import as_parameter, failure, wants_page
from kbforge_serve.frame import page
from kbforge_serve.tokens import Token, needed

SIGN_IN = "/sign-in"
NAME = "/name"
"""Where people without a token say who they are."""
_NAMED = "kbforge-name"
_A_YEAR = 366 * 24 * 3600  # seconds that a browser keeps this cookie
HEALTH = "/healthz"
"""Whether the server answers: says nothing of the store, and needs no token."""
STATIC = "/static/"
"""The files in every copy of KBForge."""
READ_ONLY = "/reconcile"
"""Paths open to pages of other origins, because nothing there writes: reconciliation."""

MOST_BYTES = 1 << 20
"""Maximum size of a body, in bytes."""
MOST_BATCH = 16 << 20
"""Maximum size of a body of fragments, in bytes."""
MOST_FILE = 256 << 20
"""Maximum size of a body that is a file, in bytes; it is never held in memory."""
_BATCHES = ("/api/fragments", READ_ONLY)
_FILES = ("/api/import", "/import")
_SLOWEST = 60.0  # seconds for the whole body
_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST",
    "access-control-allow-headers": "authorization, content-type",
    "access-control-max-age": "600",
}
_CLOSE = {"Connection": "close"}
"""Headers of an answer to a request whose body is not read to its end."""
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.:\[\]-]+")
_LOOPBACK_SITES = (
    *("http://localhost:*", "https://localhost:*", "http://127.0.0.1:*", "https://127.0.0.1:*"),
)
"""The origins of this machine, for a Content-Security-Policy."""

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
"""Default headers of every answer."""


@dataclass(frozen=True, slots=True)
class Access:
    """The addresses from which the server can be reached, and by whom.

    Raises:
        UsageError: the address is open to others and there is no token, or an origin is invalid.

    """

    host: str = "127.0.0.1"  # the address that it listens on
    # those who may send requests; by default all programs on this machine
    tokens: Sequence[Token] = (Token(),)
    # of pages that may read `READ_ONLY`, such as "https://example.org", besides those of this
    # machine
    origins: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.is_closed and not self.is_loopback:
            raise UsageError(
                f"--host {quoted(self.host)} can be reached from other machines, and so needs a "
                f"token: set KBFORGE_TOKEN, for example to {secrets.token_urlsafe(24)}"
            )
        for origin in self.origins:
            if not _ORIGIN.fullmatch(origin):
                raise UsageError(
                    "--allow-origin: expected a scheme and a host in lower case, such as "
                    f"https://example.org, got {quoted(origin)}"
                )

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return _is_loopback(self.host)

    def is_reader(self, origin: str) -> bool:
        """Whether pages of an origin may read `READ_ONLY`."""
        scheme, _, host = origin.partition("://")
        own = scheme in ("http", "https") and _is_loopback(_name_of(host) or "")
        return own or origin in self.origins

    @property
    def sites(self) -> str:
        """These pages, in the form of a Content-Security-Policy."""
        return " ".join(("'self'", *_LOOPBACK_SITES, *self.origins))

    @property
    def is_closed(self) -> bool:
        """Whether requests need a token."""
        return all(token.secret is not None for token in self.tokens)

    def sender(self, headers: Headers, cookies: Mapping[str, str]) -> Token | None:
        """The token that a request proves to know, if any."""
        if not self.is_closed:
            return replace(self.tokens[0], name=_in_words(unquote(cookies.get(_NAMED, ""))) or None)
        scheme, _, given = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and (token := self.token_of(given.strip())):
            return token
        cookie = cookies.get(self.cookie_name, "")
        return next((one for one in self.tokens if _equal(cookie, one.cookie)), None)

    def token_of(self, given: str) -> Token | None:
        """The token with this secret, compared in constant time."""
        return next((one for one in self.tokens if one.secret and _equal(given, one.secret)), None)

    @property
    def cookie_name(self) -> str:
        """The name is specific to these tokens: cookies ignore ports, so servers share them."""
        of_all = "".join(token.cookie for token in self.tokens).encode()
        return f"kbforge-{hashlib.sha256(of_all).hexdigest()[:8]}"


def _in_words(name: str) -> str:
    """A name in one line, no longer than a name may be."""
    return " ".join("".join(c if c.isprintable() else " " for c in name).split())[:MOST_NAME]


def _equal(a: str, b: str) -> bool:
    return hmac.compare_digest(a.encode(), b.encode())


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass(eq=False)
class Guard:
    """Lets through what `Access` allows, and bounds bodies; see the module."""

    app: ASGIApp  # behind it
    access: Access
    # called with the scope, the status and the seconds of each answer
    on_answer: Callable[[Scope, int, float], None] = lambda *_: None
    silence: float = 10.0  # maximum seconds without a byte of a body
    most_held: int = 128 << 20  # maximum bytes of the bodies of all current requests
    held: int = 0  # bytes of these

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request; lifespan events pass, and there are no web sockets."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        asked = HTTPConnection(scope)
        exchange = _Exchange(self, asked, receive, send)
        sender = scope["sender"] = self.access.sender(asked.headers, asked.cookies)
        refused = self._refusal(asked, sender)
        if refused is not None:
            await refused(scope, receive, exchange.send)
            return
        try:
            refused = await exchange.read_body()
            with spelled(as_parameter), signed(None if sender is None else sender.name):
                await (refused or self.app)(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            pass  # nobody reads an answer
        finally:
            self.held -= len(exchange.body)

    def _refusal(self, asked: HTTPConnection, sender: Token | None) -> Response | None:
        """The answer to a request of this sender that is refused."""
        access, path = self.access, asked.scope["path"]
        if "content-length" in asked.headers and "transfer-encoding" in asked.headers:
            sentence = "expected Content-Length or Transfer-Encoding, got both"
            return failure(asked, 400, sentence, _CLOSE)
        host = _name_of(asked.headers.get("host", ""))
        is_ours = host is not None and (_is_loopback(host) or host == access.host.lower())
        if host is None or (access.is_loopback and not is_ours):
            sentence = "the Host header names another server; this one answers to localhost"
            return failure(asked, 421, sentence)
        if {"..", "."} & set(path.split("/")) or "\\" in path or "\0" in path:
            return failure(asked, 400, "the path has parts that lead elsewhere")
        if _is_foreign(asked) and (why_not := self._why_not(asked)):
            return failure(asked, 403, why_not)
        if asked.scope["method"] == "OPTIONS" and _is_read_only(path):
            return Response(status_code=204, headers=_PREFLIGHT)
        if not _is_open(path) and sender is None:
            if wants_page(asked) and asked.scope["method"] == "GET":
                asks = asked.scope["query_string"].decode("latin-1")
                back = quote(f"{path}?{asks}" if asks else path, safe="")
                return RedirectResponse(f"{SIGN_IN}?next={back}", 303)
            return _unknown(asked)
        right = needed(asked.scope["method"], path)
        if sender is not None and sender.right < right:
            sentence = f"this needs the right to {right.name.lower()}, which the token of "
            return failure(asked, 403, f"{sentence}{quoted(sender.name or 'a program')} lacks")
        length = asked.headers.get("content-length", "0")
        if not length.isdecimal() or len(length) > 18:
            return failure(asked, 400, "the Content-Length is not a number")
        if int(length) > _most_bytes(path):
            return failure(asked, 413, _too_large(path), _CLOSE)
        return None

    def _why_not(self, asked: HTTPConnection) -> str | None:
        """Why a page of another site may not send this request; None if it may."""
        method = asked.scope["method"]
        if not _is_read_only(asked.scope["path"]):
            return None if method in _SAFE else "a page of another site may not write here"
        # a link or a frame has no origin, and no page reads what it leads to
        origin = asked.headers.get("origin", "")
        if self.access.is_reader(origin) or ("origin" not in asked.headers and method in _SAFE):
            return None
        named = quoted(origin) or "another site"
        return f"pages of {named} may not read here; kbforge serve --allow-origin lets them"


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
    return origin is not None and origin.partition("://")[2] != asked.headers.get("host")


def _is_open(path: str) -> bool:
    """Whether a path needs no token."""
    return path in (SIGN_IN, HEALTH) or path.startswith(STATIC)


def _unknown(asked: HTTPConnection) -> Response:
    """The answer to a program whose token is missing or wrong."""
    scheme, _, given = asked.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and given.strip():
        needed = 'Bearer realm="kbforge", error="invalid_token"'
        sentence = "the token in the header Authorization is not that of this server"
    else:
        needed = 'Bearer realm="kbforge"'
        sentence = "expected the header Authorization: Bearer TOKEN"
    return failure(asked, 401, sentence, {"WWW-Authenticate": needed})


def _is_read_only(path: str) -> bool:
    return path == READ_ONLY or path.startswith(f"{READ_ONLY}/")


def _most_bytes(path: str) -> int:
    return MOST_FILE if path in _FILES else MOST_BATCH if path in _BATCHES else MOST_BYTES


def _too_large(path: str) -> str:
    return f"the body is larger than {_most_bytes(path):,} bytes; send less at a time"


class _Exchange:
    """A request and its answer: a body that is too large or too slow ends it."""

    def __init__(self, guard: Guard, asked: HTTPConnection, receive: Receive, send: Send) -> None:
        self._guard, self._asked, self._receive, self._send = guard, asked, receive, send
        self._began = time.perf_counter()
        self._is_read = self._passes = False  # and not yet given; or given as it comes
        self._size, self._end = 0, 0.0
        self.body = bytearray()

    async def send(self, message: Message) -> None:
        """Send a part of the answer, with headers that restrict the browser."""
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            took = time.perf_counter() - self._began
            headers["server-timing"] = f"answer;dur={1000 * took:.1f}"
            self._guard.on_answer(self._asked.scope, message["status"], took)
            always = dict(_HEADERS)
            if _is_read_only(self._asked.scope["path"]):
                always["vary"] = "Origin"
                origin = self._asked.headers.get("origin", "")
                if self._guard.access.is_reader(origin):
                    always["access-control-allow-origin"] = origin
            for name, value in always.items():
                headers.setdefault(name, value)
        await self._send(message)

    async def read_body(self) -> Response | None:
        """Read the body; returns the answer to one that is too large or too slow, otherwise None.

        Raises:
            ClientDisconnect: the client disconnected before its end.

        """
        headers, reads = self._asked.headers, self._asked.scope["method"] in _SAFE
        sent = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"
        self._is_read = more = sent and not reads  # a body says nothing there
        self._passes = more and self._asked.scope["path"] in _FILES
        self._end = asyncio.get_running_loop().time() + _SLOWEST
        while more and not self._passes:
            try:
                part, more = await self._part()
            except HTTPException as error:
                return failure(self._asked, error.status_code, error.detail, error.headers)
            self.body += part
            self._guard.held += len(part)
            if self._guard.held > self._guard.most_held:
                later = _CLOSE | {"Retry-After": "1"}
                return failure(self._asked, 503, "too much is sent at once", later)
        return None

    async def _part(self) -> tuple[bytes, bool]:
        """The next part of the body, and whether more follow.

        Raises HTTPException if it comes too slowly, or is too large.
        """
        now = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(min(now + self._guard.silence, self._end)):
                message = await self._receive()
        except TimeoutError:
            raise HTTPException(408, "the body came too slowly", _CLOSE) from None
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        part: bytes = message.get("body", b"")
        self._size += len(part)
        if self._size > _most_bytes(path := self._asked.scope["path"]):
            raise HTTPException(413, _too_large(path), _CLOSE)
        return part, message.get("more_body", False)

    async def receive(self) -> Message:
        """The body and then, once the client has disconnected, this event."""
        if not self._is_read:
            return await self._receive()
        part, self._is_read = await self._part() if self._passes else (bytes(self.body), False)
        return {"type": "http.request", "body": part, "more_body": self._is_read}


# --- signing in -----------------------------------------------------------------------------------


def router(access: Access) -> APIRouter:
    """The form where users sign in or, if there is no token, say their name."""
    routes = APIRouter(include_in_schema=False)
    if not access.is_closed:

        @routes.post(NAME)
        async def name(request: Request) -> Response:
            fields = parse_qs((await request.body()).decode(errors="replace"))
            answer = RedirectResponse(_own(fields.get("next", ["/"])[0]), 303)
            named = quote(_in_words(fields.get("name", [""])[0]))
            answer.set_cookie(_NAMED, named, _A_YEAR, httponly=True, samesite="strict")
            return answer

        return routes

    @routes.get(SIGN_IN)
    async def form(request: Request) -> Response:
        return page(request, "sign_in.html", wrong=False)

    @routes.post(SIGN_IN)
    async def sign_in(request: Request) -> Response:
        fields = parse_qs((await request.body()).decode(errors="replace"))
        token = access.token_of(fields.get("token", [""])[0].strip())
        if token is None:
            return page(request, "sign_in.html", status=401, wrong=True)
        answer = RedirectResponse(_own(request.query_params.get("next", "/")), 303)
        answer.set_cookie(access.cookie_name, token.cookie, httponly=True, samesite="strict")
        return answer

    return routes


def _own(path: str) -> str:
    """A path of this server, or its root: no form redirects elsewhere."""
    whole = urlsplit(path)
    own = path.startswith("/") and not whole.netloc and not path.startswith(("//", "/\\"))
    return path if own and path.isprintable() else "/"
