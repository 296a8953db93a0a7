"""What a stranger's plugin raises while it runs: one sentence with its name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.registry.distributions import Distribution, kbforge

SOURCE = """
import sys
from kbforge.contracts import Fragment, Source
from kbforge.errors import KBForgeError

class Odd(Source):
    def read(self, inputs, on_bad):
        yield Fragment("a", {{"name": ("A",)}})
        {statement}
"""
WHERE = 'the source "odd" of kb-odd 1.0 failed at kb_odd.py:9: '


def odd(folder: Path, statement: str) -> Path:
    Distribution(
        name="kb-odd",
        entry_points={"kbforge.sources": {"odd": "kb_odd:Odd"}},
        modules={"kb_odd": SOURCE.format(statement=statement)},
    ).write(folder)
    return folder


@pytest.mark.parametrize(
    ("statement", "sentence"),
    [
        ("1 / 0", WHERE + "ZeroDivisionError: division by zero"),
        ("raise ValueError('\\x1b[31mred\\n')", WHERE + "ValueError: \\x1b[31mred\\n"),
        ("sys.exit(0)", WHERE + "SystemExit: 0"),
        ("raise KeyboardInterrupt", WHERE + "KeyboardInterrupt"),
        ("import json; json.loads('{')", WHERE + "JSONDecodeError: "),
        ("open('/no/such')", WHERE + "FileNotFoundError: "),
        ("raise KBForgeError('it \\x1b[2J says')", "it \\x1b[2J says"),
    ],
)
def test_it_is_one_sentence(tmp_path: Path, statement: str, sentence: str) -> None:
    output = tmp_path / "out.jsonl"
    ran = kbforge("load", "odd", "x", "-o", str(output), path=odd(tmp_path / "path", statement))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert not output.exists()


def test_in_a_pipeline_too(tmp_path: Path) -> None:
    pipeline = tmp_path / "p.toml"
    pipeline.write_text(
        '[[step]]\nverb = "load"\nargs = ["odd", "x"]\n[step.options]\noutput = "o.jsonl"\n'
    )
    ran = kbforge("run", str(pipeline), path=odd(tmp_path / "path", "sys.exit(0)"))
    assert ran.code == 1
    said = ran.err.splitlines()[-1]
    assert said == f'kbforge: {pipeline}: step "load": {WHERE}SystemExit: 0'


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a child process")
def test_a_users_ctrl_c_in_a_plugin_is_an_interruption(tmp_path: Path) -> None:
    started = tmp_path / "started"
    statement = f"import time; open({str(started)!r}, 'w').close(); time.sleep(60)"
    path = odd(tmp_path / "path", statement)
    command = [sys.executable, "-m", "kbforge.cli.main", "load", "odd", "x"]
    with subprocess.Popen(
        command, env=os.environ | {"PYTHONPATH": str(path)}, stderr=subprocess.PIPE
    ) as running:
        while not started.exists():
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGINT)
        _, err = running.communicate(timeout=300)
    assert (running.returncode, err) == (130, b"kbforge: interrupted\n")
