"""Which features compare which attributes: by name, or by what an attribute's values are like.

| kind of values | features |
|---|---|
| text | edit, rare-words, initials |
| title | edit, rare-words |
| date | edit, years |
| code, number, category | edit |
| set | rare-words |
| the whole record, if it has several attributes | rare-words |
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kbforge import registry
from kbforge.contracts import Fragment
from kbforge.errors import UsageError, quoted
from kbforge_lab.contracts.feature import Feature
from kbforge_lab.features.texts import ALL
from kbforge_plugins.likelihoods.attributes.kinds import Kind, kind_of, stated

MOST_ATTRIBUTES = 8
"""Attributes that are compared by default, those that most fragments have."""
_LEAST_SHARE = 0.1
_BY_KIND: Mapping[Kind, tuple[str, ...]] = {
    "text": ("edit", "rare-words", "initials"),
    "title": ("edit", "rare-words"),
    "date": ("edit", "years"),
    "code": ("edit",),
    "number": ("edit",),
    "category": ("edit",),
    "set": ("rare-words",),
}


@dataclass(frozen=True, slots=True, order=True)
class Compared:
    """An attribute (or `*`, all of them), and the name of the feature that compares it."""

    attribute: str
    feature: str

    def made(self) -> Feature:
        """The feature, still to be fitted.

        Raises:
            PluginError: there is no such feature.
            UsageError: it does not read an attribute.

        """
        made: Feature = registry.create("features", self.feature, {"attribute": self.attribute})
        return made

    def __str__(self) -> str:
        return f"{self.attribute}={self.feature}"


def usual(fragments: Sequence[Fragment]) -> tuple[Compared, ...]:
    """What is compared unless someone says otherwise; nothing if there are no properties."""
    counts: dict[str, Counter[str]] = {}
    for fragment in fragments:
        for attribute, values in fragment.properties.items():
            if text := stated(values):
                counts.setdefault(attribute, Counter())[text] += 1
    least = _LEAST_SHARE * len(fragments)
    frequent = [name for name, found in counts.items() if found.total() >= least]
    frequent.sort(key=lambda name: (-counts[name].total(), name))
    chosen = frequent[:MOST_ATTRIBUTES] or sorted(counts)[:1]
    out = [Compared(name, each) for name in chosen for each in _BY_KIND[kind_of(counts[name])]]
    if len(counts) > 1:
        out.append(Compared(ALL, "rare-words"))
    return tuple(sorted(out))


def named(texts: Sequence[str], fragments: Sequence[Fragment]) -> tuple[Compared, ...]:
    """What the texts ATTRIBUTE=FEATURE,FEATURE say.

    Raises:
        UsageError: a text that is none, twice the same, or an attribute that no fragment has.
        PluginError: there is no such feature.

    """
    known = {name for fragment in fragments for name in fragment.properties}
    found: list[Compared] = []
    for text in texts:
        attribute, equals, features = text.rpartition("=")
        names = [name.strip() for name in features.split(",")]
        if not equals or not attribute or not all(names):
            raise UsageError(
                f'--feature: expected ATTRIBUTE=FEATURE or {ALL}=FEATURE, got "{quoted(text)}"'
            )
        if attribute != ALL and attribute not in known:
            listed = ", ".join(quoted(name) for name in sorted(known)[:20]) or "none"
            raise UsageError(
                f'--feature: no fragment has an attribute "{quoted(attribute)}"; attributes: '
                f"{listed}"
            )
        found += [Compared(attribute, name) for name in names]
    for each in found:
        each.made()
        if found.count(each) > 1:
            raise UsageError(f'--feature: "{quoted(str(each))}" is named twice')
    return tuple(sorted(found))
