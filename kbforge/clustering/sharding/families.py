"""The candidates of one shard: of every key, it knows the families that live on the shard."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kbforge.clustering.online.candidates import Candidates, Reached
from kbforge.contracts import CandidateIndex, IntArray, Led


class ShardCandidates(Candidates):
    """Candidates that can be handed over with their families."""

    def __init__(self, index: CandidateIndex) -> None:
        super().__init__(index)
        self._leading: dict[int, set[int]] = {}  # by family, the keys that lead to it

    def close(self, keys: Iterable[int]) -> None:
        """These keys have been found to lead too far, wherever that was."""
        self._closed.update(keys)

    def extend(self, reached: Reached, families: IntArray, children: IntArray) -> None:
        """See `Candidates`."""
        super().extend(reached, families, children)
        for family in families.tolist():
            self._leading.setdefault(family, set()).update(reached.open)

    def release(self, slots: IntArray) -> None:
        """See `Candidates`; what leads to families that are no more is forgotten."""
        families = {self._family[slot] for slot in slots.tolist()}
        super().release(slots)
        self.give(family for family in families if family not in self._live)

    def give(self, families: Iterable[int]) -> dict[int, Led]:
        """Forget what leads to these families, and say what did."""
        gone: dict[int, list[int]] = {}
        for family in families:
            for key in self._leading.pop(family, ()):
                gone.setdefault(key, []).append(family)
        for key, lost in gone.items():
            left = [family for family in self._families[key] if family not in lost]
            if left:
                self._families[key] = left
            else:
                del self._families[key]
        return {
            key: Led(tuple(sorted(lost)), key in self._closed) for key, lost in sorted(gone.items())
        }

    def receive(self, led: Mapping[int, Led]) -> None:
        """These keys lead to these families, too."""
        for key, known in led.items():
            self._families.setdefault(key, []).extend(known.families)
            if known.closed:
                self._closed.add(key)
            for family in known.families:
                self._leading.setdefault(family, set()).add(key)

    def closed(self) -> tuple[int, ...]:
        """The keys that are known to lead too far, ascending."""
        return tuple(sorted(self._closed))
