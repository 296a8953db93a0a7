"""Records that say little each, as in a register of which each source saw a part."""

from __future__ import annotations

import random

from kbforge.contracts import Fragment


def sparse_records(people: int = 600) -> list[Fragment]:
    """Three records each of some people: of seven words a person has, a record says four."""
    rng = random.Random(5)
    sizes = (400, 400, 400, 400, 60, 20, 5)  # of the vocabularies
    out = []
    for person in range(people):
        own = [f"w{k}x{rng.randrange(size)}" for k, size in enumerate(sizes)]
        for k in range(3):
            said = {"text": (" ".join(rng.sample(own, 4)),)}
            out.append(Fragment(f"{person}-{k}", said, label=str(person)))
    rng.shuffle(out)
    return out
