"""Tokens: the names, secrets and rights of those who may send requests."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from kbforge.errors import UsageError, quoted
from kbforge.files.io import read_small
from kbforge.files.records import parse_toml

LEAST = 16  # characters: it cannot be guessed, however often somebody tries
_MOST_FILE = 1 << 20  # bytes of a file of tokens


class Right(IntEnum):
    """What a token allows; each right includes those before it."""

    READ = 1
    ANSWER = 2  # answer questions, decide, undo
    WRITE = 3  # add fragments
    ADMINISTER = 4  # everything


@dataclass(frozen=True, slots=True)
class Token:
    """Who sends a request.

    Raises:
        UsageError: the secret is short, or no header can carry it.

    """

    # a secret that requests must carry; None stands for all programs on this machine
    secret: str | None = None
    right: Right = Right.ADMINISTER
    name: str | None = None  # in the audit; None is the user who started the server
    stores: Collection[str] | None = None  # the names of those that it opens; None is all

    def __post_init__(self) -> None:
        secret = self.secret
        if secret is not None and (
            len(secret) < LEAST or not secret.isascii() or " " in secret or not secret.isprintable()
        ):
            whose = "--token" if self.name is None else f"the token of {quoted(self.name)}"
            raise UsageError(
                f"{whose}: expected {LEAST} characters of ASCII or more, without spaces; for "
                f"example {secrets.token_urlsafe(24)}"
            )

    def opens(self, store: str) -> bool:
        """Whether it opens the store with this name."""
        return self.stores is None or store in self.stores

    @property
    def cookie(self) -> str:
        """The cookie of a signed-in user; the secret cannot be derived from it."""
        key = (self.secret or "").encode()
        return hmac.new(key, b"cookie of kbforge serve", hashlib.sha256).hexdigest()


_RIGHTS = {
    "/sign-in": Right.READ,
    "/reconcile": Right.READ,
    "/api/match": Right.READ,
    "/api/acts": Right.ANSWER,
    "/api/decisions": Right.ANSWER,
    "/api/review": Right.ANSWER,
    "/acts": Right.ANSWER,
    "/review": Right.ANSWER,
    "/decisions": Right.ANSWER,
    "/api/fragments": Right.WRITE,
    "/api/import": Right.WRITE,
    "/import": Right.WRITE,
}
"""The right that a request with a body needs, by the start of its path; others need all rights."""


def needed(method: str, path: str) -> Right:
    """The right that a request needs."""
    if method in ("GET", "HEAD", "OPTIONS"):
        return Right.READ
    if method == "DELETE":
        return Right.ADMINISTER
    found = [
        right for start, right in _RIGHTS.items() if path == start or path.startswith(f"{start}/")
    ]
    return found[0] if found else Right.ADMINISTER


def read_tokens(path: str) -> list[Token]:
    """The tokens of a TOML file: a table for each name, with its token and right.

    Raises:
        UsageError: the file is not of this form, two tokens are equal, or one is too short.

    """
    content = read_small(path, "a file of tokens", _MOST_FILE)
    tables = parse_toml(content, quoted(path, 400))
    tokens = [_token_of(path, name, table) for name, table in tables.items()]
    if not tokens:
        raise UsageError(f"{quoted(path, 400)}: expected a table for each name, got nothing")
    if len({token.secret for token in tokens}) < len(tokens):
        raise UsageError(f"{quoted(path, 400)}: two names have the same token")
    return tokens


def _token_of(path: str, name: str, table: Any) -> Token:
    where = f"{quoted(path, 400)}: [{quoted(name)}]"
    if not isinstance(table, Mapping) or table.keys() - {"stores"} != {"token", "right"}:
        raise UsageError(f"{where}: expected a table with token and right, and perhaps stores")
    rights = {right.name.lower(): right for right in Right}
    right, secret = rights.get(str(table["right"])), table["token"]
    if right is None:
        raise UsageError(f"{where}: expected right = {' or '.join(rights)}")
    if not isinstance(secret, str):
        raise UsageError(f"{where}: expected the token as a text")
    stores = table.get("stores")
    if "stores" in table and not (
        isinstance(stores, list) and all(isinstance(store, str) for store in stores)
    ):
        raise UsageError(f"{where}: expected stores as a list of names")
    return Token(secret, right, name, stores)
