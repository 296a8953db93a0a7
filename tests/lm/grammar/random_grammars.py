"""Random small grammars and texts for them."""

import random
from typing import Any

from hypothesis import strategies as st

from tests.lm.grammar.slow import Tree

LETTERS = "ab,"

_LEAVES = st.one_of(
    st.text(LETTERS, min_size=1, max_size=3).map(lambda text: ("text", text)),
    st.just(("string",)),
)


def _larger(trees: Any) -> Any:
    some = st.lists(trees, min_size=2, max_size=3)
    return st.one_of(
        some.map(lambda parts: ("in turn", parts)),
        some.map(lambda parts: ("one of", parts)),
        st.tuples(st.sampled_from("*+?"), trees),
    )


TREES = st.recursive(_LEAVES, _larger, max_leaves=8)

_VALUES = ('"x"', '"xy"', '"é"', '"\\""', '"\\\\"', '"\\n"', '"\\u001f"', '"\U0001f9ed"', '" "')
_WRONG = ("", '"', '""', '"\n"', '"\\/"', '"\\u0041"', '"\\u000A"', "a", ",", "x", '"x', "\\", " ")


def text_of(tree: Tree, rng: random.Random) -> str:
    """One of a tree's texts."""
    kind, *rest = tree
    if kind == "text":
        return str(rest[0])
    if kind == "string":
        return rng.choice(_VALUES)
    if kind == "in turn":
        return "".join(text_of(part, rng) for part in rest[0])
    if kind == "one of":
        return text_of(rng.choice(rest[0]), rng)
    times = {"*": rng.randint(0, 2), "+": rng.randint(1, 3), "?": rng.randint(0, 1)}[kind]
    return "".join(text_of(rest[0], rng) for _ in range(times))


def spoiled(text: str, rng: random.Random) -> str:
    """The text with some characters replaced, usually by what does not belong there."""
    begin = rng.randint(0, len(text))
    end = min(len(text), begin + rng.randint(0, 2))
    return text[:begin] + rng.choice((*_WRONG, *_VALUES)) + text[end:]
