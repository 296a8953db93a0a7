"""Running pipelines of toy verbs: what runs, what is skipped, and what a failure leaves behind."""

from __future__ import annotations

import importlib
import json
import os
import re
import sys
from pathlib import Path

import pytest

from kbforge import registry
from kbforge.cli.recipe import run_pipeline
from kbforge.errors import KBForgeError, UsageError
from kbforge.version import __version__
from tests.registry.distributions import Distribution, forget

PIPELINE = """
[[step]]
verb = "join"
args = ["a.txt", "b.txt"]
[step.options]
output = "out/deep/joined.txt"

[[step]]
verb = "upper"
args = ["out/deep/joined.txt"]
[step.options]
output = "out/upper.txt"
set = ["x.extra=c.txt"]

[[step]]
verb = "tell"
args = ["out/upper.txt"]
"""


SOURCE = Path(__file__).with_name("toy_verbs.py").read_text()
VERBS = {name: f"toy_verbs:{name}" for name in ("join", "upper", "tell", "leave")}
TOYS = Distribution("toy-verbs", "1.0", {"kbforge.commands": VERBS}, {"toy_verbs": SOURCE})


@pytest.fixture
def verbs(tmp_path_factory, monkeypatch):
    """The toy verbs are installed; gives the list of their calls."""
    installed = tmp_path_factory.mktemp("installed")
    TOYS.write(installed)
    monkeypatch.syspath_prepend(str(installed))
    monkeypatch.delitem(sys.modules, "toy_verbs", raising=False)
    forget(registry)
    yield importlib.import_module("toy_verbs").CALLS
    monkeypatch.undo()
    del sys.modules["toy_verbs"]
    forget(registry)


@pytest.fixture
def folder(tmp_path):
    for name in "abc":
        (tmp_path / f"{name}.txt").write_text(name)
    (tmp_path / "pipeline.toml").write_text(PIPELINE)
    return tmp_path


@pytest.fixture
def run(folder, verbs):
    """Runs the pipeline; returns {step: status or why}."""

    def runner(**how):
        del verbs[:]
        path = str(folder / "pipeline.toml")
        reports = run_pipeline(path, lambda report: None, **how)
        return {r.step: r.why or r.status for r in reports}

    return runner


FULL = (
    r'the command "\w+" of toy-verbs 1.0 failed at toy_verbs.py:\d+: '
    r"OSError: \[Errno 28\] No space left on device: 'disk'"
)
NEW = "it has not succeeded yet"
SKIPPED = {"join": "skipped", "upper": "skipped", "tell": "skipped"}


def edit(folder, old, new):
    path = folder / "pipeline.toml"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))


def test_first_run_runs_all_and_second_none(run, folder, verbs, capfd):
    assert run() == {"join": NEW, "upper": NEW, "tell": NEW}
    assert verbs == ["join", "upper", "tell"]
    assert (folder / "out/upper.txt").read_text() == "AB"
    assert run() == SKIPPED
    assert verbs == []


def test_it_runs_from_any_folder_and_comes_back(run, folder, monkeypatch, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    monkeypatch.chdir(elsewhere)
    run()
    assert Path.cwd() == elsewhere
    assert list(elsewhere.iterdir()) == []


def test_changed_input_runs_its_readers_only(run, folder):
    run()
    (folder / "a.txt").write_text("z")
    changed = "input out/deep/joined.txt changed"
    assert run() == {
        "join": "input a.txt changed",
        "upper": changed,
        "tell": "input out/upper.txt changed",
    }
    (folder / "c.txt").write_text("other")  # named inside a --set
    assert run() == {"join": "skipped", "upper": "input c.txt changed", "tell": "skipped"}


def test_touching_changes_nothing_and_equal_bytes_stop_the_chain(run, folder):
    run()
    os.utime(folder / "a.txt", (1, 1))
    assert run() == SKIPPED
    (folder / "a.txt").write_text("A")  # upper case in the end: same bytes
    assert run() == {
        "join": "input a.txt changed",
        "upper": "input out/deep/joined.txt changed",
        "tell": "skipped",
    }


def test_missing_and_modified_outputs_are_made_again(run, folder):
    run()
    (folder / "out/upper.txt").unlink()
    assert run() == {**SKIPPED, "upper": "output out/upper.txt is missing"}
    (folder / "out/upper.txt").write_text("edited")
    assert run() == {**SKIPPED, "upper": "output out/upper.txt changed"}
    assert (folder / "out/upper.txt").read_text() == "AB"


def test_changed_options_version_and_inputs(run, folder):
    run()
    edit(folder, '[step.options]\noutput = "out/d', '[step.options]\nsep = "-"\noutput = "out/d')
    assert run()["join"] == "sep changed"
    edit(folder, '["a.txt", "b.txt"]', '["b.txt"]')
    assert run()["join"] == "args changed"
    (folder / "c.txt").unlink()
    assert run()["upper"] == "input c.txt is missing"
    (folder / "c.txt").write_text("back")
    assert run()["upper"] == "input c.txt is new"
    (info,) = Path(sys.path[0]).glob("toy_verbs-*")
    (info / "METADATA").write_text((info / "METADATA").read_text().replace("1.0", "9.9"))
    forget(registry)
    assert f"toy-verbs 1.0 on kbforge {__version__} became toy-verbs 9.9" in run()["tell"]


def test_force_only_from_and_dry_run(run, folder, verbs):
    assert run(dry_run=True) == {
        "join": NEW,
        "upper": 'input out/deep/joined.txt comes from step "join"',
        "tell": 'input out/upper.txt comes from step "upper"',
    }
    assert verbs == []
    assert not (folder / "out").exists()
    run()
    assert run(force=True) == dict.fromkeys(SKIPPED, "forced")
    assert run(only="upper", force=True) == {"upper": "forced"}
    assert run(first="upper") == {"upper": "skipped", "tell": "skipped"}
    with pytest.raises(UsageError, match=r'--only: there is no step "x"; steps: join, upper, tell'):
        run(only="x")
    with pytest.raises(UsageError, match="cannot be combined"):
        run(only="join", first="join")


def test_a_skipped_step_repeats_what_it_printed(run, folder, verbs, capfd):
    run()
    first = capfd.readouterr().out
    assert first == "AB\nbytes: é\n"
    reports = run_pipeline(str(folder / "pipeline.toml"), lambda report: None)
    assert reports[-1].status == "skipped"
    assert reports[-1].printed == first


def test_what_is_too_long_to_repeat_is_printed_by_running(run, folder, capfd):
    (folder / "a.txt").write_text("loud")
    run()
    capfd.readouterr()
    assert run() == {**SKIPPED, "tell": "it printed too much to repeat"}
    assert len(capfd.readouterr().out) > (1 << 19)


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        ("fail", "the text says fail", 1),
        ("exit", "kbforge upper ended with exit code 3", 3),
        ("disk", FULL, 1),
    ],
)
def test_a_failed_step_stops_and_the_next_run_resumes(run, folder, verbs, text, said, code):
    (folder / "a.txt").write_text(text)
    with pytest.raises(KBForgeError) as caught:
        run()
    where = re.escape(f'{folder / "pipeline.toml"}: step "upper": ')
    assert re.fullmatch(where + said, str(caught.value))
    assert caught.value.exit_code == code
    assert verbs == ["join", "upper"]
    (folder / "a.txt").write_text("a")
    (folder / "b.txt").write_text("b")
    (folder / "out/deep/joined.txt").write_text("repaired")
    assert run() == {"join": "input a.txt changed", "upper": NEW, "tell": NEW}


def test_a_step_that_failed_after_success_runs_again(run, folder):
    run()
    (folder / "a.txt").write_text("fail")
    with pytest.raises(KBForgeError):
        run()
    (folder / "a.txt").write_text("a")
    assert run() == {"join": "input a.txt changed", "upper": NEW, "tell": "skipped"}


def test_interrupt_passes_through_and_resumes(run, folder, verbs):
    (folder / "a.txt").write_text("stop")
    with pytest.raises(KeyboardInterrupt):
        run()
    assert verbs == ["join", "upper"]
    (folder / "out/deep/joined.txt").unlink()
    (folder / "a.txt").write_text("a")
    assert run()["upper"] == NEW


def test_wrong_usage_of_a_verb_names_step_and_help(run, folder):
    edit(folder, 'args = ["out/upper.txt"]', "args = []")
    with pytest.raises(KBForgeError, match=r'"tell": Missing argument.*see kbforge tell --help'):
        run()


def test_declared_inputs_must_exist_and_count(run, folder):
    edit(folder, 'verb = "join"', 'verb = "join"\ninputs = ["d.txt"]')
    with pytest.raises(UsageError, match=r'step "join": input d\.txt does not exist'):
        run()
    (folder / "d.txt").write_text("1")
    run()
    (folder / "d.txt").write_text("2")
    assert run()["join"] == "input d.txt changed"


def test_a_file_that_a_step_makes_beside_its_output_is_an_output(run, folder):
    edit(folder, 'output = "out/upper.txt"', 'output = "out/upper.txt"\nlog = "out/log.txt"')
    run()
    assert run() == SKIPPED
    (folder / "out/log.txt").unlink()
    assert run()["upper"] == "output out/log.txt is missing"
    assert run() == SKIPPED


def test_a_step_that_does_not_write_its_output_failed(run, folder):
    edit(folder, 'verb = "upper"', 'verb = "leave"')
    edit(folder, 'set = ["x.extra=c.txt"]', "")
    with pytest.raises(KBForgeError, match=r"succeeded, but out/upper.txt is missing"):
        run()


def test_folders_are_inputs_too(run, folder):
    (folder / "model").mkdir()
    (folder / "model/one").write_text("1")
    edit(folder, "x.extra=c.txt", "x.extra=model")
    run()
    assert run() == SKIPPED
    (folder / "model/two").write_text("2")
    assert run()["upper"] == "input model changed"
    (folder / "model/two").rename(folder / "model/three")
    assert run()["upper"] == "input model changed"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b'{"format": 1}',
        b'{"format": 2, "steps": {}}',
        b'{"format": 1, "steps": {"join": {"program": 3}}}',
    ],
)
def test_a_broken_state_file_means_that_all_runs(folder, verbs, content):
    path = str(folder / "pipeline.toml")
    run_pipeline(path, lambda report: None)
    state = folder / "out/deep/.pipeline.run.json"
    assert json.loads(state.read_bytes())["format"] == 1
    state.write_bytes(content)
    seen = []
    reports = run_pipeline(path, seen.append)
    assert [r.status for r in reports] == ["ran"] * 3
    assert "cannot be used" in seen[0].why
