"""A little corpus, a tokenizer trained on it, and entities to draw from."""

from functools import cache
from typing import Any

from kbforge.contracts import Fragment
from kbforge_grammars import grammar as grammar_called
from kbforge_lm.likelihoods.gpt.model import SetTokenizer
from kbforge_training.lm.train import train_bpe

VALUES = (
    *("name", "occupation", "born", "Ada Lovelace", "A. Lovelace", "Angela Merkel", "Merkel"),
    *("Grace Hopper", "mathematician", "chancellor", "1815-12-10", "1954", "Zürich", "北京市"),
    *("Ludwig van Beethoven", "the United States of America", "Москва", "القاهرة", "New York"),
)


@cache
def bpe(size: int = 400) -> Any:
    """Pieces of the little corpus."""
    return train_bpe(VALUES * 5, size)


@cache
def tokenizer(grammar: str = "canonical-json") -> SetTokenizer:
    """A tokenizer of the little corpus under a grammar."""
    return SetTokenizer(grammar_called(grammar), bpe())


def entity(n: int, name: str = "Ada Lovelace") -> list[Fragment]:
    """An entity of n fragments that differ."""
    return [
        Fragment(f"{name}-{i}", {"name": (name,), "born": (str(1800 + i),)}, label=name)
        for i in range(n)
    ]
