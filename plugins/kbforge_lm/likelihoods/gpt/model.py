"""The language model: tokenizer, network and bundle.

*Tokenizer.* Text of sets to tokens: symbols of the grammar, byte-level BPE inside its
strings. Any Unicode text has tokens (all 256 bytes are pieces) and equal texts have equal tokens,
so a model's score is a function of the text. Values are read with a space before them (see
`kbforge_lm.grammar.tokens`).

*Network.* A decoder-only transformer over tokens of a grammar: pre-norm blocks of causal
self-attention and SwiGLU, RMSNorm, rotary positions, tied embeddings, no biases (split-SMC paper,
appendix D.2.1; Shazeer 2020; Su et al. 2024; Zhang and Sennrich 2019). Shapes: B sequences of T
tokens, D = d_model, H heads, V tokens in the vocabulary.

*Bundle.* Weights, tokenizer, surrogate, calibration:

    weights.safetensors   the model's tensors, bfloat16
    tokenizer.json        BPE pieces, as the tokenizers library writes them
    counts.json           character bigrams of names: the surrogate that proposes for the model
    metrics.jsonl         what each training step did
    loss.png              the same as a picture, if matplotlib was there
    calibration.toml      alpha, once calibrated
    MODEL_CARD.md         optional

The manifest's recipe names the grammar, its version and the digest of its rules, and the sizes of
the model. A bundle is loaded strictly: every tensor is there, finite and of its size, and the rules
are those of this installation.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from safetensors import SafetensorError
from safetensors.torch import load, save
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor, nn

from kbforge import registry
from kbforge.contracts import Fragment, Serializer
from kbforge.errors import GrammarError, ModelError, quoted
from kbforge.models.bundle import Bundle
from kbforge_grammars import Grammar
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.grammar.tokens import Codec

_MOST_CACHED = 1 << 17  # values whose pieces are cached, because names recur
# a word with the space before it, at most two digits, or another sign with its space: dates and
# numbers share pieces, and a name has the same pieces everywhere
_WORDS = Regex(r" ?\p{L}[\p{L}\p{M}']*| ?\p{N}{1,2}| ?[^\s\p{L}\p{N}]|\s+(?!\S)|\s+")


def pieces_of(bpe: Tokenizer) -> list[bytes]:
    """The bytes of each piece, by number; a ModelError unless byte-level and numbered from 0."""
    byte_of = _bytes_of_characters()
    vocabulary = sorted(bpe.get_vocab().items(), key=lambda item: item[1])
    if [number for _, number in vocabulary] != list(range(len(vocabulary))):
        raise ModelError("the tokenizer's pieces are not numbered from 0 without gaps")
    for piece, _ in vocabulary:
        if not piece or not all(character in byte_of for character in piece):
            raise ModelError(f'the tokenizer is not byte-level: it has the piece "{quoted(piece)}"')
    return [bytes(byte_of[character] for character in piece) for piece, _ in vocabulary]


class SetTokenizer(Codec):
    """Tokens of sets of fragments under a grammar, with byte-level BPE inside strings."""

    def __init__(self, grammar: Grammar, bpe: Tokenizer) -> None:
        super().__init__(grammar, pieces_of(bpe), self._pieces_in)
        self.grammar = grammar
        self.bpe = bpe
        self._serializer: Serializer = registry.create("serializers", grammar.name)
        self._known: dict[str, list[int]] = {}

    @classmethod
    def from_bytes(cls, grammar: Grammar, content: bytes) -> SetTokenizer:
        """Load the output of `to_bytes`; a ModelError unless it is a tokenizer set up like
        `untrained`."""
        try:
            bpe = Tokenizer.from_buffer(content)
        except (ValueError, TypeError) as error:
            raise ModelError(f"not a tokenizer: {quoted(str(error), 200)}") from error
        _check(bpe)
        return cls(grammar, bpe)

    def to_bytes(self) -> bytes:
        """The pieces, as the tokenizers library writes them."""
        text: str = self.bpe.to_str()
        return text.encode()

    def text(self, fragments: Sequence[Fragment]) -> str:
        """The canonical text of a set."""
        return self._serializer.serialize(fragments)

    def _pieces_in(self, content: str) -> list[int]:
        found = self._known.get(content)
        if found is None:
            if len(self._known) >= _MOST_CACHED:
                self._known.clear()
            found = self._known[content] = self.bpe.encode(content).ids
        return found


def untrained() -> Tokenizer:
    """Byte-level BPE without pieces, which defines how values are split into words and bytes
    written."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(_WORDS, "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    return bpe


def _check(bpe: Tokenizer) -> None:
    """Refuse settings other than those of `untrained`, and missing bytes."""
    found, expected = _settings(bpe), _settings(untrained())
    for name in sorted(found.keys() | expected.keys()):
        if found.get(name) != expected.get(name):
            raise ModelError(
                f"the tokenizer's {quoted(name)}: "
                f"expected {quoted(json.dumps(expected.get(name)))}, "
                f"got {quoted(json.dumps(found.get(name)))}"
            )
    missing = 256 - sum(len(piece) == 1 for piece in pieces_of(bpe))
    if missing:
        raise ModelError(f"the tokenizer lacks pieces for {missing} of the 256 bytes")


def _settings(bpe: Tokenizer) -> dict[str, object]:
    """The settings of a tokenizer, without pieces and merges."""
    settings: dict[str, Any] = json.loads(bpe.to_str())
    model: dict[str, Any] = settings.pop("model")
    return settings | {f"model.{k}": v for k, v in model.items() if k not in ("vocab", "merges")}


def _bytes_of_characters() -> dict[str, int]:
    """By printable character, the byte that it stands for in byte-level BPE (the GPT-2 table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    table = {chr(byte): byte for byte in printable}
    others = (byte for byte in range(256) if byte not in set(printable))
    return table | {chr(256 + number): byte for number, byte in enumerate(others)}


_ROTARY_BASE = 10_000.0
_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class GptShape:
    """Sizes of a model."""

    n_tokens: int  # V
    d_model: int = 256  # D, a multiple of twice n_heads
    n_layers: int = 10
    n_heads: int = 8  # H
    d_ff: int = 768  # width of the feed-forward layer
    context: int = 1024  # maximum tokens of a sequence

    @property
    def parameters(self) -> int:
        """Number of parameters."""
        d = self.d_model
        return self.n_tokens * d + self.n_layers * (4 * d * d + 3 * d * self.d_ff + 2 * d) + d


class GPT(nn.Module):
    """Hidden states and next-token logits of token sequences."""

    def __init__(self, shape: GptShape, dropout: float = 0.0) -> None:
        super().__init__()
        self.shape = shape
        self.embedding = nn.Embedding(shape.n_tokens, shape.d_model)
        self.blocks = nn.ModuleList(DecoderBlock(shape, dropout) for _ in range(shape.n_layers))
        self.norm = nn.RMSNorm(shape.d_model, eps=_EPSILON)
        self.dropout = dropout
        for name, module in self.named_modules():
            if isinstance(module, nn.Embedding | nn.Linear):
                # what a block adds to the stream is scaled by depth, which then does not change the
                # variance of the stream (GPT-2)
                is_added = name.endswith((".attended", ".down"))
                deep = math.sqrt(2 * shape.n_layers) if is_added else 1.0
                nn.init.normal_(module.weight, std=0.02 / deep)

    def forward(self, tokens: Tensor) -> Tensor:
        """Hidden states [B, T, D] of tokens [B, T], which may have padding at the end."""
        x = F.dropout(self.embedding(tokens), self.dropout, self.training)
        rotation = rotary(tokens.shape[1], self.shape.d_model // self.shape.n_heads, x)
        for block in self.blocks:
            x = block(x, rotation)
        hidden: Tensor = self.norm(x)
        return hidden

    def logits(self, hidden: Tensor) -> Tensor:
        """Next-token logits [..., V] of hidden states [..., D]."""
        return F.linear(hidden, self.embedding.weight)


class DecoderBlock(nn.Module):
    """x + attention(norm(x)), then x + feed_forward(norm(x))."""

    def __init__(self, shape: GptShape, dropout: float) -> None:
        super().__init__()
        d, f = shape.d_model, shape.d_ff
        self.n_heads = shape.n_heads
        self.dropout = dropout
        self.norm_attention = nn.RMSNorm(d, eps=_EPSILON)
        self.queries_keys_values = nn.Linear(d, 3 * d, bias=False)
        self.attended = nn.Linear(d, d, bias=False)
        self.norm_feed_forward = nn.RMSNorm(d, eps=_EPSILON)
        self.gate_and_up = nn.Linear(d, 2 * f, bias=False)
        self.down = nn.Linear(f, d, bias=False)

    def forward(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        """[B, T, D] -> [B, T, D]."""
        x = x + self._drop(self._attend(self.norm_attention(x), rotation))
        gate, up = self.gate_and_up(self.norm_feed_forward(x)).chunk(2, dim=-1)
        return x + self._drop(self.down(F.silu(gate) * up))

    def _attend(self, x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        b, t, d = x.shape
        split = self.queries_keys_values(x).view(b, t, 3, self.n_heads, d // self.n_heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)  # each [B, H, T, D/H]
        y = F.scaled_dot_product_attention(
            rotate(q, rotation), rotate(k, rotation), v, is_causal=True
        )
        attended: Tensor = self.attended(y.transpose(1, 2).reshape(b, t, d))
        return attended

    def _drop(self, x: Tensor) -> Tensor:
        return F.dropout(x, self.dropout, self.training)


def rotary(length: int, width: int, like: Tensor) -> tuple[Tensor, Tensor]:
    """Cosines and sines [T, width/2] of the angles by which positions turn pairs of features."""
    half = width // 2
    frequency = _ROTARY_BASE ** (-torch.arange(half, device=like.device) / half)
    angles = torch.outer(torch.arange(length, device=like.device), frequency)
    return angles.cos().to(like.dtype), angles.sin().to(like.dtype)


def rotate(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
    """Turn the feature pairs (i, i + width/2) of x [B, H, T, width] by their position's angle."""
    cos, sin = rotation
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


WEIGHTS = "weights.safetensors"


def weights_of(model: nn.Module, dtype: torch.dtype) -> bytes:
    """The tensors of a model as safetensors."""
    return save(
        {
            name: tensor.detach().to("cpu", dtype).contiguous()
            for name, tensor in model.state_dict().items()
        }
    )


def read_weights(content: bytes, where: str) -> dict[str, Tensor]:
    """Tensors by name; a ModelError if the content is damaged."""
    try:
        return load(content)
    except (SafetensorError, ValueError, KeyError) as error:
        raise ModelError(f"{where}: {WEIGHTS} is damaged: {quoted(str(error), 200)}") from error


def require_sizes(found: Mapping[str, Any], largest: Mapping[str, int], where: str) -> None:
    """Refuse sizes in a recipe that are not integers from one to their maximum."""
    for name, most in largest.items():
        if type(found[name]) is not int or not 1 <= found[name] <= most:
            raise ModelError(
                f"{where}: shape: {name}: expected 1 to {most:,}, got {quoted(repr(found[name]))}"
            )


def require_weights(
    stored: Mapping[str, Tensor], expected: Mapping[str, Tensor], dtype: torch.dtype, where: str
) -> None:
    """Refuse stored tensors that differ from those of a model of its shape, or are not finite."""
    for name in sorted(stored.keys() ^ expected.keys()):
        what = "has no tensor" if name in expected else "has an unknown tensor"
        raise ModelError(f"{where}: {WEIGHTS} {what} {quoted(name)}")
    for name, tensor in expected.items():
        found = stored[name]
        if found.shape != tensor.shape:
            raise ModelError(
                f"{where}: {WEIGHTS}: {name} has shape {tuple(found.shape)}, but its recipe "
                f"says {tuple(tensor.shape)}"
            )
        if found.dtype != dtype:
            raise ModelError(f"{where}: {WEIGHTS}: {name} is {found.dtype}, expected {dtype}")
        if not torch.isfinite(found).all():
            raise ModelError(f"{where}: {WEIGHTS}: {name} holds values that are not finite")


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
    """A model, in evaluation mode and float32, and the tokenizer of its texts."""

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
    """The model of a verified bundle; a ModelError, which names it `where`, if it does not fit."""
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
            f"{grammar.name}, but its weights are for {shape.n_tokens}"
        )
    gpt = _gpt(shape, bundle.files[WEIGHTS], where)
    training = bundle.recipe.get("training")
    return LanguageModel(gpt.eval(), tokenizer, training if isinstance(training, dict) else {})


def _digest(grammar: Grammar) -> str:
    return hashlib.sha256(grammar.rules.encode()).hexdigest()


def _shape(found: Any, where: str) -> GptShape:
    if not isinstance(found, dict) or set(found) != set(_LARGEST):
        raise ModelError(f"{where}: its recipe should give {', '.join(_LARGEST)} as its shape")
    require_sizes(found, _LARGEST, where)
    shape = GptShape(**found)
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
        grammar = grammar_called(str(found["name"]))
    except GrammarError as error:
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


def _gpt(shape: GptShape, content: bytes, where: str) -> GPT:
    """The model with its weights; it is not built if they do not fit its shape, however large."""
    stored = read_weights(content, where)
    n = sum(tensor.numel() for tensor in stored.values())
    if n != shape.parameters:
        raise ModelError(
            f"{where}: {WEIGHTS} holds {n:,} numbers, but a model of its shape "
            f"has {shape.parameters:,}"
        )
    gpt = GPT(shape)
    require_weights(stored, gpt.state_dict(), torch.bfloat16, where)
    gpt.load_state_dict(stored)
    return gpt
