"""The training loop, and the picture of its losses."""

from __future__ import annotations

import json
import random
import signal
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import KBForgeError, ModelError
from kbforge_lm.likelihoods.gpt.model import GPT
from kbforge_training.fitting import loop as loop_module
from kbforge_training.fitting.loop import METRICS, Step, _smoothed, draw_losses
from kbforge_training.fitting.recipes import Schedule, learning_rate
from kbforge_training.fitting.run_folder import CHECKPOINT, read_progress
from tests.lm.training.tiny import Killed, loop, read

NEVER = 1e9  # seconds between checkpoints
# what has random numbers, several batches a step, or an optimizer beside AdamW
ODD = [{"dropout": 0.1, "accumulate": 2}, {"optimizer": '"muon"'}]


def schedule(**changes: Any) -> Schedule:
    fields: dict[str, Any] = dict.fromkeys(Schedule.__dataclass_fields__, 1)
    fields |= {"tokens": 1_000, "learning_rate": 2.0, "warmup": 0.1, "floor": 0.25}
    return Schedule(**fields | changes)


@pytest.mark.parametrize(
    ("tokens", "rate"),
    [(0, 0.02), (1, 0.02), (50, 1.0), (100, 2.0), (550, 1.25), (1_000, 0.5), (1_100, 0.5)],
)
def test_the_learning_rate_rises_and_falls(tokens, rate):
    assert learning_rate(schedule(), tokens / 1_000) == pytest.approx(rate)


@given(
    warmup=st.floats(0, 1),
    floor=st.floats(0, 1),
    tokens=st.lists(st.integers(0, 1_000), min_size=2),
)
def test_the_learning_rate_has_one_peak(warmup, floor, tokens):
    plan = schedule(warmup=warmup, floor=floor)
    rates = [learning_rate(plan, t / 1_000) for t in sorted(tokens)]
    assert all(0 <= rate <= 2.0 * (1 + 1e-12) for rate in rates)
    rising = [r for t, r in zip(sorted(tokens), rates, strict=True) if t < 1_000 * warmup]
    assert rising == sorted(rising)
    falling = rates[len(rising) :]
    assert falling == sorted(falling, reverse=True)
    assert all(rate >= 2.0 * floor * (1 - 1e-12) for rate in falling)


def weights(gpt: GPT) -> dict[str, torch.Tensor]:
    return {name: p.detach().clone() for name, p in gpt.named_parameters()}


def curve(folder: Path) -> list[dict[str, Any]]:
    """The metrics but for the time they took."""
    lines = [json.loads(line) for line in (folder / METRICS).read_bytes().splitlines()]
    return [{name: v for name, v in line.items() if name != "seconds"} for line in lines]


def train(folder: Path, seconds: float = NEVER, **changes: Any) -> dict[str, torch.Tensor]:
    folder.mkdir(exist_ok=True)
    gpt, run = loop(folder, read(folder, **changes), seconds)
    run.run()
    return weights(gpt)


def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor]) -> bool:
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture(scope="module", params=ODD, ids=["dropout", "muon"])
def whole(tmp_path_factory, request):
    """Weights and curve of a run that nothing disturbed, and what is odd about it."""
    folder = tmp_path_factory.mktemp("whole")
    return train(folder, **request.param), curve(folder), request.param


@pytest.mark.slow
def test_it_learns(whole):
    _, steps, _ = whole
    assert [step["step"] for step in steps] == list(range(1, len(steps) + 1))
    assert len(steps) > 12
    loss = [step["nats_per_fragment"] for step in steps]
    assert sum(loss[-4:]) < 0.7 * sum(loss[:4])
    held_out = {s["step"]: d for s in steps if (d := s["dev_nats_per_fragment"]) is not None}
    assert list(held_out) == [*range(5, len(steps), 5), len(steps)]
    assert held_out[len(steps)] < 0.8 * held_out[5]
    assert steps[-1]["tokens"] >= 12_000 > steps[-2]["tokens"]


class Clock:
    """A clock on which some time passes each time that somebody looks."""

    def __init__(self, seconds: float) -> None:
        self.now, self._seconds = 0.0, seconds

    def __call__(self) -> float:
        self.now += self._seconds
        return self.now


def test_a_run_that_its_time_ends_has_cooled_down_and_is_validated(tmp_path):
    clock = Clock(1.0)
    recipe = read(tmp_path, warmup=0.0, floor=0.01)
    _, run = loop(tmp_path, recipe, NEVER, 60.0, clock)
    learn = run._learn

    def slowly_at_first(*given: Any) -> Any:
        clock.now += 25.0 * (clock.now < 10)
        return learn(*given)

    # the step that compiles a model takes of the time, but not of the schedule
    run._learn = slowly_at_first
    last = run.run()
    steps = curve(tmp_path)
    assert last.tokens < recipe.schedule.tokens
    assert 60 <= last.seconds < 70
    assert last.dev_nats_per_fragment is not None
    rates = [step["learning_rate"] for step in steps]
    assert rates == sorted(rates, reverse=True)
    assert rates[1] > 0.9 * 0.01
    assert rates[-1] < 0.05 * 0.01


class Uncompilable:
    """A compiled model of which the second batch fails, as where there is no compiler."""

    def __init__(self, model: GPT) -> None:
        self.logits, self._models = model.logits, iter([model])

    def __call__(self, tokens: torch.Tensor) -> Any:
        for model in self._models:
            return model(tokens)
        raise RuntimeError("no C compiler was found")


def test_a_model_that_cannot_be_compiled_is_trained_as_it_is(tmp_path):
    plain, compiled = tmp_path / "plain", tmp_path / "compiled"
    for folder in (plain, compiled):
        folder.mkdir()
    recipe = read(tmp_path, accumulate=2, tokens=3_000)
    model, run = loop(plain, recipe, NEVER)
    run.run()
    same, other = loop(compiled, recipe, NEVER)
    other._forward = Uncompilable(same)
    with pytest.warns(UserWarning, match="trains slower: no C compiler was found"):
        other.run()
    assert all(torch.equal(one, same.state_dict()[key]) for key, one in model.state_dict().items())


def test_the_time_is_that_of_all_processes_of_a_run(tmp_path):
    def die(step: Step) -> None:
        if step.step == 3:
            raise Killed

    recipe = read(tmp_path)
    with pytest.raises(Killed):
        loop(tmp_path, recipe, 0.0, 60.0, Clock(1.0))[1].run(die)
    done = json.loads((tmp_path / METRICS).read_bytes().splitlines()[1])["seconds"]
    assert 60 <= loop(tmp_path, recipe, NEVER, 60.0, Clock(1.0))[1].run().seconds < 70
    again = [json.loads(line)["seconds"] for line in (tmp_path / METRICS).read_bytes().splitlines()]
    assert again == sorted(again)
    assert done in again


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_killed_at_ten_random_steps_it_ends_with_the_same_weights(tmp_path, whole, seed):
    rng, now = random.Random(seed), 0.0

    def clock() -> float:  # checkpoints at random steps, too
        nonlocal now
        now += rng.random()
        return now

    def die(step: Step) -> None:
        if rng.random() < 0.3:
            raise Killed

    recipe, kills = read(tmp_path, **whole[2]), 0
    while kills < 10:
        _, run = loop(tmp_path, recipe, 5.0, clock=clock)
        try:
            run.run(die)
        except Killed:
            kills += 1
        else:  # it came to its end first: begin again
            for name in (METRICS, CHECKPOINT):
                (tmp_path / name).unlink(missing_ok=True)
    gpt, run = loop(tmp_path, recipe)
    last = run.run()
    assert same(weights(gpt), whole[0])
    assert curve(tmp_path) == whole[1]
    assert last.step == len(whole[1])


def test_a_finished_run_is_not_trained_further(tmp_path):
    first = train(tmp_path, tokens=2_000)
    before = (tmp_path / METRICS).read_bytes()
    assert same(train(tmp_path, tokens=2_000), first)
    assert (tmp_path / METRICS).read_bytes() == before


def test_an_interrupt_waits_for_the_step_and_leaves_a_checkpoint(tmp_path, whole):
    recipe = read(tmp_path, **whole[2])

    def press(step: Step) -> None:
        if step.step in (3, 7):
            signal.raise_signal(signal.SIGINT)

    handler = signal.getsignal(signal.SIGINT)
    for step in (3, 7):
        _, run = loop(tmp_path, recipe, NEVER)
        with pytest.raises(KeyboardInterrupt):
            run.run(press)
        progress = read_progress(tmp_path)
        assert progress.step == step
        assert signal.getsignal(signal.SIGINT) is handler
    gpt, run = loop(tmp_path, recipe, NEVER)
    run.run()
    assert same(weights(gpt), whole[0])
    assert curve(tmp_path) == whole[1]


def test_an_interrupt_in_the_last_step_is_not_lost(tmp_path):
    _, run = loop(tmp_path, read(tmp_path, tokens=1), NEVER)
    with pytest.raises(KeyboardInterrupt):
        run.run(lambda step: signal.raise_signal(signal.SIGINT))
    progress = read_progress(tmp_path)
    assert progress.step == 1


def test_a_second_interrupt_does_not_wait(tmp_path, monkeypatch):
    # only code of KBForge is interrupted at once
    monkeypatch.setitem(globals(), "__spec__", loop_module.__spec__)
    _, run = loop(tmp_path, read(tmp_path), NEVER)
    seen = []

    def press_twice(step: Step) -> None:
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        seen.append(step)

    with pytest.raises(KeyboardInterrupt):
        run.run(press_twice)
    assert seen == []
    assert read_progress(tmp_path) is None


def test_an_ignored_interrupt_stays_ignored(tmp_path):
    """A job in the background is not stopped by Ctrl-C in its terminal."""
    _, run = loop(tmp_path, read(tmp_path, tokens=1_500), NEVER)
    previous = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert run.run(lambda step: signal.raise_signal(signal.SIGINT)).tokens >= 1_500
    finally:
        signal.signal(signal.SIGINT, previous)


def test_it_trains_outside_the_main_thread(tmp_path):
    done: list[Step] = []
    _, run = loop(tmp_path, read(tmp_path, tokens=1), NEVER)
    thread = threading.Thread(target=lambda: done.append(run.run()))
    thread.start()
    thread.join()
    assert done[0].step == 1


def test_an_infinite_loss_ends_the_run_and_keeps_the_checkpoint(tmp_path):
    _, run = loop(tmp_path, read(tmp_path, learning_rate=1e30, clip=1e30))
    with pytest.raises(KBForgeError, match=r"the loss of step \d+ is (nan|inf): .* diverged"):
        run.run()
    assert read_progress(tmp_path) is not None
    assert all(abs(line["nats_per_token"]) < float("inf") for line in curve(tmp_path))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.unlink(),
        lambda path: path.write_bytes(b""),
        lambda path: path.write_bytes(path.read_bytes().replace(b'"step": 2', b'"step": x')),
        lambda path: path.write_bytes(b"[]\n3\n"),
    ],
)
def test_metrics_that_lack_steps_are_refused(tmp_path, spoil):
    train(tmp_path, tokens=2_000)
    spoil(tmp_path / METRICS)
    with pytest.raises(ModelError, match=r"metrics\.jsonl is damaged: it has \d of the \d+ steps"):
        train(tmp_path, tokens=2_000)


def test_a_line_that_a_kill_cut_short_is_dropped(tmp_path):
    first = train(tmp_path, tokens=2_000)
    expected = curve(tmp_path)
    with (tmp_path / METRICS).open("ab") as file:
        file.write(b'{"step": 9, "tok')
    assert same(train(tmp_path, tokens=2_000), first)
    assert curve(tmp_path) == expected


# The picture of a run's losses.


def metrics(path: Path, n: int, held_out_every: int = 5) -> Path:
    lines = []
    for step in range(1, n + 1):
        loss = 20 + 80 / step
        line = {
            "step": step,
            "tokens": 1_000 * step,
            "nats_per_token": loss / 20,
            "nats_per_fragment": loss,
            "dev_nats_per_fragment": None if step % held_out_every else loss + 5,
        }
        lines.append(json.dumps(line) + "\n")
    path.write_text("".join(lines), encoding="utf-8")
    return path


@pytest.mark.parametrize(("n", "every"), [(1, 1), (1, 2), (4, 5), (500, 50)])
@pytest.mark.parametrize("name", ["loss.png", "loss.svg"])
def test_any_run_can_be_drawn_and_gives_the_same_bytes(tmp_path, n, every, name):
    pytest.importorskip("matplotlib")
    drawn = []
    for copy in ("a", "b"):
        (tmp_path / copy).mkdir()
        draw_losses(metrics(tmp_path / "m.jsonl", n, every), tmp_path / copy / name)
        drawn.append((tmp_path / copy / name).read_bytes())
    assert drawn[0] == drawn[1]
    assert len(drawn[0]) > 4_000
    if name.endswith("svg"):
        text = drawn[0].decode()
        assert "<!-- nats per fragment -->" in text
        assert "<!-- training sets, smoothed -->" in text
        assert ("<!-- held-out sets -->" in text) == (n >= every)


def test_smoothing_is_the_loss_of_the_window_as_a_whole():
    rng = np.random.default_rng(0)
    nats, fragments = rng.uniform(1, 9, 300), rng.uniform(1, 5, 300)
    got = _smoothed(nats, fragments)
    for at in (0, 3, 150, 299):
        window = slice(max(0, at - 5), at + 6)
        assert got[at] == pytest.approx(nats[window].sum() / fragments[window].sum())
