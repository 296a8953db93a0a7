"""Training a language model from fragments to bundle.

    read       fragments -> entities, some held out to validate on
    tokenize   byte-level BPE of their keys and values
    fit        the loop, from its checkpoint if there is one
    draft      weights, tokenizer, the surrogate's counts, metrics
    calibrate  the draft's alpha, on labelled fragments held out
    publish    the bundle, whole, under its name

While it runs, everything is in FOLDER.training: a run that was stopped or killed, wherever it was,
goes on from there when it is started again with the same data and recipe. That folder goes away in
one step, after the bundle is in place.
"""

from __future__ import annotations

import dataclasses
import hashlib
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from kbforge import registry
from kbforge.contracts import Fragment, Grammar
from kbforge.errors import KBForgeError
from kbforge.files.io import open_output, require_writable
from kbforge.jobs.calibrate import CalibrationSettings, calibrate
from kbforge.jobs.choices import Choices
from kbforge.models.bundle import Bundle, add_file, read_bundle, require_place, write_bundle
from kbforge.models.calibration import fingerprint, to_toml
from kbforge.models.devices import require_device
from kbforge_plugins.models.gpt.language_model import TOKENIZER, LanguageModel, to_bundle
from kbforge_plugins.models.gpt.network import GPT, Shape
from kbforge_plugins.models.gpt.tokenizer import SetTokenizer, train_bpe
from kbforge_plugins.models.ngram.prior import COUNTS_FILE, NgramCounts
from kbforge_plugins.models.weights import weights_of
from kbforge_training.batches import Batches
from kbforge_training.checkpoint import read_progress
from kbforge_training.loop import LearnPairs, Loop, Settings, Step, dev_batches
from kbforge_training.loss import GrammarLoss
from kbforge_training.loss_plot import metrics_and_picture
from kbforge_training.pairs import PairLoss, Pairs
from kbforge_training.recipe import Recipe, Schedule, Sizes
from kbforge_training.run_folder import alone_in, begin_run, folder_of_run, remove_run
from kbforge_training.sets import Entity, by_entity
from kbforge_training.told import going_on

DRAFT = "model"

_CALIBRATION = "calibration.toml"
# of the entities, when no validation file is given: 2 %, more of few, but never too many
_HELD_OUT, _MOST_PART_HELD_OUT = 0.02, 0.1
_ENOUGH_HELD_OUT, _MOST_HELD_OUT = 100, 1_000
_BPE_FRAGMENTS = 200_000  # more would not change the pieces, only the time
_MOST_TO_CALIBRATE = 500
_VALIDATE_EVERY, _LEAST_VALIDATIONS = 250, 10  # steps; more often in short runs

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Data:
    """What a run learns from, validates on and is calibrated on, and a model to begin with."""

    train: Sequence[Fragment]
    dev: Sequence[Fragment] | None = None
    calibration: Sequence[Fragment] | None = None
    start: LanguageModel | None = None


@dataclass(frozen=True, slots=True)
class TrainedLm:
    """What training did.

    Attributes:
        parameters: of the model.
        fragments: read to learn from and to validate on, those without properties left out.
        unlabelled: those of them without a label, each a set of its own.
        entities: learned from.
        held_out: entities validated on.
        steps: of the optimiser.
        tokens: read in all of them.
        nats_per_fragment: validation loss at the end; None without held-out entities.
        alpha: calibrated concentration; None if the labels do not say what it is.

    """

    parameters: int
    fragments: int
    unlabelled: int
    entities: int
    held_out: int
    steps: int
    tokens: int
    nats_per_fragment: float | None
    alpha: float | None


def train_lm(
    data: Data,
    folder: Path,
    recipe: Recipe,
    device: str = "cpu",
    checkpoint_seconds: float = 300.0,
    on_step: Callable[[Step], None] | None = None,
    say: Say = lambda sentence: None,
) -> TrainedLm:
    """Train, or go on training, and write the bundle.

    Args:
        data: fragments; labels say which belong together.
        folder: where the bundle goes; one that is there is replaced.
        recipe: everything else.
        device: "cpu" or "cuda".
        checkpoint_seconds: between checkpoints.
        on_step: called after each step.
        say: called with sentences for the user, as things happen.

    Raises:
        KBForgeError: nothing to learn from, another run's checkpoint is in the way, or the loss
            became infinite.
        UsageError: no usable GPU.
        ModelError: the bundle or a checkpoint cannot be written, or is damaged.
        KeyboardInterrupt: Ctrl-C; the run's folder has a checkpoint.

    """
    require_device(device)
    require_output(folder)
    readable = _readable(data)
    everyone, unlabelled = by_entity(readable)
    entities, held_out = _held_out(everyone, data.dev, recipe.schedule.seed)
    if warning := _warning(everyone, len(readable), unlabelled):
        say(warning)
    work = folder_of_run(folder)
    if data.start is not None:
        recipe = _shaped_like(data.start, recipe)
    begin_run(work, _run(data, recipe))
    with alone_in(work):
        if progress := read_progress(work):
            say(going_on(progress, recipe.schedule.tokens, "tokens"))
        start = data.start
        tokenizer = start.tokenizer if start else _tokenizer(work, readable, recipe)
        on = torch.device(device)
        settings = Settings(work, on, checkpoint_seconds, _validate_every(recipe.schedule))
        gpt = _first_weights(start, tokenizer, recipe).to(on)
        last = _fit(gpt, entities, held_out, tokenizer, recipe, settings, on_step)
        model = LanguageModel(gpt, tokenizer, _training(recipe, last))
        draft = work / DRAFT
        write_bundle(draft, _bundle(model, data, work, entities, say))
        alpha = _calibrate(draft, folder.name, data.calibration, held_out, device, say)
        write_bundle(folder, read_bundle(draft))
        remove_run(work)
    return TrainedLm(
        parameters=sum(p.numel() for p in gpt.parameters()),
        fragments=len(readable),
        unlabelled=unlabelled,
        entities=len(entities),
        held_out=len(held_out),
        steps=last.step,
        tokens=last.tokens,
        nats_per_fragment=last.dev_nats_per_fragment,
        alpha=alpha,
    )


def require_output(folder: Path) -> None:
    """Find out before long work that the bundle will have nowhere to go.

    Raises:
        KBForgeError: its folder cannot be made, or is not a bundle.

    """
    require_place(folder)
    require_writable(str(folder))


def _readable(data: Data) -> list[Fragment]:
    """The fragments to learn from; every complaint about data comes before the work."""
    readable = [fragment for fragment in data.train if fragment.properties]
    if not readable:
        raise KBForgeError("no fragment has properties: there is nothing to learn from")
    if data.dev is not None and not any(f.properties for f in data.dev):
        raise KBForgeError("no fragment to validate on has properties")
    if data.calibration is not None:
        if all(f.label is None for f in data.calibration):
            raise KBForgeError("no fragment to calibrate on has a label")
        if not any(f.properties for f in data.calibration if f.label is not None):
            raise KBForgeError("no labelled fragment to calibrate on has properties")
    return readable


def _warning(entities: Sequence[Entity], n_fragments: int, unlabelled: int) -> str:
    """What the model will not have learned, if the labels cannot teach it."""
    unknown = (
        "the model does not learn which observations belong to one entity (co-reference), "
        "only what entities look like"
    )
    if unlabelled == n_fragments:
        return f"warning: no fragment has a label: {unknown}"
    if all(len(entity) == 1 for entity in entities):
        return f"warning: no entity has two fragments: {unknown}"
    if unlabelled:
        return (
            f"warning: {unlabelled:,} of {n_fragments:,} fragments have no label: each is read as "
            f"an entity of its own, which teaches nothing about co-reference"
        )
    return ""


def _run(data: Data, recipe: Recipe) -> dict[str, Any]:
    """What makes a run this very one."""
    return {
        "recipe": recipe.to_json(),
        "fragments": fingerprint(data.train),
        "validation fragments": None if data.dev is None else fingerprint(data.dev),
        "first model": None if data.start is None else _digest(data.start.gpt),
    }


def _digest(gpt: GPT) -> str:
    return hashlib.sha256(weights_of(gpt, torch.float32)).hexdigest()


def _shaped_like(start: LanguageModel, recipe: Recipe) -> Recipe:
    """The recipe with what a model to begin with has decided: sizes and grammar."""
    sizes = dataclasses.asdict(start.gpt.shape)
    del sizes["n_tokens"]
    return replace(recipe, shape=Sizes(**sizes), grammar=start.tokenizer.grammar.name)


def _held_out(
    entities: list[Entity], dev: Sequence[Fragment] | None, seed: int
) -> tuple[list[Entity], list[Entity]]:
    """(to learn from, to validate on)."""
    if dev is not None:
        return entities, by_entity(f for f in dev if f.properties)[0]
    of_few = min(int(len(entities) * _MOST_PART_HELD_OUT), _ENOUGH_HELD_OUT)
    n = min(max(int(len(entities) * _HELD_OUT), of_few), _MOST_HELD_OUT)
    chosen = set(np.random.default_rng(seed).permutation(len(entities))[:n].tolist())
    kept = [entity for number, entity in enumerate(entities) if number not in chosen]
    return kept, [entities[number] for number in sorted(chosen)]


def _tokenizer(work: Path, fragments: Sequence[Fragment], recipe: Recipe) -> SetTokenizer:
    grammar: Grammar = registry.create("grammars", recipe.grammar)
    path = work / TOKENIZER
    if path.exists():
        return SetTokenizer.from_bytes(grammar, path.read_bytes())
    sample = random.Random(0).sample(fragments, min(len(fragments), _BPE_FRAGMENTS))
    values = (
        text
        for fragment in sample
        for attribute, of_attribute in fragment.properties.items()
        for text in (attribute, *of_attribute)
    )
    tokenizer = SetTokenizer(grammar, train_bpe(values, recipe.pieces))
    with open_output(str(path)) as out:
        out.write(tokenizer.to_bytes())
    return tokenizer


def _first_weights(start: LanguageModel | None, tokenizer: SetTokenizer, recipe: Recipe) -> GPT:
    s, schedule = recipe.shape, recipe.schedule
    shape = Shape(tokenizer.table.n_tokens, s.d_model, s.n_layers, s.n_heads, s.d_ff, s.context)
    torch.manual_seed(schedule.seed)
    gpt = GPT(shape, schedule.dropout)
    if start is not None:
        gpt.load_state_dict(start.gpt.state_dict())
    return gpt


def _fit(
    gpt: GPT,
    entities: Sequence[Entity],
    held_out: Sequence[Entity],
    tokenizer: SetTokenizer,
    recipe: Recipe,
    settings: Settings,
    on_step: Callable[[Step], None] | None,
) -> Step:
    """Train the model in place; returns the last step."""
    context, schedule = recipe.shape.context, recipe.schedule
    budget, seed = schedule.batch_tokens, schedule.seed
    loss = GrammarLoss(tokenizer.table, settings.device)
    learn = None
    if recipe.pairs.weight:
        learn = LearnPairs(
            Pairs(entities, recipe.sets, seed),
            PairLoss(loss, tokenizer, recipe.pairs.offset, context),
            recipe.pairs,
        )
    loop = Loop(
        gpt,
        Batches(entities, tokenizer, recipe.sets, budget, context, seed),
        dev_batches(held_out, tokenizer, budget, context),
        loss,
        schedule,
        settings,
        learn,
    )
    return loop.run(on_step)


def _validate_every(schedule: Schedule) -> int:
    steps = schedule.tokens // (schedule.batch_tokens * schedule.accumulate)
    return min(max(1, steps // _LEAST_VALIDATIONS), _VALIDATE_EVERY)


def _training(recipe: Recipe, last: Step) -> dict[str, Any]:
    return {
        "recipe": recipe.to_json(),
        "steps": last.step,
        "tokens": last.tokens,
        "dev_nats_per_fragment": last.dev_nats_per_fragment,
    }


def _bundle(
    model: LanguageModel, data: Data, work: Path, entities: Iterable[Entity], say: Say
) -> Bundle:
    counts = NgramCounts.empty(2, ("name",))
    for entity in entities:
        for fragment in entity:
            counts.add(fragment)
    files = {**metrics_and_picture(work, say), COUNTS_FILE: counts.to_bytes()}
    about = {"fragments": len(data.train), "sha256": fingerprint(data.train)}
    return to_bundle(model, about, files)


def _calibrate(
    draft: Path,
    name: str,
    given: Sequence[Fragment] | None,
    held_out: Sequence[Entity],
    device: str,
    say: Say,
) -> float | None:
    """Add alpha to the draft of a bundle that will be called `name`; returns it.

    A failure costs the calibration, not the model: alpha can be found later.
    """
    fragments = _to_calibrate_on(held_out) if given is None else list(given)
    later = "kbforge calibrate finds alpha on labelled fragments"
    if not fragments:
        say(f"note: not calibrated: no labelled entity held out has two fragments; {later}")
        return None
    say(f"calibrating on {len(fragments):,} fragments")
    # the precision that is faster may be another one next time, and so would be the last digits
    options = {"likelihood": {"precision": "fp32"}} if device == "cpu" else {}
    choices = Choices(likelihood=str(draft), device=device, options=options)
    try:
        found = calibrate(fragments, choices, CalibrationSettings())
    except KBForgeError as error:
        say(f"note: not calibrated: {error}; {later}")
        return None
    if found.calibration.at_edge:
        say(f"note: not calibrated: the labels do not bound alpha; {later}")
        return None
    calibration = replace(found.calibration, likelihood=name)
    add_file(draft, _CALIBRATION, to_toml(calibration))
    return calibration.alpha


def _to_calibrate_on(held_out: Sequence[Entity]) -> list[Fragment]:
    """Fragments of whole labelled entities in random order; none if all are of one fragment."""
    labelled = [entity for entity in held_out if entity[0].label is not None]
    chosen: list[Fragment] = []
    for number in np.random.default_rng(0).permutation(len(labelled)):
        if chosen and len(chosen) + len(labelled[number]) > _MOST_TO_CALIBRATE:
            break
        chosen += labelled[number]
    return chosen if len({f.label for f in chosen}) < len(chosen) else []
