"""Fixtures that write an input and check what the program makes of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.program import Run
from tests.sources.harness import check_bad_record, check_refused


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """written(content, name="in.csv") -> a file of the content; None leaves what is there."""

    def write(content: bytes | str | None, name: str = "in.csv") -> Path:
        if content is not None:
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


@pytest.fixture
def bad_record(program: Run) -> Callable[..., None]:
    """`check_bad_record` with the program."""
    return partial(check_bad_record, program)


@pytest.fixture
def refused(program: Run) -> Callable[..., None]:
    """`check_refused` with the program."""
    return partial(check_refused, program)
