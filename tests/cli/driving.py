"""Answering what the program asks: line by line, and at a terminal."""

from __future__ import annotations

import json
import os
import select
import sys
from collections.abc import Callable, Mapping
from typing import Any

PROGRAM = (sys.executable, "-m", "kbforge.cli.main")
YES, NO, SKIP = ({"same": same} for same in (True, False, None))
UNDO, QUIT = {"undo": True}, {"quit": True}


def lines(*said: Mapping[str, Any]) -> bytes:
    return b"".join(json.dumps(one).encode() + b"\n" for one in said)


class Terminal:
    """The program at a terminal of its own."""

    def __init__(self, *arguments: object, prepare: Callable[[], object] | None = None) -> None:
        import pty

        self.pid, self._terminal = pty.fork()
        if self.pid == 0:
            if prepare is not None:
                prepare()
            os.environ |= {"COLUMNS": "100", "TERM": "xterm", "NO_COLOR": "1"}
            os.execv(sys.executable, [*PROGRAM, *map(str, arguments)])
        self.said = ""

    def wait_for(self, text: str) -> None:
        """Read until the program has said something new with the text in it."""
        begin = len(self.said)
        while text not in self.said[begin:]:
            self.said += self._read()

    def _read(self) -> str:
        ready, _, _ = select.select([self._terminal], [], [], 300)
        assert ready, f"it waits, and has said: {self.said}"
        return os.read(self._terminal, 4096).decode()

    def type(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def interrupt(self) -> None:
        """Type Ctrl-C until the program says something.

        A signal between a prompt and the read behind it only sets a flag in CPython:
        the program sees it at the next signal or line.
        """
        begin = len(self.said)
        for _ in range(60):
            self.type("\x03")
            while select.select([self._terminal], [], [], 2)[0]:
                self.said += self._read()
                if self.said[begin:].replace("^C", "").strip():
                    return
        raise AssertionError(f"it is deaf to Ctrl-C, and has said: {self.said}")

    def end(self) -> int:
        """Read to the end; returns the exit code."""
        while True:
            try:
                part = self._read()
            except OSError:  # the terminal is gone with the process
                break
            if not part:
                break
            self.said += part
        os.close(self._terminal)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
