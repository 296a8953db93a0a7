"""The program around the verbs: help, version, completion, exit codes, and what it imports."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import kbforge as package
from kbforge.kernel.binding import kernel_status
from tests.registry.distributions import Distribution, python, within

HEAVY = ("torch", "datasets", "pyarrow", "numpy", "scipy", "tokenizers", "pandas")

STRANGER = Distribution(
    name="kb-verbs",
    entry_points={"kbforge.commands": {"interrupted": "kb_verbs:ctrl_c", "many": "kb_verbs:many"}},
    modules={
        "kb_verbs": """
import signal
import typer

ctrl_c = typer.Typer()
many = typer.Typer()

@ctrl_c.command()
def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)

@many.command()
def lines() -> None:
    for _ in range(100_000):
        print("a line of output")
"""
    },
)


@pytest.mark.parametrize(
    "statement",
    [
        "import kbforge",
        "import kbforge.registry",
        "import sys; sys.argv = ['kbforge', '--help']; import kbforge.cli.main as m\n"
        "try: m.main()\nexcept SystemExit: pass",
    ],
    ids=["library", "registry", "help page"],
)
def test_heavy_libraries_are_imported_only_where_needed(statement):
    program = f"{statement}\nimport sys\nprint('HEAVY', [m for m in {HEAVY} if m in sys.modules])"
    assert python("-c", program).out.splitlines()[-1] == "HEAVY []"


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_lists_the_verbs_in_the_order_of_the_chain(option):
    page = within(option)
    assert page.code == 0
    first_words = [line.split()[1] for line in page.out.splitlines() if line.startswith("│ ")]
    places = [first_words.index(v) for v in ("load", "cluster", "show", "run", "plugins")]
    assert places == sorted(places)


def test_version():
    """The kernel, too, or why there is none."""
    assert within("--version").out == f"kbforge {package.__version__}\n{kernel_status()}\n"


def test_no_arguments_is_help_and_a_usage_error():
    page = within()
    assert page.code == 2
    assert "Usage" in page.out + page.err


def test_a_mistyped_verb_is_a_usage_error_with_a_suggestion():
    typo = within("clutser")
    assert typo.code == 2
    assert "Did you mean 'cluster'?" in typo.err


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script(shell):
    shown = within("--show-completion", shell, _TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION="1")
    assert shown.code == 0
    assert "_COMPLETE" in shown.out


def test_completion_of_a_verb():
    # typer names the variable after the program
    program = "import sys; sys.argv[0] = 'kbforge'; from kbforge.cli.main import main; main()"
    completed = python(
        "-c",
        program,
        _KBFORGE_COMPLETE="complete_bash",
        COMP_WORDS="kbforge clus",
        COMP_CWORD="1",
    )
    assert completed.out.split() == ["cluster"]


def test_an_interrupt_is_130_and_one_line(tmp_path):
    STRANGER.write(tmp_path)
    stopped = within("interrupted", path=tmp_path)
    assert (stopped.code, stopped.err) == (130, "kbforge: interrupted\n")


def test_a_closed_pipe_is_no_error(tmp_path):
    STRANGER.write(tmp_path)
    program = (
        "import subprocess, sys\n"
        "p = subprocess.Popen([sys.executable, '-m', 'kbforge.cli.main', 'many'],"
        " stdout=subprocess.PIPE, stderr=subprocess.PIPE)\n"
        "p.stdout.readline(); p.stdout.close()\n"
        "print(p.stderr.read().decode(), p.wait())"
    )
    assert python("-c", program, path=tmp_path).out.split() == ["0"]


def test_the_width_of_the_terminal_decides_where_lines_of_help_end():
    page = within("run", "--help", COLUMNS="400").out
    paragraph = next(line for line in page.splitlines() if "A step is a verb" in line)
    assert paragraph.strip().endswith("the next run continues there.")
    assert "kbforge run pipeline.toml --dry-run" in page


# What a stranger's plugin raises while it runs: one sentence with its name.


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
def test_it_is_one_sentence(tmp_path, statement, sentence):
    output = tmp_path / "out.jsonl"
    ran = within("load", "odd", "x", "-o", str(output), path=odd(tmp_path / "path", statement))
    assert (ran.code, ran.out) == (1, "")
    assert ran.err.startswith(f"kbforge: {sentence}")
    assert ran.err.count("\n") == 1
    assert "\x1b" not in ran.err
    assert not output.exists()


def test_in_a_pipeline_too(tmp_path):
    pipeline = tmp_path / "p.toml"
    pipeline.write_text(
        '[[step]]\nverb = "load"\nargs = ["odd", "x"]\n[step.options]\noutput = "o.jsonl"\n'
    )
    ran = within("run", str(pipeline), path=odd(tmp_path / "path", "sys.exit(0)"))
    assert ran.code == 1
    said = ran.err.splitlines()[-1]
    assert said == f'kbforge: {pipeline}: step "load": {WHERE}SystemExit: 0'


@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a child process")
def test_a_users_ctrl_c_in_a_plugin_is_an_interruption(tmp_path):
    started = tmp_path / "started"
    statement = f"import time; open({str(started)!r}, 'w').close(); time.sleep(3600)"
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
