"""Made-up files for the judge: people with records, and bare names."""

from __future__ import annotations

from kbforge.contracts import Fragment
from kbforge_training.defaults.families import generated


def made(kind: int, seed: int = 3) -> list[Fragment]:
    """People (0), organisations (1) or products (2), at most 80 fragments."""
    file = list(generated(kind + 1, seed))[kind]
    labels = list(dict.fromkeys(f.label for f in file.fragments))[:30]
    return [f for f in file.fragments if f.label in labels][:80]
