"""A pipeline runs whatever verbs it is handed: it knows no command line."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
import typer

from kbforge import registry
from kbforge.cli.run import InstalledVerb
from kbforge.errors import KBForgeError, UsageError
from kbforge.recipe import run as running
from kbforge.recipe.read import Option
from kbforge.recipe.run import StepFailed, run_pipeline


class Copy:
    """A verb in plain Python: copies its argument to its output, upper case with --loud."""

    program = "toys 1.0"
    options: Mapping[str, Option] = {
        "output": Option("--output", is_output=True, default=lambda arguments: "copy.txt"),
        "loud": Option("--loud", is_switch=True, off="--quiet"),
    }

    def run(self, arguments: Sequence[str]) -> int:
        *flags, _, source = arguments
        text = Path(source).read_text()
        if "fail" in text:
            raise KBForgeError("it says fail")
        outputs = [flag.removeprefix("--output=") for flag in flags if "=" in flag]
        Path(*(outputs or ["copy.txt"])).write_text(text.upper() if "--loud" in flags else text)
        print("copied")
        return 3 if "three" in text else 0


def find(words: Sequence[str]) -> Copy:
    if tuple(words) != ("copy",):
        raise UsageError(f"no verb {' '.join(words)}")
    return Copy()


@pytest.fixture
def pipeline(tmp_path: Path) -> Path:
    (tmp_path / "in.txt").write_text("ada")
    path = tmp_path / "p.toml"
    path.write_text('[[step]]\nverb = "copy"\nargs = ["in.txt"]\n[step.options]\nloud = true\n')
    return path


def statuses(pipeline: Path) -> list[str]:
    return [r.status for r in run_pipeline(str(pipeline), find, lambda r: None)]


def test_plain_python_verbs_run_and_are_skipped(
    pipeline: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert statuses(pipeline) == ["ran"]
    assert capfd.readouterr().out == "copied\n"
    assert (pipeline.parent / "copy.txt").read_text() == "ADA"
    assert statuses(pipeline) == ["skipped"]
    monkeypatch.setattr(Copy, "program", "toys 2.0")
    assert statuses(pipeline) == ["ran"]
    pipeline.write_text(pipeline.read_text().replace("true", "false"))
    assert statuses(pipeline) == ["ran"]
    assert (pipeline.parent / "copy.txt").read_text() == "ada"


@pytest.mark.parametrize(
    ("text", "said", "code"),
    [
        ("fail", "it says fail", 1),
        ("three", "kbforge copy ended with exit code 3", 3),
    ],
)
def test_their_failures_are_the_pipeline_s(pipeline: Path, text: str, said: str, code: int) -> None:
    (pipeline.parent / "in.txt").write_text(text)
    with pytest.raises(StepFailed) as caught:
        statuses(pipeline)
    assert str(caught.value) == f'{pipeline}: step "copy": {said}'
    assert caught.value.exit_code == code


def test_no_other_verbs_exist(pipeline: Path) -> None:
    pipeline.write_text('[[step]]\nverb = "load"\n')
    with pytest.raises(UsageError, match=r'step "load": no verb load$'):
        statuses(pipeline)


def test_recipes_know_no_command_line() -> None:
    folder = Path(str(running.__file__)).parent
    imported: set[str] = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                imported.add(str(node.module))
    assert "kbforge.recipe.read" in imported
    assert [name for name in imported if name.split(".")[0] in ("typer", "click")] == []
    assert [name for name in imported if name.startswith(("kbforge.cli", "kbforge.registry"))] == []


@pytest.mark.parametrize(
    ("raised", "code"), [(SystemExit(4), 4), (SystemExit("text"), 1), (SystemExit(None), 0)]
)
def test_a_verb_that_exits_has_its_exit_code(
    raised: SystemExit, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = typer.Typer(add_completion=False)

    @app.command()
    def leave() -> None:
        raise raised

    real = registry.find
    monkeypatch.setattr(registry, "load", lambda kind, name: app)
    monkeypatch.setattr(registry, "find", lambda kind, name: real(kind, "load"))
    assert InstalledVerb(("leave",)).run([]) == code
