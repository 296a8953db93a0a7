"""Running the real program in this process.

A command that fails must not go unnoticed: two failures have equal outputs. So a test fails if a
command of it ended with another exit code than 0 and the test did not look at `code`.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from typing import Any

import pytest

from kbforge.cli.main import main


class Ran:
    """How a command ended."""

    def __init__(self, arguments: tuple[object, ...], code: int, out: bytes, err: str) -> None:
        self.out = out
        self.err = err
        self._arguments = arguments
        self._code = code
        self._noticed = code == 0

    @property
    def code(self) -> int:
        """The exit code; whoever asks has noticed a failure."""
        self._noticed = True
        return self._code

    def require_noticed(self) -> None:
        """Fail if the command failed and nobody has noticed."""
        command = " ".join(map(str, self._arguments))
        assert self._noticed, f"exit code {self._code} of: kbforge {command}\n{self.err}"

    def require_refusal(self, sentence: str, *codes: int) -> None:
        """Fail unless it said one line with this in it, and had one of the codes, or any but 0.

        Notes on what was read before are no part of the refusal.
        """
        assert self.code in codes if codes else self.code != 0, self.err
        (said,) = (
            line for line in self.err.splitlines(keepends=True) if not line.startswith("note: ")
        )
        assert sentence in said

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def ids(self) -> list[str]:
        return [line["id"] for line in self.lines]


Run = Callable[..., Ran]


@pytest.fixture
def program(monkeypatch, capsysbinary):
    """program(*arguments, stdin=b"") through the program's entry point."""
    last: list[Ran] = []

    def require_noticed() -> None:
        while last:
            last.pop().require_noticed()

    def run(*arguments: object, stdin: bytes = b"") -> Ran:
        require_noticed()
        monkeypatch.setattr(sys, "argv", ["kbforge", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        capsysbinary.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = capsysbinary.readouterr()
        assert b"Traceback" not in err
        last.append(Ran(arguments, int(ended.value.code or 0), out, err.decode()))
        return last[0]

    yield run
    require_noticed()
