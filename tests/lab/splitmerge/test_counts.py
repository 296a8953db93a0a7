"""What the smart moves of LSHSM count, against sets counted one by one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kbforge_lab.splitmerge.opposite import Looked, SignTables
from tests.clustering.splitmerge.test_counts import kernel_of, parts, same
from tests.lab.splitmerge.kernels import opposite
from tests.profile import examples


@examples(200)
@given(given_parts=parts(), seed=st.integers(0, 10_000), rows=st.integers(1, 3))
def test_tables_of_signs(
    given_parts: tuple[int, list[int], list[int]], seed: int, rows: int
) -> None:
    n, a, b = given_parts
    rng = np.random.default_rng(seed)
    signs = rng.integers(2, size=(n, 3, rows)).astype(bool)
    tables, first = SignTables(signs), int(rng.integers(3))
    kernel = kernel_of(opposite(signs), n)

    def asked(u: int, flipped: bool) -> set[int]:
        """Whom the first table that has an answer offers."""
        for table in ((first + i) % 3 for i in range(3)):
            wanted = signs[u, table] ^ flipped
            found = {v for v in range(n) if (signs[v, table] == wanted).all()} - {u}
            if found:
                return found
        return set()

    expected = {}
    for flipped in (True, False):
        total = 0.0
        for one, other in ((a, b), (b, a)):
            for u in one:
                offered = asked(u, flipped)
                total += len(offered & {*other}) / len(offered) / n if offered else 0.0
        expected[flipped] = total
    given_tables = Looked(tables, first)
    coins = 0.5 ** (len(a) + len(b) - 2)
    assert same(kernel.log_split(np.array(a), np.array(b), given_tables), expected[True] * coins)
    assert same(kernel.log_merge(np.array(a), np.array(b), given_tables), expected[False])
