"""Fixtures that write an input and check what the program makes of it."""

import os
from functools import partial
from pathlib import Path

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"  # before `datasets` is imported

from tests.sources.harness import check_bad_record, check_refused


@pytest.fixture
def written(tmp_path):
    """written(content, name="in.csv") -> a file of the content; None leaves what is there."""

    def write(content: bytes | str | None, name: str = "in.csv") -> Path:
        if content is not None:
            (tmp_path / name).write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path / name

    return write


@pytest.fixture
def bad_record(program):
    """`check_bad_record` with the program."""
    return partial(check_bad_record, program)


@pytest.fixture
def refused(program):
    """`check_refused` with the program."""
    return partial(check_refused, program)
