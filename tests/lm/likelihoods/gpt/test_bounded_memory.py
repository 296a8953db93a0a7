"""The bounded memory of scores against a list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kbforge_lm.likelihoods.gpt.scoring import BoundedMemory
from tests.profile import examples


class Model:
    """The oldest use first; values leave at the front while they are too large together."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held: list[tuple[str, int, int]] = []

    def use(self, key: str) -> int | None:
        for one in self.held:
            if one[0] == key:
                self.held.remove(one)
                self.held.append(one)
                return one[1]
        return None

    def put(self, key: str, value: int, size: int) -> None:
        if self.use(key) is None:
            self.held.append((key, value, size))
        while sum(size for _, _, size in self.held) > self.most:
            del self.held[0]


USES = st.lists(
    st.tuples(st.booleans(), st.sampled_from("abcdef"), st.integers(0, 60)), max_size=80
)


@given(most=st.integers(0, 150), uses=USES)
@examples(300)
def test_holds_what_was_used_last_within_its_bound(most, uses):
    memory: BoundedMemory[str, int] = BoundedMemory(most)
    model = Model(most)
    for number, (is_put, key, size) in enumerate(uses):
        if is_put:
            memory.put(key, number, size)
            model.put(key, number, size)
        else:
            assert memory.get(key) == model.use(key)
        assert len(memory) == len(model.held)
    for key, value, _ in list(model.held):
        assert memory.get(key) == value
