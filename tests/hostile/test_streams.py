"""Standard streams that are closed, and signals while modules are loaded."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.people import write_people

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals and streams of POSIX")
PROGRAM = [sys.executable, "-m", "kbforge"]


def run_without(streams: Iterable[int], *arguments: object) -> tuple[int, str, str]:
    def close() -> None:
        for stream in streams:
            os.close(stream)

    done = subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, preexec_fn=close, text=True
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def people(tmp_path):
    return write_people(tmp_path / "people.jsonl", 8)


def test_closed_standard_input_is_a_sentence(tmp_path):
    code, out, err = run_without([0], "cluster", "-", "-o", tmp_path / "kb.jsonl")
    assert (code, out, err) == (1, "", "kbforge: cannot read standard input: it is closed\n")


@pytest.mark.parametrize(
    "arguments", [("plugins", "list"), ("--help",), ("load", "jsonl", "people.jsonl")]
)
def test_closed_standard_output_is_a_sentence(people, arguments, monkeypatch):
    monkeypatch.chdir(people.parent)
    code, _, err = run_without([1], *arguments)
    assert (code, err) == (1, "kbforge: cannot write standard output: it is closed\n")


@pytest.mark.slow
def test_a_result_is_no_less_whole_where_nobody_hears_of_it(people, tmp_path):
    kb, usual = tmp_path / "kb.jsonl", tmp_path / "usual.jsonl"
    command = ("cluster", people, "--likelihood", "attributes", "-o")
    assert run_without([0, 1, 2], *command, kb)[0] == 0
    assert run_without([], *command, usual)[0] == 0
    assert kb.read_bytes() == usual.read_bytes()


def test_messages_do_not_go_to_standard_output(people):
    code, out, _ = run_without([2], "load", "jsonl", people)
    assert code == 0
    assert out
    assert all(line.startswith("{") for line in out.splitlines())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a system without /dev/full")
@pytest.mark.parametrize("arguments", [("plugins", "list"), ("load", "jsonl", "people.jsonl")])
def test_a_full_disk_behind_standard_output_is_a_sentence(people, arguments):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*PROGRAM, *arguments],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=people.parent,
        )
    assert done.returncode == 1
    assert done.stderr == "kbforge: cannot write standard output: no space left on device\n"


_LOADING = """
import os, signal, sys
class Loading:
    def find_spec(self, name, path=None, target=None):
        if name == "{module}":
            os.kill(os.getpid(), signal.{number})
sys.meta_path.insert(0, Loading())
sys.argv = ["kbforge", "cluster", "many.jsonl", "-o", "kb.jsonl"]
from kbforge.__main__ import main
main()
"""


@pytest.mark.slow
@pytest.mark.parametrize("module", ["typer", "kbforge.cli.main", "orjson", "numpy"])
@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        ("SIGINT", 130, "interrupted"),
        ("SIGTERM", 143, "interrupted by SIGTERM"),
        ("SIGHUP", 129, "interrupted by SIGHUP"),
    ],
)
def test_a_signal_while_modules_are_loaded_is_a_sentence(people, module, number, code, said):
    # so many that a signal which is sent again comes before their end
    write_people(people.parent / "many.jsonl", 1_000)
    script = _LOADING.format(module=module, number=number)
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=people.parent, capture_output=True, text=True
    )
    assert done.returncode == code, done.stderr
    # a signal is sent again until it finds a good place, so fragments may be clustered by then
    last = done.stderr.splitlines()[-1]
    assert last == f"kbforge: {said}" or last.startswith(f"{said}: kb.jsonl.partial holds the ")
    assert "Traceback" not in done.stderr


def test_a_signal_that_is_ignored_stays_ignored():
    def ignore() -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)

    script = "import os, signal, sys; sys.argv = ['kbforge', '--version']\n"
    script += "from kbforge.__main__ import main; os.kill(os.getpid(), signal.SIGHUP); main()"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, preexec_fn=ignore, text=True
    )
    assert done.returncode == 0, done.stderr
