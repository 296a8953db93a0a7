"""`kbforge run` and `kbforge run --init` as users run them, with the real verbs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kbforge.cli import recipe

TEMPLATE = (Path(recipe.__file__).parent / recipe.FILE_NAME).read_text()
QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"

PIPELINE = """
[[step]]
verb = "load"
args = ["csv", "names.csv"]
[step.options]
id = "id"
label = "label"
output = "out/fragments.jsonl"

[[step]]
verb = "cluster"
args = ["out/fragments.jsonl"]
[step.options]
output = "out/kb.jsonl"
particles = 5

[[step]]
verb = "evaluate"
args = ["out/kb.jsonl", "out/fragments.jsonl"]
"""


@pytest.fixture
def pipeline(tmp_path):
    rows = ["id,label,name", *(f"r{i},e{i % 3},{('Ada', 'Bolo', 'Cyd')[i % 3]}" for i in range(9))]
    (tmp_path / "names.csv").write_text("\n".join(rows))
    path = tmp_path / "pipeline.toml"
    path.write_text(PIPELINE)
    return path


def statuses(ran):
    return [step["status"] for step in ran.json["steps"]]


def test_runs_then_skips_and_says_why(program, pipeline):
    first = program("run", pipeline)
    assert "[1] load: runs, because it has not succeeded yet" in first.err
    assert "3 steps: 3 ran" in first.err
    assert b"B-cubed" in first.out
    again = program("run", pipeline)
    assert "[2] cluster: skipped, nothing changed" in again.err
    assert "3 steps: 3 skipped" in again.err
    assert again.out == first.out  # the table again
    with open(pipeline.parent / "names.csv", "a") as table:
        table.write("\nr9,e0,Ada")
    assert "[1] load: runs, because input names.csv changed" in program("run", pipeline).err


def test_json_is_all_there_is_on_standard_output(program, pipeline):
    dry = program("run", pipeline, "--dry-run", "--json")
    assert statuses(dry) == ["would run"] * 3
    assert not (pipeline.parent / "out").exists()
    ran = program("run", pipeline, "--json")
    assert statuses(ran) == ["ran"] * 3
    assert "B-cubed" in ran.err
    assert statuses(program("run", pipeline, "--json")) == ["skipped"] * 3
    assert statuses(program("run", pipeline, "--json", "--from", "cluster", "--force")) == [
        "ran",
        "ran",
    ]
    assert program("run", pipeline, "--json", "--only", "cluster").json["steps"] == [
        {"step": "cluster", "status": "skipped", "why": "", "seconds": 0.0}
    ]


def test_a_failing_step_is_one_sentence_with_its_exit_code(program, pipeline):
    text = pipeline.read_text()
    pipeline.write_text(text.replace("particles = 5", 'particles = "many"'))
    ran = program("run", pipeline)
    assert ran.code == 2
    sentence = ran.err.splitlines()[-1]
    assert sentence.startswith(f'kbforge: {pipeline}: step "cluster": ')
    assert "particles" in sentence
    assert (pipeline.parent / "out/fragments.jsonl").exists()
    pipeline.write_text(text)
    resumed = program("run", pipeline, "--json")
    assert statuses(resumed) == ["skipped", "ran", "ran"]


def test_a_missing_input_names_file_and_step(program, pipeline):
    (pipeline.parent / "names.csv").unlink()
    ran = program("run", pipeline)
    assert ran.code == 1
    assert 'step "load": cannot read names.csv: no such file or directory' in ran.err


def test_bad_file_runs_nothing(program, pipeline):
    pipeline.write_text(pipeline.read_text() + '[[step]]\nverb = "fly"\n')
    ran = program("run", pipeline)
    assert ran.code == 2
    assert 'step "fly": there is no command "fly"' in ran.err
    assert not (pipeline.parent / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="sends SIGINT to a child process")
def test_ctrl_c_exits_130_and_keeps_what_was_done(program, pipeline):
    rows = [f"r{i},e{i},name {i * 7919 % 100_003}" for i in range(60_000)]
    (pipeline.parent / "names.csv").write_text("\n".join(["id,label,name", *rows]))
    code = "from kbforge.cli.main import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", code, "run", str(pipeline)], stderr=subprocess.PIPE, text=True
    )
    assert child.stderr is not None
    for line in child.stderr:
        if line.startswith("[2] cluster: runs"):
            child.send_signal(signal.SIGINT)
            break
    _, rest = child.communicate(timeout=300)
    assert child.returncode == 130
    assert "Traceback" not in rest
    assert rest.splitlines()[-1] == "kbforge: interrupted"
    assert not (pipeline.parent / "out/kb.jsonl").exists()
    dry = program("run", pipeline, "--dry-run", "--json")
    assert statuses(dry) == ["skipped", "would run", "would run"]


def test_init_writes_once_and_overwrites_only_when_told(program, tmp_path):
    folder = tmp_path / "new" / "project"
    program("run", "--init", folder)
    target = folder / "pipeline.toml"
    assert target.read_text() == TEMPLATE
    target.write_text("mine")
    refused = program("run", "--init", folder)
    assert refused.code == 2
    assert f"{target} exists; --force overwrites it" in refused.err
    assert target.read_text() == "mine"
    program("run", "--init", folder, "--force")
    assert target.read_text() == TEMPLATE
    file = tmp_path / "file"
    file.write_text("")
    refused = program("run", "--init", file)
    assert refused.code == 2
    assert "not a folder" in refused.err
    assert program("run", "--init", file / "deeper").code != 0


@pytest.mark.slow
@pytest.mark.parametrize("labelled", [False, True])
def test_the_written_pipeline_runs_after_editing_one_line(program, tmp_path, labelled):
    program("run", "--init", tmp_path)
    target = tmp_path / "pipeline.toml"
    shutil.copy(QUICKSTART / "fragments.jsonl", tmp_path / "mine.jsonl")
    shutil.copy(QUICKSTART / "train.jsonl", tmp_path / "labelled.jsonl")
    lines = target.read_text().splitlines()
    (marked,) = (i for i, line in enumerate(lines) if line.startswith("args") and "EDIT" in line)
    lines[marked] = 'args = ["jsonl", "mine.jsonl"]'
    if labelled:  # the commented steps, as the comments say
        first = next(i for i, line in enumerate(lines) if line == "# [[step]]")
        last = next(i for i, line in enumerate(lines) if line.startswith("# calibration"))
        for i in range(first, last + 1):
            if line_is_code(lines[i]):
                lines[i] = lines[i].removeprefix("# ")
    target.write_text("\n".join(lines))
    ran = program("run", target)
    assert ran.out
    assert (tmp_path / "out/kb.csv").stat().st_size > 1000
    assert (tmp_path / "out/calibration.toml").exists() == labelled
    assert program("run", target, "--json").json["steps"][0]["status"] == "skipped"


def line_is_code(line):
    return line.startswith(("# [", "# verb", "# args", "# output", "# likelihood", "# calibration"))
