"""Workers as actors of Ray, on this machine or on a cluster.

Ray does not restart a lost actor, because the sender of its orders knows what to send again. Orders
reach an actor in the order of sending, and a parcel goes from actor to actor.

`ray.init` waits for minutes where nobody answers, and forever where somebody listens and is silent,
and cannot be interrupted. So a separate process, which can be, tries the address first.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from kbforge.contracts.executor import Crew, Executor, Worker, WorkerLost
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.registry import install_command

_TRY = """
import sys
import ray
ray.init(address=sys.argv[1], log_to_driver=False, logging_level="ERROR")
"""


def require_answer(address: str, seconds: float) -> None:
    """Refuse an address, as `ray.init` takes it, where no cluster answers within some seconds."""
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
    """The error where no cluster answers."""
    return KBForgeError(
        f"no Ray cluster answers at {quoted(address)} ({quoted(why, 200)}); ray status --address "
        "ADDRESS shows which one does"
    )


def _require_listener(address: str, seconds: float) -> None:
    """Refuse an address with a port where nobody listens, at once."""
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


_STORE = 1 << 28
"""Bytes for objects on their way, where Ray is started here."""
_PLACE = 120.0
"""Seconds to wait for a place on a cluster."""
_STARTS = 5
"""How often a worker is started that is lost as it starts."""


class Ray(Executor):
    """Workers as actors of Ray, on this machine or on a cluster.

    Args:
        address: address of a cluster, such as ray://head:10001, or auto for the cluster of this
            machine; by default Ray is started on this machine for the run.
        cpus: cores per worker.
        gpus: GPUs per worker; it may be a fraction.
        patience: seconds to wait for an answer from the cluster.

    Raises:
        UsageError: a number below 0.

    """

    def __init__(
        self,
        address: str | None = None,
        cpus: float = 1,
        gpus: float = 0,
        patience: float = 30,
    ) -> None:
        for name, number in (("cpus", cpus), ("gpus", gpus), ("patience", patience)):
            if not 0 <= number < float("inf"):
                raise UsageError(f"executor ray: {name}: expected a number from 0, got {number}")
        self._address, self._cpus, self._gpus = address, cpus, gpus
        self._patience = patience

    def start(self, make: Callable[[], Worker], workers: int | None = None) -> Crew:
        ray = _ray()
        if ray.is_initialized():
            ours = False
        else:
            ours = True
            self._connect(ray, workers)
        _silence()
        try:
            places = int(ray.cluster_resources().get("CPU", 1) // max(self._cpus, 1))
            return _Crew(
                ray,
                make,
                workers or max(places, 1),
                {"num_cpus": self._cpus, "num_gpus": self._gpus},
                ours,
            )
        except BaseException:
            if ours:
                ray.shutdown()
            raise

    def _connect(self, ray: Any, workers: int | None) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        # send no usage statistics
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        # a lost worker is reported where its answer is asked for, not also on the screen
        os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
        if self._address is not None:
            require_answer(self._address, self._patience)
            try:
                ray.init(address=self._address, **quiet)
            except (Exception, SystemExit) as error:  # it may be anything, from anywhere
                raise no_answer(self._address, f"{type(error).__name__}: {error}") from error
            return
        cores = max(1, round((workers or os.cpu_count() or 1) * self._cpus))
        ray.init(
            address="local",
            num_cpus=cores,
            object_store_memory=_STORE,
            include_dashboard=False,
            **quiet,
        )


class _Receipt(NamedTuple):
    """An order: references to the answer and to the parcel."""

    answer: Any
    parcel: Any


class _Crew(Crew):
    def __init__(
        self,
        ray: Any,
        make: Callable[[], Worker],
        workers: int,
        needs: dict[str, float],
        ours: bool,
    ) -> None:
        self._ray, self._needs, self._ours = ray, needs, ours
        try:
            self._make = ray.put(make)
        except Exception as error:  # pickling raises whatever an object's own methods do
            said = quoted(f"{type(error).__name__}: {error}", 200)
            raise KBForgeError(f"the models cannot be sent to other processes: {said}") from error
        self._actors = [self._started() for _ in range(workers)]

    def __len__(self) -> int:
        return len(self._actors)

    def send(self, worker: int, order: Any, parcels: Sequence[Any] = ()) -> _Receipt:
        given = [parcel.parcel if isinstance(parcel, _Receipt) else parcel for parcel in parcels]
        do = self._actors[worker].do.options(num_returns=2)
        return _Receipt(*do.remote(order, *given))

    def wait(self, sent: Any) -> tuple[Any, Any]:
        try:
            answer, parcel = self._ray.get([sent.answer, sent.parcel])
        except self._ray.exceptions.RayError as error:
            raise WorkerLost("a worker was lost, or what it was to get was") from error
        if isinstance(answer, _Failure):
            raise answer.error or WorkerLost("what a worker was to get never came")
        return answer, parcel

    def lost(self) -> Sequence[int]:
        return [worker for worker, actor in enumerate(self._actors) if not self._is_there(actor)]

    def replace(self, worker: int) -> None:
        self._actors[worker] = self._started()

    def close(self) -> None:
        for actor in self._actors:
            with contextlib.suppress(Exception):  # it may be gone, and so may the cluster
                self._ray.kill(actor)
        if self._ours:
            self._ray.shutdown()

    def _started(self) -> Any:
        """A new actor; one that is lost while it starts is started again."""
        for _ in range(_STARTS):
            try:
                return self._one_started()
            except self._ray.exceptions.RayActorError as error:
                lost = error
        said = quoted(str(lost).strip().splitlines()[-1], 200)
        raise KBForgeError(
            f"a worker was lost {_STARTS} times while it started ({said}); check Ray's logs and "
            "the free memory"
        ) from lost

    def _one_started(self) -> Any:
        ray = self._ray
        kind = ray.remote(max_restarts=0, max_task_retries=0, **self._needs)(_Place)
        actor = kind.remote(self._make)
        try:
            ray.get(actor.process_id.remote(), timeout=_PLACE)
        except ray.exceptions.GetTimeoutError as error:
            ray.kill(actor)
            raise KBForgeError(
                f"Ray has no place for a worker with {self._needs['num_cpus']:g} cores and "
                f"{self._needs['num_gpus']:g} GPUs; use fewer --workers, or a larger cluster"
            ) from error
        except ray.exceptions.RayTaskError as error:
            raise (error.cause or error) from error
        return actor

    def _is_there(self, actor: Any) -> bool:
        try:
            self._ray.get(actor.process_id.remote())
        except self._ray.exceptions.RayError:
            return False
        return True


class _Failure(NamedTuple):
    """Instead of an answer and a parcel, what a worker raised; None if it was not asked."""

    error: Exception | None


class _Place:
    """The class of Ray's actors."""

    def __init__(self, make: Callable[[], Worker]) -> None:
        self._worker = make()

    def process_id(self) -> int:
        return os.getpid()

    def do(self, order: Any, *parcels: Any) -> tuple[Any, Any]:
        if any(isinstance(parcel, _Failure) for parcel in parcels):
            return _Failure(None), _Failure(None)
        try:
            return self._worker.do(order, parcels)
        except Exception as error:  # it is raised again where the answer is asked for
            return _Failure(error), _Failure(None)


def _silence() -> None:
    """Stop Ray's messages about lost workers on standard output; nothing public does that."""
    from ray._private import worker

    worker._worker_logs_enabled = False


def _ray() -> Any:
    try:
        import ray
    except ImportError as error:
        raise UsageError(
            "the executor ray needs the library ray, which is not installed: "
            f"{install_command('ray')}"
        ) from error
    return ray
