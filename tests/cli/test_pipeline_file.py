"""Reading pipeline files: what a step means, and every way of writing one wrong."""

from __future__ import annotations

import pytest

from kbforge.cli.recipe import read_pipeline
from kbforge.errors import KBForgeError, UsageError


@pytest.fixture
def read(tmp_path):
    def reader(text):
        path = tmp_path / "pipeline.toml"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_pipeline(str(path))

    return reader


LOAD = """
[[step]]
verb = "load"
args = ["csv", "people.csv"]
[step.options]
output = "out/./fragments.jsonl"
"""


def test_a_step_becomes_a_command_line(read):
    (step,) = read(
        """
        [[step]]
        name = "group"
        verb = "cluster"
        args = ["-"]
        [step.options]
        alpha = 2.5
        particles = 7
        json = true
        gpu = false
        max_evals = 3
        set = ["likelihood.counts=a/../counts.json", "clusterer.weights=marginal"]
        """
    )
    assert step.name == "group"
    assert step.arguments == (
        "--alpha=2.5",
        "--set=particles=7",
        "--json",
        "--set=max-evals=3",
        "--set=likelihood.counts=a/../counts.json",
        "--set=clusterer.weights=marginal",
        "--",
        "-",
    )
    assert step.output == "kb.jsonl"  # the verb's default for standard input
    assert "counts.json" in step.named
    assert step.settings["particles"] == ("7",)


def test_sub_commands_and_outputs_on_standard_output(read):
    (step,) = read('[[step]]\nverb = "plugins list"')
    assert step.verb == ("plugins", "list")
    (step,) = read(LOAD.replace("out/./fragments.jsonl", "-"))
    assert step.output == ""


def test_an_output_that_is_not_named_is_the_verbs_default(read):
    (step,) = read('[[step]]\nverb = "cluster"\nargs = ["data/people.jsonl"]')
    assert step.output == "people.kb.jsonl"
    (step,) = read('[[step]]\nverb = "link"\nargs = ["abt.csv", "buy.tsv.gz"]')
    assert step.output == "abt-buy.kb.jsonl"
    options = '[step.options]\ninto = "kb.sqlite"'
    (step,) = read(f'[[step]]\nverb = "cluster"\nargs = ["people.jsonl"]\n{options}')
    assert step.output == "kb.sqlite"


def test_inputs_and_outputs_are_derived(read):
    (step,) = read(LOAD)
    assert step.output == "out/fragments.jsonl"
    assert step.named == ("csv", "people.csv")
    assert step.declared == ()


STEP = '[[step]]\nverb = "load"\n'

BAD = [
    ("", "expected [[step]] tables and nothing else, got nothing"),
    ("step = []", "expected [[step]] tables and nothing else, got step"),
    ("step = [1]", "step 1: expected a table, got 1"),
    ("[step]\nverb = 'load'", "expected [[step]] tables"),
    ("[[steps]]", "expected [[step]] tables and nothing else, got steps"),
    ("[[step]", "expected TOML"),
    (b"# \xff", "expected TOML"),
    (b"\x1f\x8bgarbage", "expected a pipeline file, got a damaged or truncated one"),
    ("a = " + "[" * 5000, "expected TOML"),
    ("a = " + "9" * 5000, "expected TOML"),
    (STEP + f"args = [0x{'f' * 5000}]", "step[0].args[0]: expected a whole number of 64"),
    ("#" * (1 << 21), "more than 1,048,576 bytes"),
    ("[[step]]", "step 1: verb: expected a verb of kbforge, got nothing"),
    ("[[step]]\nverb = 3", "verb: expected a verb of kbforge, got 3"),
    ("[[step]]\nverb = ''", "verb: expected a short text"),
    (
        "[[step]]\nverb = 'fly'",
        'step "fly": there is no command "fly"; available: backup',
    ),
    ("[[step]]\nverb = 'run'", 'step "run": a pipeline cannot contain the verb "run"'),
    ("[[step]]\nverb = 'plugins'", 'step "plugins": expected a sub-command: list, new, show'),
    ("[[step]]\nverb = 'plugins odd'", 'no sub-command "odd"; expected list, new, show'),
    ("[[step]]\nverb = 'load x'", 'no sub-command "x"; expected none'),
    (STEP + "alpha = 3", "alpha: expected one of name, verb, args, inputs, options, got an unk"),
    (STEP + "name = ''", "name: expected a short text"),
    (STEP + "name = 7", "name: expected a short text, got 7"),
    (2 * (STEP + "args = ['x.csv']\n"), 'step 2: expected a unique name, got "load" again'),
    (STEP + "args = 'csv'", "args: expected an array, got csv"),
    (STEP + "args = [[1]]", "args: expected strings or numbers, got [1]"),
    (STEP + "inputs = 'x'", "inputs: expected an array, got x"),
    (STEP + "options = 3", "options: expected a table, got 3"),
    (STEP + "[step.options]\nalhpa = 3", "No such option: --alhpa"),
    (STEP + "[step.options]\njson = 'yes'", "Option '--json' does not take a value"),
    (STEP + "[step.options]\nlimit = [[1]]", "option limit: expected strings or numbers, got [1]"),
    (STEP + "[step.options]\nlimit = 2020-01-01", "option limit: expected strings or numbers"),
    (STEP + "[step.options]\nmap = {a = 1}", "option map: expected strings or numbers"),
    (
        STEP + '[step.options]\nid = "a\\u0000b"',
        "option id: expected strings or numbers, got a\\x00b",
    ),
    (
        STEP + "args = ['jsonl', 'x']\n[step.options]\noutput = './x'",
        "an output that differs from its",
    ),
    (
        LOAD + LOAD.replace("[[step]]", "[[step]]\nname = 'again'"),
        'step "again" writes out/fragments.jsonl, which step "load" has written',
    ),
    (
        "[[step]]\nverb = 'cluster'\nargs = ['out/fragments.jsonl']\n" + LOAD,
        'step "cluster" reads out/fragments.jsonl, which only the later step "load" writes',
    ),
]


@pytest.mark.parametrize(("text", "said"), BAD)
def test_bad_files_give_one_sentence_with_file_and_step(read, tmp_path, text, said):
    with pytest.raises(UsageError) as caught:
        read(text)
    assert said in str(caught.value)
    assert str(tmp_path / "pipeline.toml") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path):
    with pytest.raises(KBForgeError, match="cannot read"):
        read_pipeline(str(tmp_path / "absent.toml"))
    with pytest.raises(KBForgeError, match="cannot read"):
        read_pipeline(str(tmp_path))
    with pytest.raises(UsageError, match="read from a file"):
        read_pipeline("-")
