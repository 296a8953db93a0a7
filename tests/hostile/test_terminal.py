"""What a terminal would obey never reaches one: control, bidirectional and invisible characters."""

import json
import re

import pytest

from kbforge.errors import escaped_lines
from tests.cli.driving import Terminal
from tests.jsonl import write_lines
from tests.registry.distributions import within

OBEYED = "\x1b[2J\x07\x7f\x9b31m\u202e\u2066\u200f\u061c\u2028\U000e0041"
ESCAPED = r"\u001b[2J\u0007\u007f\u009b31m\u202e\u2066\u200f\u061c\u2028\udb40\udc41"  # in JSON
STYLES = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b\]8;[^\x1b]*\x1b\\")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    name = f"Ann{OBEYED}"
    lines = [
        {"id": f"p{i}{OBEYED}", "properties": {"name": [name], f"born{OBEYED}": ["1960"]}}
        for i in range(4)
    ]
    write_lines(folder / "people.jsonl", lines)
    for output in (("-o", "kb.jsonl"), ("--into", "kb.sqlite")):
        command = ("cluster", "people.jsonl", "--likelihood", "attributes", *output)
        assert within(*command, cwd=folder).code == 0
    return folder


COMMANDS = [
    "show kb.jsonl",
    "show kb.jsonl --json",
    "show kb.sqlite --fragments people.jsonl",
    "export kb.jsonl -o -",
    "export kb.jsonl --format csv -o -",
    "load jsonl people.jsonl",
    "status kb.sqlite",
    "changes kb.sqlite",
    "explain kb.jsonl --fragment p0 --fragments people.jsonl",
    f"x{OBEYED}",
    f"show kb.jsonl --x{OBEYED}",
    f"show kb.jsonl --top x{OBEYED}",
    f"show kb{OBEYED}.jsonl",
    f"show kb.jsonl --id x{OBEYED}",
    f"cluster people.jsonl --likelihood x{OBEYED}",
    f"cluster people.jsonl --set clusterer=x{OBEYED}",
    f"cluster people.jsonl --set likelihood.x{OBEYED}=1",
    f"cluster people.jsonl --set likelihood.x{OBEYED}",
    f"load x{OBEYED} people.jsonl",
    f"plugins show x{OBEYED} y",
    f"plugins list --kind x{OBEYED}",
]


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_a_terminal_gets_no_character_that_it_obeys(files, command, monkeypatch):
    monkeypatch.chdir(files)
    terminal = Terminal(*command.split(" "))
    code = terminal.end()
    assert terminal.said
    assert "Traceback" not in terminal.said
    assert code in (0, 1, 2)
    left = STYLES.sub("", terminal.said)
    # the program's own bars begin their line anew
    assert not {c for c in left if not c.isprintable()} - {"\n", "\r", "\t"}
    # nothing between the program's own styles is what the data asked for
    assert "\x1b[2J" not in terminal.said


def test_a_file_gets_the_data_itself(files, program):
    out = files / "out.csv"
    program("export", files / "kb.jsonl", "--format", "csv", "-o", out)
    assert "\u202e" in out.read_text()
    assert "\u202e".encode() in program("export", files / "kb.jsonl", "-o", "-").out


def test_json_is_escaped_by_its_own_escapes(files, program):
    printed = program("show", files / "kb.jsonl", "--json").out.decode()
    assert ESCAPED in printed
    assert json.loads(printed)["entities"][0]["name"] == f"Ann{OBEYED}"


def test_lines_and_tabs_stay():
    assert escaped_lines("a\tb\r\nc\n") == "a\tb\r\nc\n"
    assert escaped_lines("a\rb") == r"a\u000db"
    assert escaped_lines("Ångström 山田") == "Ångström 山田"
