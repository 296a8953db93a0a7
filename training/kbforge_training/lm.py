"""Training a language model from fragments to bundle.

    read       fragments -> entities, some held out to validate on
    tokenize   byte-level BPE of their keys and values
    fit        the loop, from its checkpoint if there is one
    bundle     weights, tokenizer, the surrogate's counts, metrics
    calibrate  alpha, on labelled fragments held out

While it runs, everything is in FOLDER.training: a run that was stopped or killed goes on from there
when it is started again with the same data and recipe.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import torch

from kbforge import registry
from kbforge.bundle import Bundle, add_file, write_bundle
from kbforge.calibrating import How, calibrate
from kbforge.calibration import fingerprint, to_toml
from kbforge.clustering import Choices
from kbforge.contracts import Fragment, Grammar
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge_plugins.likelihoods.ngram_prior import COUNTS_FILE, NgramCounts
from kbforge_training.batches import Batches
from kbforge_training.gpt import GPT, Shape
from kbforge_training.language_model import TOKENIZER, LanguageModel, to_bundle
from kbforge_training.loop import METRICS, Loop, Settings, Step, dev_batches
from kbforge_training.loss import GrammarLoss
from kbforge_training.recipe import Recipe
from kbforge_training.sets import Entity, by_entity
from kbforge_training.tokenizer import SetTokenizer, train_bpe

RUN = "run.json"

_HELD_OUT = 0.02  # of the entities, when no validation file is given
_MOST_HELD_OUT = 1_000
_BPE_VALUES = 2_000_000  # more would not change the pieces, only the time
_MOST_TO_CALIBRATE = 500


@dataclass(frozen=True, slots=True)
class Data:
    """What a run learns from, validates on, and is calibrated on."""

    train: Sequence[Fragment]
    dev: Sequence[Fragment] | None = None
    calibration: Sequence[Fragment] | None = None


@dataclass(frozen=True, slots=True)
class TrainedLm:
    """What training did.

    Attributes:
        parameters: of the model.
        fragments: read to learn from and to validate on.
        unlabelled: those of them without a label, each a set of its own.
        steps: of the optimiser.
        tokens: read in all of them.
        nats_per_fragment: validation loss at the end; None without held-out entities.
        alpha: calibrated concentration; None if there was nothing to calibrate on.
        notes: sentences for the user.

    """

    parameters: int
    fragments: int
    unlabelled: int
    steps: int
    tokens: int
    nats_per_fragment: float | None
    alpha: float | None
    notes: tuple[str, ...] = field(default=())


def train_lm(
    data: Data,
    folder: Path,
    recipe: Recipe,
    device: str = "cpu",
    checkpoint_seconds: float = 300.0,
    on_step: Callable[[Step], None] | None = None,
) -> TrainedLm:
    """Train, or go on training, and write the bundle.

    Args:
        data: fragments; labels say which belong together.
        folder: where the bundle goes; one that is there is replaced.
        recipe: everything else.
        device: "cpu" or "cuda".
        checkpoint_seconds: between checkpoints.
        on_step: called after each step.

    Raises:
        KBForgeError: nothing to learn from, or another run's checkpoint is in the way.
        ModelError: the bundle or a checkpoint cannot be written, or is damaged.

    """
    readable = [fragment for fragment in data.train if fragment.properties]
    if not readable:
        raise KBForgeError("no fragment has properties: there is nothing to learn from")
    if data.calibration is not None and all(f.label is None for f in data.calibration):
        raise KBForgeError("no fragment to calibrate on has a label")
    work = folder.with_name(f"{folder.name}.training")
    _begin(work, data, recipe)
    entities, unlabelled = by_entity(readable)
    entities, held_out = _held_out(entities, data.dev, recipe.schedule.seed)
    tokenizer = _tokenizer(work, readable, recipe)
    torch.manual_seed(recipe.schedule.seed)
    on = torch.device(device)
    gpt = GPT(_shape(recipe, tokenizer), recipe.schedule.dropout).to(on)
    schedule, context = recipe.schedule, recipe.shape.context
    loop = Loop(
        gpt,
        Batches(entities, tokenizer, recipe.sets, schedule.batch_tokens, context, schedule.seed),
        dev_batches(held_out, tokenizer, schedule.batch_tokens, context),
        GrammarLoss(tokenizer.table, on),
        schedule,
        Settings(work, on, checkpoint_seconds),
    )
    last = loop.run(on_step)
    model = LanguageModel(gpt, tokenizer, _training(recipe, last))
    write_bundle(folder, _bundle(model, data, work, entities))
    alpha, notes = _calibrate(folder, data.calibration, held_out)
    shutil.rmtree(work)
    return TrainedLm(
        parameters=sum(p.numel() for p in gpt.parameters()),
        fragments=len(readable),
        unlabelled=unlabelled,
        steps=last.step,
        tokens=last.tokens,
        nats_per_fragment=last.dev_nats_per_fragment,
        alpha=alpha,
        notes=tuple(notes),
    )


def _begin(work: Path, data: Data, recipe: Recipe) -> None:
    """Make the working folder, or check that the one there is of this very run."""
    run = {"recipe": recipe.to_json(), "train": fingerprint(data.train)}
    content = orjson.dumps(run, option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS)
    path = work / RUN
    where = quoted(str(work), 400)
    try:
        if not path.exists():
            work.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        elif path.read_bytes() != content:
            raise UsageError(
                f"{where} holds an unfinished run with other data or another recipe; "
                f"finish that one, or delete the folder"
            )
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise KBForgeError(f"cannot write {where}: {reason}") from error


def _held_out(
    entities: list[Entity], dev: Sequence[Fragment] | None, seed: int
) -> tuple[list[Entity], list[Entity]]:
    """(to learn from, to validate on)."""
    if dev is not None:
        return entities, by_entity(f for f in dev if f.properties)[0]
    n = min(int(len(entities) * _HELD_OUT), _MOST_HELD_OUT)
    chosen = set(np.random.default_rng(seed).permutation(len(entities))[:n].tolist())
    kept = [entity for number, entity in enumerate(entities) if number not in chosen]
    return kept, [entities[number] for number in sorted(chosen)]


def _tokenizer(work: Path, fragments: Iterable[Fragment], recipe: Recipe) -> SetTokenizer:
    grammar: Grammar = registry.create("grammars", recipe.grammar)
    path = work / TOKENIZER
    if path.exists():
        return SetTokenizer.from_bytes(grammar, path.read_bytes())
    values: list[str] = []
    for fragment in fragments:
        for attribute, of_attribute in fragment.properties.items():
            values += (attribute, *of_attribute)
        if len(values) >= _BPE_VALUES:
            break
    tokenizer = SetTokenizer(grammar, train_bpe(values, recipe.pieces))
    path.write_bytes(tokenizer.to_bytes())
    return tokenizer


def _shape(recipe: Recipe, tokenizer: SetTokenizer) -> Shape:
    s = recipe.shape
    return Shape(tokenizer.table.n_tokens, s.d_model, s.n_layers, s.n_heads, s.d_ff, s.context)


def _training(recipe: Recipe, last: Step) -> dict[str, Any]:
    return {
        "recipe": recipe.to_json(),
        "steps": last.step,
        "tokens": last.tokens,
        "dev_nats_per_fragment": last.dev_nats_per_fragment,
    }


def _bundle(model: LanguageModel, data: Data, work: Path, entities: Iterable[Entity]) -> Bundle:
    counts = NgramCounts.empty(2, ("name",))
    for entity in entities:
        for fragment in entity:
            counts.add(fragment)
    files = {METRICS: (work / METRICS).read_bytes(), COUNTS_FILE: counts.to_bytes()}
    about = {"fragments": len(data.train), "sha256": fingerprint(data.train)}
    return to_bundle(model, about, files)


def _calibrate(
    folder: Path, given: Sequence[Fragment] | None, held_out: Sequence[Entity]
) -> tuple[float | None, list[str]]:
    """Add alpha to the bundle; returns it, and what the user should know."""
    fragments = given
    if fragments is None:
        together = [entity for entity in held_out if len(entity) > 1]
        if not together:
            return None, [
                "not calibrated: no held-out entity has two fragments; "
                "kbforge calibrate finds alpha on labelled fragments"
            ]
        fragments = [f for entity in held_out for f in entity][:_MOST_TO_CALIBRATE]
    found = calibrate(fragments, Choices(likelihood=str(folder)), How())
    calibration = replace(found.calibration, likelihood=folder.name)
    add_file(folder, "calibration.toml", to_toml(calibration))
    return calibration.alpha, list(found.notes)
