"""The pieces of a language model's tokens: byte-level BPE, trained on values."""

from __future__ import annotations

from collections.abc import Iterable

from tokenizers import Tokenizer, pre_tokenizers, trainers

from kbforge_plugins.likelihoods.gpt.model import untrained


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
