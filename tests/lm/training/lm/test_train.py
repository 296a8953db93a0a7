"""`kbforge train-lm` as users run it, from fragments to clusters."""

from __future__ import annotations

import json
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError
from kbforge.files.fragments import read_fragments, write_fragments
from kbforge.fit.alpha import fingerprint
from kbforge.models.bundle import add_file, make_likelihood, read_bundle
from kbforge_lm.likelihoods.gpt.model import from_bundle
from kbforge_lm.likelihoods.ngram import NgramCounts
from kbforge_training.cli.train_lm import _shown
from kbforge_training.fitting.loop import METRICS, Loop, Step
from kbforge_training.fitting.run_folder import RUN, alone_in, folder_of_run
from kbforge_training.lm import train
from kbforge_training.lm.data import Data, by_entity, hold_out
from kbforge_training.lm.train import train_lm
from tests.lm.training.tiny import (
    Killed,
    ctrl_c_after,
    die,
    people,
    read,
    recipe_text,
    write_recipe,
)

QUICKSTART = Path(__file__).parents[4] / "examples" / "quickstart"
FILES = [
    "calibration.toml", "counts.json", "loss.png", METRICS, "tokenizer.json", "weights.safetensors",
]  # fmt: skip


pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with fragments of people and a tiny recipe."""
    monkeypatch.chdir(tmp_path)
    write_fragments(people(), "people.jsonl")
    write_recipe(tmp_path, tokens=4_000)
    return tmp_path


def one_step(
    here: Path, data: Data | None = None, said: list[str] | None = None, **options: Any
) -> dict[str, Any]:
    """A run of one step, of people unless told otherwise; what it says goes to `said`."""
    say = [] if said is None else said
    data = data or Data(people())
    return train_lm(data, Path("model"), read(here, tokens=1), say=say.append, **options)


COMMAND = ["train-lm", "people.jsonl", "--recipe", "tiny.toml", "-o", "model"]


def metrics(folder: str | Path) -> list[dict[str, Any]]:
    lines = (Path(folder) / METRICS).read_bytes().splitlines()
    return [{k: v for k, v in json.loads(line).items() if k != "seconds"} for line in lines]


# --- from fragments to clusters -------------------------------------------------------------------


@pytest.mark.slow
def test_the_quickstart_by_hand(program, here):
    train, fragments = QUICKSTART / "train.jsonl", QUICKSTART / "fragments.jsonl"
    recipe = write_recipe(here, pieces=400, context=128)
    trained = program("train-lm", train, "--recipe", recipe, "--tokens", 20_000, "-o", "model/")
    assert trained.code == 0, trained.err
    assert trained.out == b""
    assert "model: language model of " in trained.err
    assert "held-out loss " in trained.err
    assert "warning" not in trained.err
    assert sorted(path.name for path in here.iterdir() if path.is_dir()) == ["model"]

    bundle = read_bundle(Path("model"))
    assert sorted(bundle.files) == FILES
    assert bundle.files["loss.png"].startswith(b"\x89PNG")
    learned = list(read_fragments(str(train)))
    assert bundle.data == {"fragments": len(learned), "sha256": fingerprint(learned)}
    assert bundle.recipe["training"]["recipe"]["schedule"]["tokens"] == 20_000
    steps = metrics("model")
    assert sum(s["nats_per_fragment"] for s in steps[-5:]) < 0.9 * sum(
        s["nats_per_fragment"] for s in steps[:5]
    )
    assert steps[-1]["dev_nats_per_fragment"] is not None

    # one folder is all that cluster needs: surrogate and alpha are the model's own
    arguments = ["--limit", 40, "--set", "max-evals=5", "--json", "-o", "kb.jsonl"]
    clustered = program("cluster", fragments, "--likelihood", "model/", *arguments)
    assert clustered.code == 0, clustered.err
    alpha = tomllib.loads(bundle.files["calibration.toml"].decode())["alpha"]
    assert f"alpha {alpha:.6g}" in trained.err
    assert clustered.json["alpha"] == alpha
    assert clustered.json["fragments"] == 40
    assert 1 < clustered.json["entities"] < 40
    assert 40 < clustered.json["model_evaluations"] <= 40 * 6
    notes = [line for line in clustered.err.splitlines() if "note" in line]
    assert [line for line in notes if "values that name entities" not in line] == []


def test_going_on_from_a_model(program, here):
    """It keeps tokenizer and sizes, whatever the recipe says, and begins with what it knew."""
    first = program(*COMMAND, "--json")
    assert first.code == 0, first.err
    pairs = "[pairs]\nweight = 0.2\nper_step = 4\noffset = 3\n"
    recipe = here / "pairs.toml"
    text = recipe_text(tokens=2_000, learning_rate=1e-4, d_model=64, pieces=300)
    recipe.write_text(text + pairs, encoding="utf-8")
    write_fragments(people(), "people.jsonl")
    command = ["train-lm", "people.jsonl", "--from", "model", "--recipe", recipe, "-o", "tuned"]
    tuned = program(*command, "--json")
    assert tuned.code == 0, tuned.err
    assert tuned.json["parameters"] == first.json["parameters"]
    one, other = read_bundle(Path("model")), read_bundle(Path("tuned"))
    assert one.files["tokenizer.json"] == other.files["tokenizer.json"]
    assert one.recipe["shape"] == other.recipe["shape"]
    known, learned = metrics("model"), metrics("tuned")
    assert learned[0]["nats_per_fragment"] < 0.85 * known[0]["nats_per_fragment"]
    assert all(step["nats_per_pair"] > 0 for step in learned)
    assert all(step["nats_per_pair"] is None for step in known)

    refused = program(*command[:3], "nothing", *command[4:])
    assert refused.code != 0
    assert "nothing" in refused.err


def test_json(program, here):
    ran = program(*COMMAND, "--json")
    assert ran.code == 0, ran.err
    fragments = people()
    expected = {"model": "model", "fragments": len(fragments), "unlabelled": 0}
    assert {name: ran.json[name] for name in expected} == expected
    last = metrics("model")[-1]
    assert ran.json["steps"] == last["step"]
    assert ran.json["tokens"] == last["tokens"] >= 4_000
    assert ran.json["nats_per_fragment"] == last["dev_nats_per_fragment"]
    assert ran.json["entities"] + ran.json["held_out"] == 60
    assert ran.json["held_out"] == 6
    model = from_bundle(read_bundle(Path("model")), "model")
    assert ran.json["parameters"] == sum(p.numel() for p in model.gpt.parameters())
    assert ran.json["alpha"] == make_likelihood("model/").default_alpha  # type: ignore[attr-defined]


def test_files_to_validate_and_to_calibrate_on(program, here):
    write_fragments(people(9, seed=1), "dev.jsonl")
    write_fragments(people(30, seed=2), "labelled.jsonl")
    ran = program(*COMMAND, "--dev", "dev.jsonl", "--calibrate-on", "labelled.jsonl", "--json")
    assert ran.code == 0, ran.err
    assert (ran.json["entities"], ran.json["held_out"]) == (60, 9)
    calibration = tomllib.loads(Path("model/calibration.toml").read_text())
    assert calibration["data"]["sha256"] == fingerprint(people(30, seed=2))
    assert calibration["likelihood"]["name"] == "model"


def test_a_recipe_bounds_what_alpha_is_chosen_on(program, here):
    write_fragments(people(20, seed=1), "dev.jsonl")
    Path("few.toml").write_text(f"calibrate = 12\n{Path('tiny.toml').read_text()}")
    counts = []
    for recipe in ("tiny.toml", "few.toml"):
        job = ("train-lm", "people.jsonl", "--dev", "dev.jsonl", "--recipe", recipe)
        ran = program(*job, "-o", recipe.removesuffix(".toml"))
        (said,) = re.findall(r"^calibrating on (\d+) fragments$", ran.err, re.MULTILINE)
        counts.append(int(said))
    assert counts[1] <= 12 < counts[0] == len(people(20, seed=1))


def test_the_surrogate_has_not_seen_what_was_held_out(here):
    one_step(here)
    counted = NgramCounts.from_bytes(Path("model/counts.json").read_bytes(), "")
    entities, held_out = hold_out(by_entity(people())[0], None, 7)
    assert len(held_out) == 6
    expected = NgramCounts.empty(2, ("name",))
    for entity in entities:
        for fragment in entity:
            expected.add([fragment])
    assert counted.by_attribute == expected.by_attribute


@pytest.mark.parametrize(
    ("n", "held_out"),
    [(1, 0), (9, 0), (10, 1), (500, 50), (4_000, 100), (9_000, 180), (90_000, 1_000)],
)
def test_how_many_are_held_out(n, held_out):
    entities: list[Any] = [[number] for number in range(n)]
    learned, kept = hold_out(entities, None, 3)
    assert len(kept) == held_out
    assert sorted(one[0] for one in [*learned, *kept]) == list(range(n))


def test_a_model_stays_until_the_new_one_is_whole(here):
    one_step(here)
    weights = Path("model/weights.safetensors")
    before, seen = weights.read_bytes(), []
    train_lm(
        Data(people()),
        Path("model"),
        read(here, tokens=1, seed=8),
        on_step=lambda step: seen.append(weights.read_bytes()),
        say=lambda sentence: seen.append(weights.read_bytes()),
    )
    assert len(seen) >= 2
    assert set(seen) == {before}
    assert weights.read_bytes() != before


def test_the_progress_bar_shows_the_speed_of_the_last_seconds():
    clock = iter([0.0, 5.0, 20.0, 21.0])
    shown: list[tuple[float, dict[str, str]]] = []

    class Bar:
        def update(self, completed: float, **fields: str) -> None:
            shown.append((completed, fields))

    show = _shown(Bar(), lambda: next(clock))
    for step, tokens, held_out in (
        (1, 1_000, None),
        (2, 2_000, 9.5),
        (3, 8_000, None),
        (4, 8_160, 7),
    ):
        show(Step(step, tokens, 0.1, 1.0, 12.345, None, held_out, 0.0))
    assert [done for done, _ in shown] == [1_000, 2_000, 8_000, 8_160]
    assert [fields["tokens_per_second"] for _, fields in shown] == ["…", "200", "400", "385"]
    assert [fields["held_out"] for _, fields in shown] == ["…", "9.50", "9.50", "7.00"]
    assert shown[0][1]["nats_per_fragment"] == "12.35"


# --- labels ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fragments", "says"),
    [
        (people(30), None),
        ([Fragment(f.id, f.properties) for f in people(30)], "warning: no fragment has a label"),
        (
            [Fragment(f.id, f.properties, label=f.id) for f in people(30)],
            "warning: no entity has two fragments",
        ),
        (
            [*people(30), Fragment("x", {"name": ("X",)}), Fragment("y", {"name": ("Y",)})],
            "warning: 2 of ",
        ),
    ],
)
def test_what_labels_cannot_teach_is_said_before_training(here, fragments, says):
    said: list[str] = []
    steps: list[int] = []

    def on_step(step: Step) -> None:
        steps.append(len(said))

    done = one_step(here, Data(fragments), said, on_step=on_step)
    warnings = [sentence for sentence in said[: steps[0]] if sentence.startswith("warning")]
    if says is None:
        assert warnings == []
        assert done["alpha"] is not None
        return
    assert [sentence[: len(says)] for sentence in warnings] == [says]
    assert "co-reference" in warnings[0]
    calibrated = done["alpha"] is not None
    assert calibrated == says.startswith("warning: 2 of")
    assert calibrated == ("calibration.toml" in read_bundle(Path("model")).files)
    assert calibrated != any(s.startswith("note: not calibrated: ") for s in said)


def test_unbounded_alpha_is_not_kept(here):
    """Labels under which no entity, or every one, is alone do not say how often one is new."""
    twice = [
        Fragment(f"{i}/{j}", {"name": (f"n{i}",)}, label=str(i)) for i in range(9) for j in "ab"
    ]
    said: list[str] = []
    done = one_step(here, Data(people(), calibration=twice), said)
    assert done["alpha"] is None
    assert any("not calibrated: the labels do not bound alpha" in sentence for sentence in said)


# --- refused in time ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (["nowhere.jsonl", "-o", "m"], 1, "cannot read nowhere.jsonl"),
        (["people.jsonl", "-o", "m", "--recipe", "huge"], 2, 'there is no recipe "huge"'),
        (["people.jsonl", "-o", "m", "--recipe", "people.jsonl"], 2, "expected TOML"),
        (["people.jsonl", "-o", "m", "--tokens", "0"], 2, "--tokens"),
        (["people.jsonl", "-o", "m", "--checkpoint-minutes", "-1"], 2, "--checkpoint-minutes"),
        (["people.jsonl", "-o", "m", "--gpu"], 2, "no usable GPU"),
        (["people.jsonl", "-o", "."], 2, "is an input (people.jsonl), which it would replace"),
        (["people.jsonl", "-o", "people.jsonl"], 2, "is an input, which it would replace"),
        (["people.jsonl", "-o", "no/m"], 1, "cannot write no/m: no such file"),
        (["people.jsonl", "-o", "m", "--dev", "nowhere.jsonl"], 1, "cannot read nowhere.jsonl"),
        (["people.jsonl", "-o", "m", "--dev", "points.jsonl"], 1, "to validate on has properties"),
        (["points.jsonl", "-o", "m"], 1, "no fragment has properties"),
        (["empty.jsonl", "-o", "m"], 1, "no fragment has properties"),
        (["people.jsonl", "-o", "m", "--calibrate-on", "plain.jsonl"], 1, "on has a label"),
        (["people.jsonl", "-o", "m", "--calibrate-on", "points.jsonl"], 1, "on has properties"),
        (["people.jsonl", "bad.jsonl", "-o", "m"], 1, "bad.jsonl:1: "),
        (["-", "-o", "m", "--dev", "-"], 2, "standard input (-) can be read once"),
    ],
)
@pytest.mark.usefixtures("here")
def test_errors_are_sentences_before_any_training(program, monkeypatch, arguments, code, says):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    write_fragments([Fragment("p", {}, label="Q", vector=(1.0,))], "points.jsonl")
    write_fragments([Fragment("p", {"name": ("P",)})], "plain.jsonl")
    Path("empty.jsonl").touch()
    Path("bad.jsonl").write_text('{"id": "x", "properties": {"name": []}}\n')
    recipe = [] if "--recipe" in arguments else ["--recipe", "tiny.toml"]
    refused = program("train-lm", *arguments, *recipe)
    assert refused.code == code, refused.err
    assert says in refused.err
    assert not Path("m").exists()
    assert not Path("m.training").exists()


def test_the_dot_is_a_place_for_a_model(program, here, monkeypatch):
    assert program(*COMMAND, "--tokens", 1).code == 0
    assert folder_of_run(Path("model/.")) == Path("model.training")
    monkeypatch.chdir("model")
    assert folder_of_run(Path(".")) == here / "model.training"
    assert folder_of_run(Path("..")) == here.parent / f"{here.name}.training"


# --- a run that was stopped -----------------------------------------------------------------------


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(program, here, monkeypatch):
    whole = program(*COMMAND[:-1], "whole", "--json")
    assert whole.code == 0

    with monkeypatch.context() as patched:
        patched.setattr(Loop, "run", ctrl_c_after(3))
        stopped = program(*COMMAND)
    assert stopped.code == 130
    (sentence,) = [line for line in stopped.err.splitlines() if "interrupted" in line]
    assert "the same command continues after step 3 (" in sentence
    assert "of 4,000 tokens), which model.training holds" in sentence
    assert not Path("model").exists()
    went_on = program(*COMMAND, "--json")
    assert went_on.code == 0
    assert "continuing after step 3 (" in went_on.err
    assert not Path("model.training").exists()
    assert went_on.json == whole.json | {"model": "model"}
    same_models("model", "whole")


def same_models(a: str | Path, b: str | Path) -> None:
    one, other = read_bundle(Path(a)), read_bundle(Path(b))
    assert one.recipe == other.recipe
    assert metrics(a) == metrics(b)
    for name in set(FILES) - {METRICS, "calibration.toml"}:
        assert one.files[name] == other.files[name], name
    told = [tomllib.loads(x.files["calibration.toml"].decode()) for x in (one, other)]
    # the same sets in other batches: matrix products round differently
    assert told[0]["alpha"] == pytest.approx(told[1]["alpha"], rel=1e-5)


def test_interrupted_before_the_first_checkpoint(program, here, monkeypatch):
    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(train, "_fit", interrupt)
    stopped = program(*COMMAND)
    assert stopped.code == 130
    assert "interrupted before the first checkpoint: the same command starts again" in stopped.err


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The model of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("undisturbed")
    train_lm(Data(people()), folder / "model", read(folder, tokens=1_500))
    return folder / "model"


@pytest.mark.parametrize(
    ("place", "after"),
    [
        ("begin_run", True),
        ("train_bpe", True),
        ("to_bundle", False),
        ("calibrate", False),
        ("add_file", True),
        ("remove_run", False),
        ("remove_run", True),
    ],
)
def test_killed_anywhere_the_same_command_comes_to_the_same_end(
    here, monkeypatch, whole, place, after
):
    recipe, data = read(here, tokens=1_500), Data(people())
    really = getattr(train, place)

    def after_it(*arguments: Any, **options: Any) -> Any:
        really(*arguments, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(train, place, after_it if after else die)
        with pytest.raises(Killed):
            train_lm(data, Path("model"), recipe)
    assert Path("model").exists() == (place == "remove_run")
    train_lm(data, Path("model"), recipe)
    same_models("model", whole)
    assert not Path("model.training").exists()


@pytest.mark.parametrize(
    ("call", "number"),
    [*[("replace", n) for n in range(1, 6)], *[("rename", n) for n in (3, 4, 5)]],
)
def test_killed_while_something_is_put_in_place(here, monkeypatch, call, number):
    """Files (run.json, tokenizer, metrics, checkpoint, picture) and folders (draft, model, run)."""
    really = getattr(os, call)
    left = iter(range(number))

    def at_last(*arguments: Any) -> None:
        if next(left) == number - 1:
            raise Killed
        really(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(os, call, at_last)
        with pytest.raises(Killed):
            one_step(here)
    one_step(here)
    assert not Path("model.training").exists()
    assert sorted(read_bundle(Path("model")).files) == FILES


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"recipe": {"seed": 8}}, "differs in recipe schedule seed: 7 there, 8 here"),
        ({"recipe": {"tokens": 5}}, "differs in recipe schedule tokens: 1 there, 5 here"),
        ({"data": Data(people(59))}, "differs in fragments: "),
        ({"data": Data(people(), dev=people(3))}, "differs in validation fragments: None there, "),
    ],
)
def test_another_runs_folder_is_refused(here, monkeypatch, change, says):
    with monkeypatch.context() as patched:
        patched.setattr(train, "_fit", die)
        with pytest.raises(Killed):
            one_step(here)
    recipe = read(here, **{"tokens": 1, **change.get("recipe", {})})
    with pytest.raises(UsageError, match=f"model.training holds an unfinished run that {says}"):
        train_lm(change.get("data", Data(people())), Path("model"), recipe)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("checkpoint.safetensors", b"", "exists and holds no unfinished run"),
        ("notes.txt", b"mine", "exists and holds no unfinished run"),
        (RUN, b"{", "run.json is not JSON"),
        (RUN, b"[]", "differs in recipe"),
    ],
)
def test_a_folder_that_is_no_runs_is_refused(here, name, content, says):
    Path("model.training").mkdir()
    (Path("model.training") / name).write_bytes(content)
    with pytest.raises(KBForgeError, match=says):
        one_step(here)
    assert (Path("model.training") / name).read_bytes() == content


def test_two_processes_do_not_train_in_one_folder(here):
    Path("model.training").mkdir()
    with (
        alone_in(Path("model.training")),
        pytest.raises(UsageError, match=r"model\.training is in use: another process"),
        alone_in(Path("model.training")),
    ):
        pass
    with alone_in(Path("model.training")):
        pass


def test_a_calibration_that_fails_does_not_cost_the_model(here, monkeypatch):
    def fail(*_: Any) -> None:
        raise KBForgeError("out of luck")

    monkeypatch.setattr(train, "calibrate", fail)
    said: list[str] = []
    done = one_step(here, said=said)
    assert done["alpha"] is None
    assert any("not calibrated: out of luck; kbforge calibrate finds" in s for s in said)
    add_file(Path("model"), "MODEL_CARD.md", b"whole")


def test_without_matplotlib_there_is_no_picture_but_a_sentence(here, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said: list[str] = []
    one_step(here, said=said)
    assert any(one.startswith("note: the model has no loss.png: ") for one in said)
    assert sorted(read_bundle(Path("model")).files) == sorted(set(FILES) - {"loss.png"})
