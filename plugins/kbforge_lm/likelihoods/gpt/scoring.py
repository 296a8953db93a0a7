"""Scores many token sequences at once with the language model.

It is fast because of these, in order of effect: a beginning that several sets share is read once
(`Passage`); batches hold stretches of about equal length and few tokens, so there is little padding
and temporaries stay in the processor's cache; logits are computed only for legal tokens and a few
positions at a time, never as [B, T, V]; the weights are bfloat16 if the processor supports it.

*Windows* read sequences that are longer than the model's context. The first window has `context`
tokens. Each further one begins half a context before the first token not yet scored, or up to a
quarter earlier where the last fragment of that quarter begins. So every token is scored once, given
at least half a context before it.

*Reading on.* `PrefixReader` is `model.GPT` arranged for inference. The keys and values of earlier
tokens come in and those of new ones go out, so that a text is not read again for its continuation.
The feature pairs that a position turns lie side by side, as complex numbers. The layers' weights,
activations, keys and values are bfloat16; the residual stream and the logits stay in float32.

Shapes: B rows of at most S new tokens after at most P read before, N new tokens in all; D =
d_model, H heads of width W, L layers.
"""

from __future__ import annotations

import sys
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, TypeAlias, TypeVar

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge_lm.grammar.tokens import START, TokenTable
from kbforge_lm.likelihoods.gpt.model import GPT, DecoderBlock, LanguageModel, rotary

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
MEBIBYTE = 1 << 20
_SCORE_BYTES = 250  # of a score, without its key


class BoundedMemory(Generic[Key, Value]):
    """Values by key, bounded in bytes; the least recently used go first."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._entries: OrderedDict[Key, tuple[Value, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        """The value, None if it is not in memory."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: Key, value: Value, n_bytes: int) -> None:
        """Add a value of a size, its key included; a key that has a value keeps that one."""
        if key in self._entries:
            self._entries.move_to_end(key)
            return
        self._entries[key] = (value, n_bytes)
        self._bytes += n_bytes
        while self._bytes > self._most:
            _, (_, freed) = self._entries.popitem(last=False)
            self._bytes -= freed


def scores_by_key(
    memory: BoundedMemory[Key, float],
    sets: Mapping[Key, Value],
    score: Callable[[Mapping[Key, Value]], FloatArray],
) -> dict[Key, float]:
    """The scores of sets, in nats; `score` computes the new ones in one batch.

    The batch changes the last bits of a score, so the first score of a key stays.
    """
    found = {key: memory.get(key) for key in sets}
    scores = {key: value for key, value in found.items() if value is not None}
    missing = {key: one for key, one in sets.items() if key not in scores}
    if missing:
        for key, value in zip(missing, score(missing).tolist(), strict=True):
            scores[key] = value
            memory.put(key, value, sys.getsizeof(key) + _SCORE_BYTES)
    return scores


@dataclass(frozen=True, slots=True)
class Window:
    """A stretch of a sequence that the model reads by itself."""

    sequence: int
    tokens: Sequence[int]
    states: Sequence[int]  # of the grammar, before each token
    first: int  # the place of the first token that is scored here
    ends: Sequence[int]  # of passages: after each fragment, before `first`, after the last token
    keys: Sequence[bytes]  # identify what is read up to each end


def windows_of(
    sequence: int, tokens: Sequence[int], table: TokenTable, context: int
) -> Iterator[Window]:
    """The windows of a sequence; one if it fits into the context."""
    states = table.states(tokens)
    fragments = 1 + np.flatnonzero(
        table.may_end[states, np.array(tokens, dtype=np.int64)]
    )  # where a fragment ends, the next begins
    begin = done = 0
    while done < len(tokens):
        end = min(begin + context, len(tokens))
        inside = fragments[(fragments > begin) & (fragments < end)].tolist()
        ends = [at - begin for at in sorted({*inside, done, end} - {begin})]
        # the state is part of the text: it decides what may come
        content = np.array([states[begin], *tokens[begin:end]], dtype=np.uint16).tobytes()
        yield Window(
            sequence,
            tokens[begin:end],
            states[begin:end].tolist(),
            done - begin,
            ends,
            [content[: 2 * (1 + at)] for at in ends],
        )
        done = end
        begin = end - context // 2
        earlier = int(np.searchsorted(fragments, begin, side="right")) - 1
        # not much earlier, so that much of each window is new
        if earlier >= 0 and fragments[earlier] > end - 0.75 * context:
            begin = int(fragments[earlier])


_EPSILON = 1e-5
_HEAD_ROWS = 512  # positions whose logits exist at the same time


@dataclass(frozen=True, slots=True)
class _Layer:
    """The weights of a block, [out, in] each; those of norms are [in], in float32."""

    norm_attention: Tensor
    queries_keys_values: Tensor
    attended: Tensor
    norm_feed_forward: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


class PrefixReader:
    """Hidden states of token sequences, given the keys and values of what precedes them."""

    def __init__(self, gpt: GPT, device: torch.device, dtype: torch.dtype) -> None:
        shape = gpt.shape
        self._heads, self._width = shape.n_heads, shape.d_model // shape.n_heads
        self._device, self._dtype = device, dtype
        self._embedding = gpt.embedding.weight.detach().to(device)
        self._norm = gpt.norm.weight.detach().to(device)
        self._layers = [_layer(block, device, dtype) for block in gpt.blocks]  # type: ignore[arg-type]
        cos, sin = rotary(shape.context, self._width, torch.zeros(0, device=device))
        self._turns = torch.complex(cos, sin)  # [context, W/2]

    def room(self, rows: int, length: int) -> Tensor:
        """Keys and values of this many tokens, all zero, [L, 2, B, length, H, W]."""
        sizes = (len(self._layers), 2, rows, length, self._heads, self._width)
        return torch.zeros(sizes, device=self._device, dtype=self._dtype)

    def read(
        self, tokens: Tensor, rows: Tensor, columns: Tensor, known: Tensor, before: Tensor
    ) -> Tensor:
        """Hidden states of new tokens, [N, D], whose rows and columns are [N].

        `known` are keys and values, [L, 2, B, P + S, H, W]: those of the `before` tokens of each
        row, [B], end at P; those of the new tokens are written after them.
        """
        b, length = known.shape[2:4]
        s = int(columns.max()) + 1
        p = length - s
        turns = self._turns[before[rows] + columns, None]
        place = rows * s + columns  # among the queries; and among the keys:
        key_place = rows * length + p + columns
        mask = self._mask(p, s, before) if p else None
        x = self._embedding[tokens]
        for layer, keys_values in zip(self._layers, known, strict=True):
            q, k, v = self._project(layer, _normed(x, layer.norm_attention).to(self._dtype), turns)
            for new, held in zip((k, v), keys_values, strict=True):
                held.view(b * length, *k.shape[1:]).index_copy_(0, key_place, new)
            queries = q.new_zeros(b * s, *q.shape[1:]).index_copy_(0, place, q)
            attended = _attention(queries.view(b, s, *q.shape[1:]), keys_values, mask)
            x += F.linear(attended.view(b * s, -1)[place], layer.attended)
            y = _normed(x, layer.norm_feed_forward).to(self._dtype)
            x += F.linear(F.silu(F.linear(y, layer.gate)).mul_(F.linear(y, layer.up)), layer.down)
        return _normed(x, self._norm)

    def _project(self, layer: _Layer, x: Tensor, turns: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, turned, and values, [N, H, W] each, of [N, D]."""
        h = self._heads
        split = F.linear(x, layer.queries_keys_values).view(len(x), 3 * h, self._width)
        turned = _turned(split[:, : 2 * h], turns)
        return turned[:, :h], turned[:, h:], split[:, 2 * h :]

    def _mask(self, p: int, s: int, before: Tensor) -> Tensor:
        """-inf for what each new token must not see, [B, 1, S, P + S]."""
        device = before.device
        mask = torch.zeros(len(before), 1, s, p + s, device=device, dtype=self._dtype)
        nothing = torch.arange(p, device=device) < p - before[:, None]
        mask[..., :p].masked_fill_(nothing[:, None, None], -torch.inf)
        later = torch.ones(s, s, dtype=torch.bool, device=device).triu_(1)
        mask[..., p:].masked_fill_(later, -torch.inf)
        return mask


class Head:
    """log p(token | legal tokens), from the embeddings of the legal tokens of each state."""

    def __init__(self, gpt: GPT, legal: NDArray[np.bool_], device: torch.device) -> None:
        weights = gpt.embedding.weight.detach().to(device)
        self._device = device
        self._weights = [weights[torch.from_numpy(row).to(device)] for row in legal]
        self._column = np.cumsum(legal, axis=1) - 1  # of each token among its state's legal ones

    def nats(self, hidden: Tensor, targets: IntArray, states: IntArray) -> FloatArray:
        """log p of each target, [N], from hidden states [N, D]."""
        out = np.empty(len(targets))
        order = np.argsort(states, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(states[order])) + 1)
        columns = self._column[states, targets]
        for group in groups:
            weights = self._weights[states[group[0]]]
            for first in range(0, len(group), _HEAD_ROWS):
                part = group[first : first + _HEAD_ROWS]
                logits = F.linear(hidden[torch.from_numpy(part).to(self._device)], weights)
                target = torch.from_numpy(columns[part]).to(self._device)
                out[part] = -F.cross_entropy(logits, target, reduction="none").cpu().numpy()
        return out


def _layer(block: DecoderBlock, device: torch.device, dtype: torch.dtype) -> _Layer:
    def placed(weights: Tensor) -> Tensor:
        return weights.detach().to(device, dtype).contiguous()

    d = block.norm_attention.weight.shape[0]
    q, k, v = block.queries_keys_values.weight.view(3, block.n_heads, -1, d)
    gate, up = block.gate_and_up.weight.chunk(2)
    return _Layer(
        block.norm_attention.weight.detach().to(device),
        placed(torch.cat((_side_by_side(q), _side_by_side(k), v)).reshape(3 * d, d)),
        placed(block.attended.weight),
        block.norm_feed_forward.weight.detach().to(device),
        placed(gate),
        placed(up),
        placed(block.down.weight),
    )


def _side_by_side(rows: Tensor) -> Tensor:
    """Rows [H, W, D] of features 0, W/2, 1, W/2 + 1, ... of each head."""
    h, w, d = rows.shape
    return rows.view(h, 2, w // 2, d).transpose(1, 2).reshape(h, w, d)


def _normed(x: Tensor, weights: Tensor) -> Tensor:
    square = torch.linalg.vector_norm(x, dim=-1, keepdim=True).square_()
    scale: Tensor = square.div_(x.shape[-1]).add_(_EPSILON).rsqrt_()
    return (x * scale).mul_(weights)


def _attention(queries: Tensor, keys_values: Tensor, mask: Tensor | None) -> Tensor:
    """[B, S, H, W] of queries [B, S, H, W] and keys and values [2, B, P + S, H, W]."""
    q, k, v = (t.transpose(1, 2) for t in (queries, *keys_values))
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=mask is None)
    return y.transpose(1, 2).contiguous()


def _turned(x: Tensor, turns: Tensor) -> Tensor:
    """Feature pairs of x [N, heads, W] turned by [N, 1, W/2]."""
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * turns).flatten(-2).to(x.dtype)


CPU_BATCH_TOKENS = 512
GPU_BATCH_TOKENS = 16_384

ROOM = 16  # keys and values of a batch, as a multiple of its tokens

_BATCHES_AT_ONCE = 16  # whose keys and values are in memory in any case
_ENTRY_BYTES = 700  # of a passage in memory, without its keys and values and its key


@dataclass(frozen=True, slots=True)
class Passage:
    """The tokens of a fragment, or a part of one, read after another passage."""

    before: Passage | None
    length: int  # of all tokens to its end, those before included
    last: int
    nats: float  # log probability of all these tokens
    keys_values: Tensor  # of its own tokens, [L, 2, tokens, H, W]


@dataclass(slots=True)
class Stretch:
    """Successive passages to read."""

    before: Passage | None
    tokens: list[int]
    states: list[int]
    keys: list[bytes]
    ends: list[int]

    @property
    def known(self) -> int:
        """Number of tokens before it."""
        return self.before.length if self.before else 0


UnreadPassage: TypeAlias = tuple[bytes | None, Window, int, int]
"""A passage to read: the key of the passage before, its window, and its begin and end there."""


class SequenceScorer:
    """Log-probabilities of token sequences under the grammar.

    A batch has at most `batch_tokens`, including padding (None: the device's default).
    `memory_bytes` are for passages to continue from.
    """

    def __init__(
        self,
        model: LanguageModel,
        device: torch.device,
        precision: str = "auto",
        batch_tokens: int | None = None,
        memory_bytes: int = 0,
    ) -> None:
        self._device = device
        self._budget = batch_tokens or (
            CPU_BATCH_TOKENS if device.type == "cpu" else GPU_BATCH_TOKENS
        )
        self._table = model.tokenizer.table
        self._context = model.gpt.shape.context
        self.precision = faster_precision(device) if precision == "auto" else precision
        dtype = torch.bfloat16 if self.precision == "bf16" else torch.float32
        self._reader = PrefixReader(model.gpt, device, dtype)
        self._head = Head(model.gpt, self._table.legal, device)
        self._memory: BoundedMemory[bytes, Passage] = BoundedMemory(memory_bytes)
        self.tokens_read = 0

    def score(self, sequences: Sequence[Sequence[int]]) -> FloatArray:
        """The log probability of each sequence, nats, shape [len(sequences)]."""
        totals = np.zeros(len(sequences))
        windows = [
            window
            for number, tokens in enumerate(sequences)
            for window in windows_of(number, tokens, self._table, self._context)
        ]
        # equal beginnings are read together
        windows.sort(key=lambda window: window.keys[-1])
        with torch.inference_mode():
            for some in _parts(windows, _BATCHES_AT_ONCE * self._budget):
                nats = {key: passage.nats for key, passage in self._passages(some).items()}
                for window in some:
                    totals[window.sequence] += nats[window.keys[-1]]
                    if window.first:
                        known = window.keys[window.ends.index(window.first)]
                        totals[window.sequence] -= nats[known]
        return totals

    def _passages(self, windows: Sequence[Window]) -> dict[bytes, Passage]:
        """All passages of some windows, by key."""
        known: dict[bytes, Passage] = {}
        missing: dict[bytes, UnreadPassage] = {}
        for window in windows:
            before: bytes | None = None
            for key, (begin, end) in zip(window.keys, pairwise((0, *window.ends)), strict=True):
                if key not in known and key not in missing:
                    held = self._memory.get(key) if before not in missing else None
                    if held is None:
                        missing[key] = before, window, begin, end
                    else:
                        known[key] = held
                before = key
        while missing:
            for batch in batches_of(_stretches(missing, known), self._budget):
                known.update(self._read(batch))
            missing = {key: one for key, one in missing.items() if key not in known}
        for window in windows:
            # a passage is more recently used than those that follow it, so it is forgotten later
            for key in reversed(window.keys):
                size = known[key].keys_values.nbytes + len(key) + _ENTRY_BYTES
                self._memory.put(key, known[key], size)
        return known

    def _read(self, batch: Sequence[Stretch]) -> Iterator[tuple[bytes, Passage]]:
        """Read stretches at once; gives their passages, by key."""
        lengths = np.array([len(one.tokens) for one in batch])
        before = np.array([one.known for one in batch])
        p, s = int(before.max()), int(lengths.max())
        # each token is predicted from the one before it
        tokens = np.concatenate(
            [[one.before.last if one.before else START, *one.tokens[:-1]] for one in batch]
        )
        known = self._known(batch, p, s)
        hidden = self._reader.read(
            self._placed(tokens),
            self._placed(np.repeat(np.arange(len(batch)), lengths)),
            self._placed(np.concatenate([np.arange(n) for n in lengths])),
            known,
            self._placed(before),
        )
        targets = np.concatenate([one.tokens for one in batch])
        states = np.concatenate([one.states for one in batch])
        nats = np.split(self._head.nats(hidden, targets, states), np.cumsum(lengths)[:-1])
        self.tokens_read += len(tokens)
        for row, one in enumerate(batch):
            yield from _passages(one, nats[row], known[:, :, row, p:])

    def _placed(self, array: IntArray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _known(self, batch: Sequence[Stretch], p: int, s: int) -> Tensor:
        """Keys and values of the tokens before each stretch, up to `p`, and room for `s` more."""
        known = self._reader.room(len(batch), p + s)
        for row, one in enumerate(batch):
            before, end = one.before, p
            while before is not None:
                begin = end - before.keys_values.shape[2]
                known[:, :, row, begin:end] = before.keys_values
                before, end = before.before, begin
        return known


def faster_precision(device: torch.device) -> str:
    """bf16 if the processor supports it; it is not measured, so that scores stay the same."""
    has_units = device.type != "cpu" or torch.cpu._is_amx_tile_supported()
    return "bf16" if has_units else "fp32"


def batches_of(stretches: Iterable[Stretch], budget: int) -> Iterator[list[Stretch]]:
    """Stretches of about equal length, at most `budget` tokens together, or one alone.

    The room for keys and values, padding included, is bounded too.
    """
    batch: list[Stretch] = []
    tokens = before = 0
    for one in sorted(stretches, key=lambda one: (len(one.tokens), one.known)):
        tokens, before = tokens + len(one.tokens), max(before, one.known)
        # stretches ascend, so this one sets the width
        room = (len(batch) + 1) * (len(one.tokens) + before)
        if batch and (tokens > budget or room > ROOM * budget):
            yield batch
            batch, tokens, before = [], len(one.tokens), one.known
        batch.append(one)
    if batch:
        yield batch


def _passages(
    one: Stretch, nats: FloatArray, keys_values: Tensor
) -> Iterator[tuple[bytes, Passage]]:
    """The passages of a stretch, by key, from nats and keys and values [L, 2, S, H, W]."""
    passage = one.before
    for key, (begin, end) in zip(one.keys, pairwise((0, *one.ends)), strict=True):
        passage = Passage(
            before=passage,
            length=one.known + end,
            last=one.tokens[end - 1],
            nats=(passage.nats if passage else 0.0) + float(nats[begin:end].sum()),
            # a copy, as a view would keep the whole batch in memory
            keys_values=keys_values[:, :, begin:end].clone(),
        )
        yield key, passage


def _stretches(missing: dict[bytes, UnreadPassage], known: dict[bytes, Passage]) -> list[Stretch]:
    """The passages that can be read now: from a known passage to the next fork."""
    followers = Counter(before for before, *_ in missing.values())
    only = {before: key for key, (before, *_) in missing.items() if followers[before] == 1}
    found = []
    for key, (before, *_) in missing.items():
        if before is not None and before not in known:
            continue
        stretch = Stretch(known[before] if before else None, [], [], [], [])
        at: bytes | None = key
        while at is not None:
            _, window, begin, end = missing[at]
            stretch.tokens += window.tokens[begin:end]
            stretch.states += window.states[begin:end]
            stretch.keys.append(at)
            stretch.ends.append(len(stretch.tokens))
            at = only.get(at)
        found.append(stretch)
    return found


def _parts(windows: Sequence[Window], budget: int) -> Iterator[list[Window]]:
    """Windows in their order, about `budget` tokens at a time."""
    part: list[Window] = []
    n_tokens = 0
    for window in windows:
        part.append(window)
        n_tokens += len(window.tokens)
        if n_tokens >= budget:
            yield part
            part, n_tokens = [], 0
    if part:
        yield part
