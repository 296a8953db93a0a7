"""A trained language model and its bundle: weights, tokenizer, surrogate, calibration.

    weights.safetensors   the model's tensors, bfloat16
    tokenizer.json        BPE pieces, as the tokenizers library writes them
    counts.json           character bigrams of names: the surrogate that proposes for the model
    metrics.jsonl         what each training step did
    loss.png              the same as a picture, if matplotlib was there
    calibration.toml      alpha, once calibrated
    MODEL_CARD.md         optional

The manifest's recipe names the grammar, its version and the digest of its rules, and the sizes of
the model; whatever of it does not fit the files or this installation is refused.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from kbforge import registry
from kbforge.contracts import Grammar
from kbforge.errors import ModelError, PluginError, quoted
from kbforge.models.bundle import Bundle
from kbforge_plugins.models.gpt.network import GPT, Shape
from kbforge_plugins.models.gpt.tokenizer import SetTokenizer
from kbforge_plugins.models.weights import (
    WEIGHTS,
    read_weights,
    require_sizes,
    require_weights,
    weights_of,
)

PLUGIN = "gpt"
TOKENIZER = "tokenizer.json"

_LARGEST = {
    "n_tokens": 1 << 16,
    "d_model": 1 << 14,
    "n_layers": 1 << 10,
    "n_heads": 1 << 10,
    "d_ff": 1 << 16,
    "context": 1 << 16,
}


@dataclass(frozen=True)
class LanguageModel:
    """A model and the tokenizer of its texts.

    Attributes:
        gpt: in evaluation mode, float32.
        tokenizer: of the same vocabulary.
        training: how it was trained (JSON).

    """

    gpt: GPT
    tokenizer: SetTokenizer
    training: Mapping[str, Any] = field(default_factory=dict)


def to_bundle(model: LanguageModel, data: Mapping[str, Any], files: Mapping[str, bytes]) -> Bundle:
    """The bundle of a model, with further files such as the surrogate's counts."""
    grammar = model.tokenizer.grammar
    recipe = {
        "shape": dataclasses.asdict(model.gpt.shape),
        "grammar": {"name": grammar.name, "version": grammar.version, "sha256": _digest(grammar)},
        "training": dict(model.training),
    }
    weights = weights_of(model.gpt, torch.bfloat16)
    own = {WEIGHTS: weights, TOKENIZER: model.tokenizer.to_bytes()}
    return Bundle("likelihoods", PLUGIN, {**own, **files}, recipe, data)


def from_bundle(bundle: Bundle, where: str) -> LanguageModel:
    """The model of a bundle.

    Args:
        bundle: its hashes are already verified.
        where: how to call it in errors.

    Raises:
        ModelError: with what differs.

    """
    bundle.require_of(PLUGIN, where)
    for name in (WEIGHTS, TOKENIZER):
        if name not in bundle.files:
            raise ModelError(f"{where} has no {name}: it is not a language model")
    shape = _shape(bundle.recipe.get("shape"), where)
    grammar = _grammar(bundle.recipe.get("grammar"), where)
    try:
        tokenizer = SetTokenizer.from_bytes(grammar, bundle.files[TOKENIZER])
    except ModelError as error:
        raise ModelError(f"{where}: {TOKENIZER}: {error}") from error
    if tokenizer.table.n_tokens != shape.n_tokens:
        raise ModelError(
            f"{where}: its tokenizer has {tokenizer.table.n_tokens} tokens with the grammar "
            f"{grammar.name}, its weights are for {shape.n_tokens}"
        )
    gpt = _gpt(shape, bundle.files[WEIGHTS], where)
    training = bundle.recipe.get("training")
    return LanguageModel(gpt.eval(), tokenizer, training if isinstance(training, dict) else {})


def _digest(grammar: Grammar) -> str:
    return hashlib.sha256(grammar.rules.encode()).hexdigest()


def _shape(found: Any, where: str) -> Shape:
    if not isinstance(found, dict) or set(found) != set(_LARGEST):
        raise ModelError(f"{where}: its recipe should give {', '.join(_LARGEST)} as its shape")
    require_sizes(found, _LARGEST, where)
    shape = Shape(**found)
    if shape.d_model % (2 * shape.n_heads):
        raise ModelError(
            f"{where}: shape: d_model {shape.d_model} is not a multiple of twice its "
            f"{shape.n_heads} heads"
        )
    return shape


def _grammar(found: Any, where: str) -> Grammar:
    if not isinstance(found, dict) or set(found) != {"name", "version", "sha256"}:
        raise ModelError(f"{where}: its recipe should name a grammar, its version and its sha256")
    try:
        grammar: Grammar = registry.create("grammars", str(found["name"]))
    except PluginError as error:
        raise ModelError(f"{where}: its grammar: {error}") from error
    if grammar.version != found["version"]:
        raise ModelError(
            f"{where} was trained on version {quoted(repr(found['version']))} of the grammar "
            f"{grammar.name}; installed is version {grammar.version}"
        )
    if _digest(grammar) != found["sha256"]:
        raise ModelError(
            f"{where}: the rules of the grammar {grammar.name} are not those it was trained on: "
            f"SHA-256 {_digest(grammar)[:12]}… here, {quoted(str(found['sha256'])[:12])}… there"
        )
    return grammar


def _gpt(shape: Shape, content: bytes, where: str) -> GPT:
    """The model with its weights; a shape that they do not fit costs nothing, however large."""
    stored = read_weights(content, where)
    n = sum(tensor.numel() for tensor in stored.values())
    if n != shape.parameters:
        raise ModelError(
            f"{where}: {WEIGHTS} holds {n:,} numbers, a model of its shape {shape.parameters:,}"
        )
    gpt = GPT(shape)
    require_weights(stored, gpt.state_dict(), torch.bfloat16, where)
    gpt.load_state_dict(stored)
    return gpt
