"""Scoring token sequences with the language model, many at once and fast.

What makes it fast, in order of effect: sets share beginnings, with each other and with sets scored
before, and what is shared is read once (`Passage`); batches hold stretches of about equal length
and few tokens, so that hardly anything is padding and temporaries stay in the processor's cache;
logits exist only for legal tokens and for a few positions at a time, never as [B, T, V]; the
weights are bfloat16 where the processor has units for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from kbforge.contracts.likelihood import FloatArray, IntArray
from kbforge.grammar.token_table import START
from kbforge_plugins.models.bounded_memory import BoundedMemory
from kbforge_plugins.models.gpt.language_model import LanguageModel
from kbforge_plugins.models.gpt.reading import Head, Reader
from kbforge_plugins.models.gpt.windows import Window, windows_of

CPU_BATCH_TOKENS = 512
GPU_BATCH_TOKENS = 16_384

ROOM = 16  # keys and values of a batch, as a multiple of its tokens

_BATCHES_AT_ONCE = 16  # whose keys and values are held, whatever the memory's bound
_ENTRY_BYTES = 700  # of a passage held, beside its keys and values and its key


@dataclass(frozen=True, slots=True)
class Passage:
    """The tokens of a fragment (or a part of one) as they were read after others.

    Attributes:
        before: the passage that this one follows.
        length: tokens to its end, those before included.
        last: the last of them.
        nats: log probability of all of them.
        keys_values: of its own tokens, [L, 2, tokens, H, W].

    """

    before: Passage | None
    length: int
    last: int
    nats: float
    keys_values: Tensor


@dataclass(slots=True)
class Stretch:
    """Passages to read, one after another."""

    before: Passage | None
    tokens: list[int]
    states: list[int]
    keys: list[bytes]
    ends: list[int]

    @property
    def known(self) -> int:
        """Tokens before it."""
        return self.before.length if self.before else 0


@dataclass(frozen=True, slots=True)
class Missing:
    """A passage that is to be read: its key, the key before, and its place in a window."""

    before: bytes | None
    window: Window
    begin: int
    end: int


class SequenceScorer:
    """Log-probabilities of token sequences under the grammar.

    Args:
        model: with its tokenizer.
        device: where it runs.
        precision: "fp32", "bf16", or "auto" for the faster one.
        batch_tokens: most tokens of a batch, padding included; None is the device's default.
        memory_bytes: for passages read, to read on from.

    Attributes:
        precision: what is used, "fp32" or "bf16".
        tokens_read: by the model so far; those of passages read before are not read again.

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
        self._reader = Reader(model.gpt, device, dtype)
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
        # what begins alike is read together
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
        missing: dict[bytes, Missing] = {}
        for window in windows:
            before: bytes | None = None
            for key, (begin, end) in zip(window.keys, pairwise((0, *window.ends)), strict=True):
                if key not in known and key not in missing:
                    held = self._memory.get(key) if before not in missing else None
                    if held is None:
                        missing[key] = Missing(before, window, begin, end)
                    else:
                        known[key] = held
                before = key
        while missing:
            for batch in batches_of(_stretches(missing, known), self._budget):
                known.update(self._read(batch))
            missing = {key: one for key, one in missing.items() if key not in known}
        for window in windows:
            # a passage is used after those that follow it, so it is forgotten after them
            for key in reversed(window.keys):
                size = known[key].keys_values.nbytes + len(key) + _ENTRY_BYTES
                self._memory.put(key, known[key], size)
        return known

    def _read(self, batch: Sequence[Stretch]) -> Iterator[tuple[bytes, Passage]]:
        """Read stretches at once; the passages they are made of, by key."""
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
        """Keys and values of what each stretch follows, ending at `p`, and room for `s` more."""
        known = self._reader.room(len(batch), p + s)
        for row, one in enumerate(batch):
            before, end = one.before, p
            while before is not None:
                begin = end - before.keys_values.shape[2]
                known[:, :, row, begin:end] = before.keys_values
                before, end = before.before, begin
        return known


def faster_precision(device: torch.device) -> str:
    """bf16 where there are units for it; other processors emulate it slowly.

    Asked of the processor and not of the clock, so that a machine always gives the same scores.
    """
    has_units = device.type != "cpu" or torch.cpu._is_amx_tile_supported()
    return "bf16" if has_units else "fp32"


def batches_of(stretches: Iterable[Stretch], budget: int) -> Iterator[list[Stretch]]:
    """Stretches of about equal length, at most `budget` tokens together.

    Attention alone sees padding, so there may be some; but room for keys and values, padding
    included, is bounded too. A stretch that alone exceeds a bound is a batch of its own.
    """
    batch: list[Stretch] = []
    tokens = before = 0
    for one in sorted(stretches, key=lambda one: (len(one.tokens), one.known)):
        tokens, before = tokens + len(one.tokens), max(before, one.known)
        # a stretch is the longest so far, so it sets the width
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
    """A stretch that was read, cut into its passages, by key.

    Args:
        one: the stretch.
        nats: of each of its tokens.
        keys_values: of its tokens, [L, 2, S, H, W].

    """
    passage = one.before
    for key, (begin, end) in zip(one.keys, pairwise((0, *one.ends)), strict=True):
        passage = Passage(
            before=passage,
            length=one.known + end,
            last=one.tokens[end - 1],
            nats=(passage.nats if passage else 0.0) + float(nats[begin:end].sum()),
            # a copy: a view would hold the batch's room in memory
            keys_values=keys_values[:, :, begin:end].clone(),
        )
        yield key, passage


def _stretches(missing: dict[bytes, Missing], known: dict[bytes, Passage]) -> list[Stretch]:
    """What can be read now: from a passage that is known to where the ways part."""
    followers = Counter(one.before for one in missing.values())
    only = {one.before: key for key, one in missing.items() if followers[one.before] == 1}
    found = []
    for key, one in missing.items():
        if one.before is not None and one.before not in known:
            continue
        stretch = Stretch(known[one.before] if one.before else None, [], [], [], [])
        at: bytes | None = key
        while at is not None:
            piece = missing[at]
            part = slice(piece.begin, piece.end)
            stretch.tokens += piece.window.tokens[part]
            stretch.states += piece.window.states[part]
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
