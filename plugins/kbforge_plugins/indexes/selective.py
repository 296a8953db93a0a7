"""Index by the values of all attributes, as selective as the data make them.

The keys of a fragment are its values, and features that survive distortion (`attributes.kinds`):
words, the parts of a date, the district of a postcode. Two fragments with a key in common are
compared. Values that many fragments have lead nowhere by themselves, so two of them together are
a key: a first name with a year of birth. Nobody writes blocking rules; some may be added.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TypeAlias

from kbforge.contracts.fragment import Fragment
from kbforge.contracts.index import CandidateIndex
from kbforge.errors import UsageError, quoted
from kbforge_plugins.models.attributes.kinds import Kind, features_of, kind_of, normalised, stated

_PAIRED: Mapping[Kind, str] = {
    "text": "prefix",
    "title": "longest",
    "date": "year",
    "code": "stem",
    "number": "magnitude",
    "set": "member",
}
"""The one feature a kind that takes part in keys of two."""
_LEFT_OUT = ("initial",)
_MOST_KEYS = 512
_PAIR_SHIFT = 32
_DIGEST_BYTES = 8

_Said: TypeAlias = tuple[str, str, str]
"""An attribute, the name of a feature ("" for the value itself), and the feature."""


class Selective(CandidateIndex):
    """Keys by value, by feature, and by pairs of common ones.

    Args:
        families: most families of clusters that a key may lead to; one that leads to more is
            closed: it is followed only for fragments that no other key leads anywhere.
        shared: keys that must lead to a family of clusters, if any family is led to by so many.
        common: fragments that share a value or feature before it is paired with others.
        rules: further keys, each some attributes joined by "+": fragments with the same values
            of all of them, the first where there are several, are compared.
        attributes: the attributes to read, but for rules; none reads all.

    Raises:
        UsageError: a number below 1, or a rule without attributes.

    """

    def __init__(
        self,
        families: int = 8,
        shared: int = 3,
        common: int = 20,
        rules: tuple[str, ...] = (),
        attributes: tuple[str, ...] = (),
    ) -> None:
        if min(families, shared, common) < 1:
            raise UsageError("index selective: families, shared and common must be at least 1")
        self.families, self.shared, self.common = families, shared, common
        self.rules = tuple(tuple(rule.split("+")) for rule in rules)
        if not all(attribute for rule in self.rules for attribute in rule):
            raise UsageError('index selective: a rule names attributes joined by "+"')
        self.attributes = frozenset(attributes)
        self._kinds: dict[str, Kind] = {}
        self._number: dict[_Said, int] = {}
        self._shared: list[int] = []
        self._of_value: dict[
            tuple[str, tuple[str, ...]], tuple[tuple[int, ...], tuple[int, ...]]
        ] = {}

    def fit(self, fragments: Sequence[Fragment]) -> str | None:
        """Find the kinds of the attributes and how many fragments share each key.

        Raises:
            UsageError: a rule names an attribute that no fragment has.

        """
        self._require_attributes_of_rules(fragments)
        counts: dict[str, Counter[str]] = {}
        for fragment in fragments:
            for attribute, values in self._read(fragment):
                counts.setdefault(attribute, Counter())[stated(values)] += 1
        self._kinds = {attribute: kind_of(counter) for attribute, counter in counts.items()}
        self._number.clear()
        self._of_value.clear()
        self._shared = []
        for attribute, counter in sorted(counts.items()):
            for value, count in sorted(counter.items()):
                for said in self._said(attribute, value)[0]:
                    key = self._number.setdefault(said, len(self._number))
                    self._shared.extend([0] * (key + 1 - len(self._shared)))
                    self._shared[key] += count
        return None

    def keys(self, fragment: Fragment) -> Sequence[int]:
        """See `kbforge.contracts.index`."""
        singles: list[int] = []
        common: list[tuple[int, int]] = []
        shared = self._shared
        for place, (attribute, values) in enumerate(sorted(self._read(fragment))):
            of_values = self._of_value.get((attribute, values))
            if of_values is None:
                of_values = self._of_value[attribute, values] = self._keys_of(
                    attribute, stated(values)
                )
            singles.extend(of_values[0])
            for key in of_values[1]:
                if key >= 0 and shared[key] > self.common:
                    common.append((place, key))
        out = dict.fromkeys([*self._keys_of_rules(fragment), *singles])
        for i, (place, key) in enumerate(common):
            if len(out) >= _MOST_KEYS:
                break
            for other_place, other in common[i + 1 :]:
                if other_place != place:
                    out[(min(key, other) + 1) << _PAIR_SHIFT | max(key, other)] = None
        return list(out)[:_MOST_KEYS]

    def _require_attributes_of_rules(self, fragments: Sequence[Fragment]) -> None:
        lacking = {attribute for rule in self.rules for attribute in rule}
        for fragment in fragments:
            if not lacking:
                return
            lacking -= fragment.properties.keys()
        if lacking and fragments:
            said = f'no fragment has the attribute "{quoted(min(lacking))}" of a rule'
            raise UsageError(f"index selective: {said}")

    def _keys_of_rules(self, fragment: Fragment) -> list[int]:
        keys = []
        for rule in self.rules:
            if all(attribute in fragment.properties for attribute in rule):
                values = [normalised(fragment.properties[attribute][0]) for attribute in rule]
                if all(values):
                    keys.append(self._numbered(("+".join(rule), "rule", "\n".join(values))))
        return keys

    def _read(self, fragment: Fragment) -> list[tuple[str, tuple[str, ...]]]:
        read = self.attributes
        return [item for item in fragment.properties.items() if not read or item[0] in read]

    def _keys_of(self, attribute: str, value: str) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The keys of what is stated, and those of them that are paired."""
        singles, paired = self._said(attribute, value)
        return tuple(map(self._numbered, singles)), tuple(map(self._numbered, paired))

    def _said(self, attribute: str, value: str) -> tuple[list[_Said], list[_Said]]:
        """What a value says, and the part of it that is paired; a blank says nothing."""
        if not value:
            return [], []
        kind = self._kinds.get(attribute, "text")
        singles = [(attribute, "", value)]
        paired = [*singles]
        for name, features in features_of(kind, value).items():
            if name in _LEFT_OUT:
                continue
            said = [(attribute, name, feature) for feature in features]
            singles += said
            if name == _PAIRED.get(kind):
                paired += said
        return singles, paired

    def _numbered(self, said: _Said) -> int:
        """The key of what was said by the fragments fitted to; for others, a number below 0."""
        number = self._number.get(said)
        if number is None:
            # by what it says, so that it does not matter who was asked about before
            text = "\0".join(said).encode(errors="surrogatepass")
            digest = hashlib.blake2b(text, digest_size=_DIGEST_BYTES).digest()
            number = -1 - int.from_bytes(digest)
        return number
