"""Programs that answer the questions of a review: language models, rules, crowds.

docs/answerers.md is the protocol. The program runs without a shell, and its group of processes ends
with the review. KBForge itself uses no network.
"""

from __future__ import annotations

import contextlib
import math
import os
import shlex
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import orjson

from kbforge.contracts import Fragment
from kbforge.errors import AnswererError, BadRecord, UsageError, lasting, option, quoted
from kbforge.files.answers import name_of, record_of, same_of
from kbforge.files.fragments import parse_json
from kbforge.fit.review import without_label

VERSION = 1
"""Of the protocol: it grows when programs must change."""
LONGEST_WAIT = 120.0
"""Seconds that an answer may take."""
LONGEST_LINE = 1 << 20
"""Bytes of an answer."""
_LONGEST_NAME = 100  # of a person in a crowd
_LAST_WAIT = 2.0  # seconds in which the program may end by itself


class Answerer:
    """A running program that answers questions, for `seconds` from the first on."""

    def __init__(self, process: subprocess.Popen[bytes], name: str, seconds: float | None) -> None:
        self.name = name
        self._process, self._asked = process, 0
        self._exchanging = threading.Thread()
        self._seconds = math.inf if seconds is None else seconds
        self._end: float | None = None

    def ask(self, a: Fragment, b: Fragment) -> tuple[bool | None, str] | None:
        """Whether two fragments are one entity (None: unknown), and who says so.

        None if the seconds are over. AnswererError: the program broke the protocol.
        """
        self._end = self._end or time.monotonic() + self._seconds
        left = self._end - time.monotonic()
        if left <= 0:
            return None
        self._asked += 1
        fields = {"a": without_label(a), "b": without_label(b)}
        question = {"version": VERSION, "question": self._asked, **fields}
        line = self._exchange(
            orjson.dumps(question, option=orjson.OPT_APPEND_NEWLINE), min(left, LONGEST_WAIT)
        )
        if line is None and left < LONGEST_WAIT:
            return None
        return self._read(line)

    def _exchange(self, question: bytes, seconds: float) -> bytes | None:
        """The line that answers a line, at most a byte too long; None after so many seconds."""
        answer = b""
        waiting = threading.Lock()  # a wait for it is in this frame, which a signal may end
        waiting.acquire()

        def exchange() -> None:
            nonlocal answer
            stdin, stdout = self._process.stdin, self._process.stdout
            assert stdin is not None
            assert stdout is not None
            with contextlib.suppress(OSError, ValueError):
                stdin.write(question)
                stdin.flush()
                answer = stdout.readline(LONGEST_LINE + 1)
            waiting.release()

        self._exchanging = threading.Thread(target=exchange, daemon=True)
        self._exchanging.start()
        return answer if waiting.acquire(timeout=seconds) else None

    def _read(self, line: bytes | None) -> tuple[bool | None, str]:
        where = f"{self.name}, question {self._asked}"
        expected = "a line of JSON with question and same"
        if line is None:
            raise AnswererError(f"{where}: expected {expected} within {lasting(LONGEST_WAIT)}")
        if len(line) > LONGEST_LINE:
            got = f"{LONGEST_LINE:,} bytes without a newline"
            raise AnswererError(f"{where}: expected {expected}, got {got}")
        if not line.endswith(b"\n"):
            raise AnswererError(f"{where}: expected {expected}, but the program {self._ended()}")
        try:
            record = record_of(parse_json(line, where), where, expected)
            record.only("question", "same", "by")
            if (number := record.count("question")) != self._asked:
                raise record.wrong("question", str(self._asked), str(number))
            by = f"{self.name}:{name_of(record, _LONGEST_NAME)}" if "by" in record else self.name
            return same_of(record), by
        except BadRecord as error:
            raise AnswererError(str(error)) from None

    def _ended(self) -> str:
        """How the program ended, in words."""
        try:
            code = self._process.wait(_LAST_WAIT)
        except subprocess.TimeoutExpired:
            return "closed its output"
        if code < 0:
            return f"was ended by signal {-code}"
        return f"ended with exit code {code}"

    def close(self) -> None:
        """End the program: it reads the end of its input, and is killed if it goes on."""
        process, busy = self._process, self._exchanging
        if not busy.is_alive():  # otherwise closing would wait for it
            with contextlib.suppress(subprocess.TimeoutExpired, OSError):
                assert process.stdin is not None
                process.stdin.close()
                process.wait(_LAST_WAIT)
        if process.poll() is None:
            with contextlib.suppress(AttributeError, OSError):  # a system without groups
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()
        process.wait()
        if busy.ident is not None:
            busy.join(_LAST_WAIT)
        if not busy.is_alive() and process.stdout is not None:
            process.stdout.close()


@contextlib.contextmanager
def answering(command: str, seconds: float | None) -> Iterator[Answerer]:
    """Start a program, which ends with the block. A UsageError if it cannot be started."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        reason = str(error).lower()
        raise UsageError(f"{option('answerer', quoted(command))}: {reason}") from None
    if not words:
        raise UsageError(f"{option('answerer')}: expected a command, got nothing")
    script = next((word for word in words[1:2] if os.path.isfile(word)), words[0])
    try:
        process = subprocess.Popen(  # its own session: Ctrl-C ends it here, not by itself
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        raise UsageError(f"{option('answerer')}: cannot run {quoted(words[0])}: {reason}") from None
    answerer = Answerer(process, quoted(Path(script).name, _LONGEST_NAME // 2), seconds)
    try:
        yield answerer
    finally:
        answerer.close()
