"""An address at which no Ray answers is one sentence, soon, and not a wait."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from kbforge.errors import KBForgeError
from kbforge_plugins.executors.ray import Ray
from kbforge_plugins.executors.reaching import require_answer
from tests.people import write_people
from tests.program import Run

needs_ray = pytest.mark.skipif(
    find_spec("ray") is None, reason="ray is not installed: kbforge[ray]"
)


@pytest.fixture
def silent() -> Iterator[str]:
    """An address where somebody accepts and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """An address where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    return f"127.0.0.1:{port}"


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_a_closed_port_is_refused_at_once(closed: str, scheme: str) -> None:
    with pytest.raises(KBForgeError, match=r"no Ray cluster answers at .*refused"):
        require_answer(scheme + closed, 1e6)


@needs_ray
def test_a_port_that_never_answers_is_given_up(silent: str) -> None:
    with pytest.raises(KBForgeError, match=r"no Ray cluster answers at .*within 4 s"):
        Ray(address=silent, patience=4).start(object, 1)  # type: ignore[arg-type]


@needs_ray
@pytest.mark.parametrize("address", ["nowhere:port", "ray://", "no-such-scheme://a:1"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(KBForgeError, match="no Ray cluster answers at "):
        Ray(address=address, patience=20).start(object, 1)  # type: ignore[arg-type]


@needs_ray
def test_the_program_says_it_in_one_sentence(tmp_path: Path, program: Run, silent: str) -> None:
    records = write_people(tmp_path / "people.jsonl", 10)
    job = ["cluster", str(records), "--likelihood", "attributes", "--alpha", "30"]
    ray = ["--executor", "ray", "--address", silent, "--set", "executor.patience=2"]
    done = program(*job, *ray, "-o", str(tmp_path / "kb.jsonl"))
    assert done.code != 0
    assert done.err.count("no Ray cluster answers at") == 1
    assert "Traceback" not in done.err
    assert not (tmp_path / "kb.jsonl").exists()
