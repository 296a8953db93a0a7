"""What persons assert about entities: a value that is right, beside those that fragments state.

An assertion is a fragment, too. Its source is the person, and its metadata name the fragment that
it is about (`kbforge.contracts.fragment.ASSERTED_OF`). Nothing clusters it, and no model learns
from it: in every grouping it is beside that fragment, wherever this goes.

The last assertion of an attribute settles it: its value comes first, is right, and names the entity
if the attribute does. The others stay, as what sources state. An attribute with several values at a
time has one more.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import orjson

from kbforge.contracts import Fragment, IntArray, Subproblems
from kbforge.files.columns import ids_of
from kbforge.kb.entities import Annotator, EntityColumns
from kbforge.kb.pools import Pools


def with_assertions(
    fragments: Sequence[Fragment], subproblems: Subproblems, assertions: Sequence[Fragment]
) -> tuple[Sequence[Fragment], Subproblems, IntArray]:
    """Fragments and their subproblems with what persons assert about some of them, in order.

    The last item is the fragment that each one is about, itself for one that nobody asserts; shape
    [fragments].
    """
    own = np.arange(len(fragments))
    if not assertions:
        return fragments, subproblems, own
    numbers = {id: number for number, id in enumerate(ids_of(fragments))}
    beside = [numbers[one.asserted_of or ""] for one in assertions]
    whole = subproblems.with_others(beside, len(own))
    return [*fragments, *assertions], whole, np.append(own, np.array(beside, np.int64))


def settling(
    fragments: Sequence[Fragment], pools: Pools, several: Collection[str], others: Annotator | None
) -> Annotator:
    """Says who settled attributes, and that other values are wrong; of all else what `others` say.

    Args:
        fragments: with the assertions.
        pools: which values say the same.
        several: the attributes with several values.
        others: say how probable values in question are (`kbforge.kb.facts`).

    """

    def annotate(entities: EntityColumns) -> dict[int, str]:
        told = {} if others is None else dict(others(entities))
        says = pools.of_values(entities)
        latest = dict(entities.asserted)
        for cell, value in dict.fromkeys(entities.asserted):
            rivals = range(*entities.value_start[cell : cell + 2].tolist())
            settled: Sequence[int] = rivals if latest[cell] == value else ()
            if entities.stated.attributes[entities.attribute[cell]] in several:
                settled = [value]
            for one in settled:
                right = float(says[one] == says[value])
                told[one] = f',"confidence":{right}' if len(rivals) > 1 else ""
            if settled:
                last = entities.holder[entities.holder_start[value + 1] - 1]
                by = fragments[int(last)].source or fragments[int(last)].id
                told[value] += f',"by":{orjson.dumps(by).decode()}'
        return told

    return annotate
