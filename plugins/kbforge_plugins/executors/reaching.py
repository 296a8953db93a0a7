"""Whether a Ray cluster answers at an address, within a time.

`ray.init` waits for minutes where nobody answers, for ever where somebody listens and says nothing,
and cannot be called off. So a process of its own tries it first, which can.
"""

from __future__ import annotations

import socket
import subprocess
import sys
from urllib.parse import urlsplit

from kbforge.errors import KBForgeError, quoted

_TRY = """
import sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
"""


def require_answer(address: str, seconds: float) -> None:
    """See that a cluster answers.

    Args:
        address: as `ray.init` takes it.
        seconds: in which it must.

    Raises:
        KBForgeError: it does not; the message has the address.

    """
    _require_listener(address, seconds)
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRY, address],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise no_answer(address, f"nothing came within {seconds:g} s") from error
    if tried.returncode:
        said = tried.stderr.decode(errors="replace").strip().splitlines()
        raise no_answer(address, said[-1] if said else "it does not say why")


def no_answer(address: str, why: str) -> KBForgeError:
    """What to say where no cluster answers."""
    return KBForgeError(
        f"no Ray cluster answers at {quoted(address)} ({quoted(why, 200)}); ray status --address "
        "ADDRESS shows which one does"
    )


def _require_listener(address: str, seconds: float) -> None:
    """Refuse an address with a port at which nobody listens, at once.

    Raises:
        KBForgeError: it is so.

    """
    try:
        place = urlsplit(address if "//" in address else f"//{address}")
        host, port = place.hostname, place.port
    except ValueError:
        return  # Ray says what is wrong with it
    if host is None or port is None:
        return
    try:
        socket.create_connection((host, port), timeout=max(seconds, 0.1)).close()
    except OSError as error:
        raise no_answer(address, error.strerror or str(error)) from error
