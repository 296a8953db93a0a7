"""The `kbforge` program; it handles Ctrl-C before it loads anything.

Loading takes a moment in which there is nothing to clean up: a signal ends the program at once.
`kbforge.cli.main` handles signals from then on.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import signal
import sys
import threading
from typing import NoReturn

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


def main() -> None:
    """Load the program, run it and exit; `kbforge.cli.main.main` lists the exit codes."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        # what the program was started to ignore, as nohup does with SIGHUP, stays ignored
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _end)
    gc.set_threshold(10_000)  # little of what is made is in cycles, and the rest is much
    from kbforge.cli.main import main as run
    from kbforge.interrupts import EXIT_CODES

    try:
        run()
    except SystemExit as ended:
        if isinstance(ended.code, int) and ended.code in EXIT_CODES:
            _end_interrupted(ended.code)
        raise


def _end_interrupted(code: int) -> NoReturn:
    """Exit without finalizing modules, because a half-loaded module can crash.

    Threads end first: the exit functions free the kernel's memory, which a thread may be using.
    """
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)


def _end(number: int, frame: object) -> None:
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    try:
        os.write(2, f"kbforge: interrupted{by}\n".encode())
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
