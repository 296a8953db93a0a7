"""Name variants: the paper's TweetNERD set (appendix D.2.1), built from any labelled fragments.

Every different name of an entity is one fragment that has nothing else, for the entities that have
most names. What is left is the hardest part of the problem: "the US" and "Americans" are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np

from kbforge.contracts.fragment import Fragment

_NAME = "name"
_SEED = 0


def name_variants(fragments: Iterable[Fragment], entities: int) -> list[Fragment]:
    """The different names of the entities that have most of them, in random order.

    Entities with as many names come in the order of how often they are mentioned, then of their
    labels.
    """
    names: dict[str, Counter[str]] = {}
    for fragment in fragments:
        if fragment.label is not None:
            names.setdefault(fragment.label, Counter()).update(fragment.properties.get(_NAME, ()))
    largest = sorted(names, key=lambda label: (-len(names[label]), -names[label].total(), label))
    pairs = [(label, name) for label in largest[:entities] for name in sorted(names[label])]
    return [
        Fragment(f"name-{i}", {_NAME: (pairs[j][1],)}, label=pairs[j][0])
        for i, j in enumerate(np.random.default_rng(_SEED).permutation(len(pairs)).tolist())
    ]
