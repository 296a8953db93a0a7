"""The `kbforge` program, which is ready for Ctrl-C before it loads anything.

Loading takes a moment, and in that moment there is nothing to tidy up: a signal ends the program
at once. `kbforge.cli.main` handles signals from then on.
"""

from __future__ import annotations

import os
import signal

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


def main() -> None:
    """Load the program, run it and exit; `kbforge.cli.main.main` lists the exit codes."""
    for name in _NAMES:
        number = getattr(signal, name, None)
        # what the program was started to ignore, as nohup does with SIGHUP, stays ignored
        if number is not None and signal.getsignal(number) not in (signal.SIG_IGN, None):
            signal.signal(number, _end)
    from kbforge.cli.main import main as run

    run()


def _end(number: int, frame: object) -> None:
    by = "" if number == signal.SIGINT else f" by {signal.Signals(number).name}"
    try:
        os.write(2, f"kbforge: interrupted{by}\n".encode())
    finally:
        os._exit(128 + number)


if __name__ == "__main__":
    main()
