"""Trains a language model from fragments to bundle, by a recipe.

    read       fragments -> entities, some held out to validate on
    tokenize   byte-level BPE of their keys and values
    fit        the loop, from its checkpoint if there is one
    draft      weights, tokenizer, the surrogate's counts, metrics
    calibrate  the draft's alpha, on labelled fragments held out
    publish    the bundle, whole, under its name

During the run everything is in FOLDER.training: a stopped or killed run resumes from there when it
is started again with the same data and recipe. The folder is removed in one step, after the bundle
is in place.

*Recipes* have every number of a training run, in one TOML file, which is read strictly:

    description = "..."
    grammar = "canonical-json"
    pieces = 1200
    calibrate = 500   # held-out fragments at most that alpha is chosen on
    [shape]       # ModelSizes
    [sets]        # data.SetRule
    [schedule]    # recipes.Schedule
    [pairs]       # batches.PairRule; without it there are none

`recipes/` holds the ones that ship.
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, pre_tokenizers, trainers
from torch import Tensor

from kbforge.contracts import Fragment
from kbforge.errors import KBForgeError, UsageError, quoted
from kbforge.files.io import open_output, require_writable
from kbforge.fit.alpha import CALIBRATION_FILE, fingerprint, to_toml
from kbforge.fit.calibrate import calibrate
from kbforge.fit.choices import RunOptions
from kbforge.models.bundle import (
    Bundle,
    add_file,
    read_bundle,
    require_device,
    require_place,
    write_bundle,
)
from kbforge_grammars import VERSIONS, grammar
from kbforge_lm.likelihoods.gpt.model import (
    GPT,
    TOKENIZER,
    GptShape,
    LanguageModel,
    SetTokenizer,
    to_bundle,
    untrained,
    weights_of,
)
from kbforge_lm.likelihoods.ngram import COUNTS_FILE, NgramCounts
from kbforge_training.fitting.loop import Loop, LoopSettings, Step, metrics_and_picture
from kbforge_training.fitting.recipes import (
    Schedule,
    from_table,
    is_finite,
    is_share,
    read_table,
    require,
    require_schedule,
)
from kbforge_training.fitting.run_folder import (
    alone_in,
    begin_run,
    folder_of_run,
    going_on,
    read_progress,
    remove_run,
)
from kbforge_training.lm.batches import (
    Batches,
    GrammarLoss,
    PairLoss,
    PairRule,
    SetPairs,
    dev_batches,
)
from kbforge_training.lm.data import Data, Entity, Examples, SetRule, examples_of


@dataclass(frozen=True, slots=True)
class ModelSizes:
    """Sizes of the model; see `GptShape`."""

    d_model: int
    n_layers: int
    n_heads: int
    d_ff: int
    context: int


@dataclass(frozen=True, slots=True)
class Recipe:
    """Everything that determines a training run except its data."""

    description: str
    grammar: str
    pieces: int
    shape: ModelSizes
    sets: SetRule
    schedule: Schedule
    pairs: PairRule = dataclasses.field(default_factory=PairRule)
    calibrate: int = 500  # held-out fragments at most; the time grows with their square


def read_recipe(name_or_path: str) -> Recipe:
    """A recipe that ships, by name, or that of a file; a UsageError if it is none."""
    table, where = read_table(name_or_path)
    sections: dict[str, type[Any]] = {"shape": ModelSizes, "sets": SetRule, "schedule": Schedule}
    if "pairs" in table:
        sections["pairs"] = PairRule
    recipe = from_table(Recipe, table, sections, where)
    _check(recipe, where)
    return recipe


def _check(recipe: Recipe, where: str) -> None:
    shape, sets, pairs = recipe.shape, recipe.sets, recipe.pairs
    if recipe.grammar not in VERSIONS:
        raise UsageError(
            f'{where}: there is no grammar "{quoted(recipe.grammar)}", expected one of '
            f"{', '.join(VERSIONS)}"
        )
    require_schedule(recipe.schedule, where)
    whole = {**dataclasses.asdict(shape), "draws": sets.draws, "largest": sets.largest}
    whole |= {"per_step": pairs.per_step, "calibrate": recipe.calibrate}
    # a sequence of one token would be its beginning alone
    require(where, "at least 2", lambda n: n >= 2, context=shape.context)
    require(where, "at least 1", lambda n: n >= 1, **whole)
    if shape.d_model % (2 * shape.n_heads):
        raise UsageError(
            f"{where}: d_model {shape.d_model} is not a multiple of 2 x n_heads {shape.n_heads}"
        )
    require(where, "256 to 30,000", lambda n: 256 <= n <= 30_000, pieces=recipe.pieces)
    require(where, "0 to 1", is_share, views=sets.views, variants=sets.variants)
    require(where, "0 or more", is_finite, weight=pairs.weight, offset=pairs.offset)


def train_bpe(values: Iterable[str], size: int) -> Tokenizer:
    """Byte-level BPE of `size` pieces, from values as often as they occur."""
    bpe = untrained()
    trainer = trainers.BpeTrainer(
        vocab_size=size,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator((f" {value}" for value in values), trainer)
    return bpe


def add_alpha(
    draft: Path,
    name: str,
    given: Sequence[Fragment] | None,
    held_out: Sequence[Entity],
    most: int,
    device: str,
    say: Callable[[str], None],
) -> float | None:
    """Add alpha to the draft of a bundle to be called `name`; a failure only leaves it out.

    It is chosen on the fragments given, or on so many of those held out at most.
    """
    fragments = _to_calibrate_on(held_out, most) if given is None else list(given)
    later = "kbforge calibrate finds alpha on labelled fragments"
    if not fragments:
        say(f"note: not calibrated: no held-out labelled entity has two fragments; {later}")
        return None
    say(f"calibrating on {len(fragments):,} fragments")
    # the faster precision may change between runs, and with it the last digits
    options = {"likelihood": {"precision": "fp32"}} if device == "cpu" else {}
    choices = RunOptions(likelihood=str(draft), device=device, options=options)
    try:
        found, *_ = calibrate(fragments, choices)
    except KBForgeError as error:
        say(f"note: not calibrated: {error}; {later}")
        return None
    if found.at_edge:
        say(f"note: not calibrated: the labels do not bound alpha; {later}")
        return None
    calibration = replace(found, likelihood=name)
    add_file(draft, CALIBRATION_FILE, to_toml(calibration))
    return calibration.alpha


def _to_calibrate_on(held_out: Sequence[Entity], most: int) -> list[Fragment]:
    """Fragments of whole labelled entities in random order; none if all are of one fragment."""
    labelled = [entity for entity in held_out if entity[0].label is not None]
    chosen: list[Fragment] = []
    for number in np.random.default_rng(0).permutation(len(labelled)):
        if chosen and len(chosen) + len(labelled[number]) > most:
            break
        chosen += labelled[number]
    return chosen if len({f.label for f in chosen}) < len(chosen) else []


DRAFT = "model"

_BPE_FRAGMENTS = 200_000  # more would not change the pieces, only the time
_VALIDATE_EVERY, _LEAST_VALIDATIONS = 250, 10  # steps; more often in short runs

Say = Callable[[str], None]


def train_lm(
    data: Data,
    folder: Path,
    recipe: Recipe,
    device: str = "cpu",
    checkpoint_seconds: float = 300.0,
    on_step: Callable[[Step], None] | None = None,
    say: Say = lambda sentence: None,
    most_seconds: float = math.inf,
    workers: int = 0,
) -> dict[str, Any]:
    """Train, or go on training, and write the bundle; returns what `--json` prints.

    Args:
        data: fragments; labels say which belong together.
        folder: of the bundle; an old bundle is replaced.
        recipe: everything else.
        device: "cpu" or "cuda".
        checkpoint_seconds: between checkpoints.
        on_step: called after each step.
        say: called with sentences for the user, as things happen.
        most_seconds: of training; a run that they end is as complete as one that its tokens end.
        workers: processes that draw the training sets; 0 is this one. The sets are the same.

    Raises:
        KBForgeError: nothing to learn from, another run's checkpoint is in the way, or the loss
            became infinite.
        UsageError: no usable GPU, or no processes to draw sets in.
        ModelError: the bundle or a checkpoint cannot be written, or is damaged.
        KeyboardInterrupt: Ctrl-C; the run's folder has a checkpoint.

    """
    require_device(device)
    require_output(folder)
    examples = examples_of(data, recipe.schedule.seed, say)
    work = folder_of_run(folder)
    recipe = _shaped_like(data.start, recipe)
    begin_run(work, _run(data, recipe))
    with alone_in(work):
        if progress := read_progress(work):
            say(going_on(progress, recipe.schedule.tokens, "tokens"))
        tokenizer = _tokenizer(work, data.start, examples.fragments, recipe)
        on, every = torch.device(device), _validate_every(recipe.schedule)
        settings = LoopSettings(work, on, checkpoint_seconds, every, most_seconds)
        gpt = _first_weights(data.start, tokenizer, recipe).to(on)
        last = _fit(gpt, examples, tokenizer, recipe, settings, on_step, workers)
        model = LanguageModel(gpt, tokenizer, _training(recipe, last))
        alpha = _write(model, folder, work, data, examples, recipe.calibrate, device, say)
        remove_run(work)
    return {
        "parameters": sum(p.numel() for p in gpt.parameters()),
        "fragments": len(examples.fragments),  # with properties, to learn from and to validate on
        "unlabelled": examples.unlabelled,  # each a set of its own
        "entities": len(examples.entities),  # learned from
        "held_out": len(examples.held_out),  # entities validated on
        "steps": last.step,
        "tokens": last.tokens,
        "nats_per_fragment": last.dev_nats_per_fragment,  # validation loss at the end
        "alpha": alpha,  # None if the labels do not determine it
    }


def _write(
    model: LanguageModel,
    folder: Path,
    work: Path,
    data: Data,
    examples: Examples,
    most: int,
    device: str,
    say: Say,
) -> float | None:
    """Write the bundle with an alpha, which is chosen on at most so many held-out fragments."""
    draft = work / DRAFT
    write_bundle(draft, _bundle(model, data, work, examples.entities, say))
    alpha = add_alpha(draft, folder.name, data.calibration, examples.held_out, most, device, say)
    write_bundle(folder, read_bundle(draft))
    return alpha


def require_output(folder: Path) -> None:
    """Refuse an output folder that cannot be made or is no bundle, before long work."""
    require_place(folder)
    require_writable(str(folder))


def _run(data: Data, recipe: Recipe) -> dict[str, Any]:
    """What identifies a run."""
    return {
        "recipe": dataclasses.asdict(recipe),
        "fragments": fingerprint(data.train),
        "validation fragments": None if data.dev is None else fingerprint(data.dev),
        "first model": None if data.start is None else _digest(data.start.gpt),
    }


def _digest(gpt: GPT) -> str:
    return hashlib.sha256(weights_of(gpt, torch.float32)).hexdigest()


def _shaped_like(start: LanguageModel | None, recipe: Recipe) -> Recipe:
    """The recipe with the sizes and grammar of the first model, if there is one."""
    if start is None:
        return recipe
    sizes = dataclasses.asdict(start.gpt.shape)
    del sizes["n_tokens"]
    return replace(recipe, shape=ModelSizes(**sizes), grammar=start.tokenizer.grammar.name)


def _tokenizer(
    work: Path, start: LanguageModel | None, fragments: Sequence[Fragment], recipe: Recipe
) -> SetTokenizer:
    """The tokenizer of the first model, of the run that continues, or a new one."""
    if start is not None:
        return start.tokenizer
    made = grammar(recipe.grammar)
    path = work / TOKENIZER
    if path.exists():
        return SetTokenizer.from_bytes(made, path.read_bytes())
    sample = random.Random(0).sample(fragments, min(len(fragments), _BPE_FRAGMENTS))
    values = (
        text
        for fragment in sample
        for attribute, of_attribute in fragment.properties.items()
        for text in (attribute, *of_attribute)
    )
    tokenizer = SetTokenizer(made, train_bpe(values, recipe.pieces))
    with open_output(str(path)) as out:
        out.write(tokenizer.to_bytes())
    return tokenizer


def _first_weights(start: LanguageModel | None, tokenizer: SetTokenizer, recipe: Recipe) -> GPT:
    s, schedule = recipe.shape, recipe.schedule
    shape = GptShape(tokenizer.table.n_tokens, s.d_model, s.n_layers, s.n_heads, s.d_ff, s.context)
    torch.manual_seed(schedule.seed)
    gpt = GPT(shape, schedule.dropout)
    if start is not None:
        gpt.load_state_dict(start.gpt.state_dict())
    return gpt


def _fit(
    gpt: GPT,
    examples: Examples,
    tokenizer: SetTokenizer,
    recipe: Recipe,
    settings: LoopSettings,
    on_step: Callable[[Step], None] | None,
    workers: int,
) -> Step:
    """Train the model in place; returns the last step."""
    context, schedule = recipe.shape.context, recipe.schedule
    budget, seed = schedule.batch_tokens, schedule.seed
    loss = GrammarLoss(tokenizer.table, settings.device)
    rule = recipe.pairs
    set_pairs = SetPairs(examples.entities, recipe.sets, seed)
    pair_loss = PairLoss(loss, tokenizer, rule.offset, context, budget)

    def loss_of_step(model: GPT, step: int) -> Tensor:
        return pair_loss(model, set_pairs.draw(step, rule.per_step))

    loop = Loop(
        gpt,
        Batches(examples.entities, tokenizer, recipe.sets, budget, context, seed, workers).stream,
        dev_batches(examples.held_out, tokenizer, budget, context),
        loss,
        schedule,
        settings,
        (rule.weight, loss_of_step) if rule.weight else None,
    )
    return loop.run(on_step)


def _validate_every(schedule: Schedule) -> int:
    steps = schedule.tokens // (schedule.batch_tokens * schedule.accumulate)
    return min(max(1, steps // _LEAST_VALIDATIONS), _VALIDATE_EVERY)


def _training(recipe: Recipe, last: Step) -> dict[str, Any]:
    return {
        "recipe": dataclasses.asdict(recipe),
        "steps": last.step,
        "tokens": last.tokens,
        "dev_nats_per_fragment": last.dev_nats_per_fragment,
    }


def _bundle(
    model: LanguageModel, data: Data, work: Path, entities: Iterable[Entity], say: Say
) -> Bundle:
    counts = NgramCounts.empty(2, ("name",))
    for entity in entities:
        counts.add(entity)
    files = {**metrics_and_picture(work, say), COUNTS_FILE: counts.to_bytes()}
    about = {"fragments": len(data.train), "sha256": fingerprint(data.train)}
    return to_bundle(model, about, files)
