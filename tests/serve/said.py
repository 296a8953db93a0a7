"""What functions and objects of the server answer, as the plain objects that their doors send."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from kbforge_serve.answers import plain


class Said:
    """A module or an object whose functions answer with plain objects, and futures at once."""

    def __init__(self, of: Any) -> None:
        self._of = of

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)

        def asked(*given: Any, **named: Any) -> Any:
            answer = found(*given, **named)
            return plain(answer.result() if isinstance(answer, Future) else answer)

        return asked if callable(found) else found
