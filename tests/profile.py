"""How many examples a property is tried on.

`make test` takes the profile `fast`, everything else the profile `full`: a property that names a
number of examples is tried on a fifth of them there.
"""

from typing import Any

from hypothesis import settings


def examples(count: int, **others: Any) -> settings:
    """Settings with so many examples, or with the share of them that the profile takes."""
    share = settings().max_examples * count // 100
    return settings(max_examples=min(count, max(5, share)), **others)
