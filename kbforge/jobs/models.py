"""Saves the models of a store, and restores them for the next command.

Vocabulary, base counts, rates, alpha and confidence map come from the fragments that the store was
made with, or from the last `kbforge refit`. Every command restores the same models and fits
nothing, so a fragment's score does not depend on when it arrives.

`Drift` measures how far new fragments differ from those that the models learned from.
"""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from kbforge.clustering.rules import DirichletProcess
from kbforge.contracts import CandidateIndex, Fragment, LearnedState, Likelihood
from kbforge.contracts.clusterer import RuleSet
from kbforge.errors import KBForgeError, ModelError, OtherModelError, UsageError, option, quoted
from kbforge.files.columns import statements_of
from kbforge.fit.authority import with_known
from kbforge.fit.choices import (
    Models,
    PreparedRun,
    RunOptions,
    default_options,
    made_of,
    make_clusterer,
    make_models,
    require_untempered,
)
from kbforge.kb.entities import columns_of, firsts_of, several_of
from kbforge.kb.relations import referring
from kbforge.kb.spelling import Words
from kbforge.models.bundle import MANIFEST, bundles_read_once, is_name, make_likelihood
from kbforge.store.mentions import REFERS
from kbforge.store.pages import kept_from_bytes
from kbforge.store.store import FACTS, Store, kept_row
from kbforge.store.writing import KNOWN

if TYPE_CHECKING:
    from kbforge.fit.confidence import ConfidenceMap
    from kbforge.fit.description import PairModel

RULES = "rules"
"""The fact with the rules in force."""
_PAIRS = "pairs"
_FAULT = "so no store can hold it; this is a fault of the plugin: name another one"
_FREE = ("device",)
"""Options that may differ between commands."""


def freeze(
    prepared: PreparedRun, choices: RunOptions, fragments: Sequence[Fragment], drift: Drift
) -> tuple[dict[str, Any], dict[str, bytes]]:
    """What to save of a prepared run: facts by name, and states by digest.

    Raises:
        UsageError: a choice is an object, which cannot be saved.
        ModelError: a plugin cannot load what it dumps, or loads something else.

    """
    # .1 s to import, and what adds to a store reads no confidence
    from kbforge.fit.confidence import dump_map, pair_model_of

    models = prepared.models
    index = models.index if models.index is not models.likelihood.index else None
    surrogate = models.surrogate
    if surrogate is models.likelihood.surrogate and models.likelihood.keeps:
        surrogate = None
    confidence = prepared.confidence
    asked = None if confidence is None else cast(Likelihood | None, pair_model_of(confidence))
    pairs = None if asked is models.likelihood else asked
    states = {
        "likelihood": _learned(models.likelihood, fragments),
        "surrogate": None if surrogate is None else _learned(surrogate, fragments),
        "index": None if index is None else index.dump() or _reference(fragments),
        "pairs": None if pairs is None else _learned(pairs, fragments),
        "confidence": None if confidence is None else dump_map(confidence),
        "seen": LearnedState(arrays={"seen": drift.seen}),
        "words": LearnedState(arrays={"words": Words.of(statements_of(fragments)).bits}),
    }
    rows = {role: kept_row(state) for role, state in states.items() if state is not None}
    facts = {
        "choices": _as_json(choices),
        "drift": drift.to_json(),
        REFERS: referring(fragments, choices.refers),
        RULES: list(prepared.spec.constraints.rules),
        FACTS: None,
        "frozen": {
            "likelihood": prepared.likelihood,
            "alpha": prepared.alpha,
            "size_exponent": prepared.spec.exponent,
            "max_evals": models.max_evals,
            "notes": list(prepared.notes),
            "bundle": _bundle_digest(prepared.likelihood),
            "made": made_of(prepared, choices).to_json(),
            "several": sorted(several_of(statements_of(fragments))),
            "kept": {role: rows[role][0] if role in rows else None for role in states},
        },
    }
    _require_readable(prepared, choices, {role: content for role, (_, content) in rows.items()})
    return facts, dict(rows.values())


def _require_readable(
    prepared: PreparedRun, choices: RunOptions, content: Mapping[str, bytes]
) -> None:
    """Refuse states that cannot be loaded: fresh plugins load them, and must dump the same bytes.

    A plugin without `dump` is fitted again to the stored fragments, so it cannot differ. `content`
    is by role.
    """
    name = prepared.likelihood
    fresh = _unfitted(choices, name, prepared.models.max_evals, many="index" in content)
    plugins: dict[str, Likelihood | CandidateIndex | None] = {
        "likelihood": fresh.likelihood,
        "surrogate": fresh.surrogate,
        "index": fresh.index,
        "pairs": _pair_model(choices) if "pairs" in content else None,
    }
    for role, plugin in plugins.items():
        if plugin is None or role not in content:
            continue
        kept = kept_from_bytes(content[role])
        if _is_reference(kept, plugin):
            continue
        called = quoted(name if role == "likelihood" else type(plugin).__name__, 400)
        called = f"{role if role != _PAIRS else 'model'} {called}"
        with _blaming(called):
            plugin.load(kept)
            again = plugin.dump()
        _require_equal(called, again, content[role])
    if "confidence" in content:
        from kbforge.fit.confidence import dump_map

        pairs = plugins["pairs"] or (fresh.likelihood if name == _PAIRS else None)
        with _blaming("the confidence map"):
            reading = _reading_from(kept_from_bytes(content["confidence"]), pairs, choices.defaults)
        _require_equal("the confidence map", dump_map(reading), content["confidence"])


@contextlib.contextmanager
def _blaming(called: str) -> Iterator[None]:
    """Attribute an error in loading its own bytes to the plugin."""
    try:
        yield
    except KBForgeError as error:
        raise ModelError(f"{called} cannot read what it keeps, {_FAULT} ({error})") from error


def _require_equal(called: str, again: LearnedState | None, content: bytes) -> None:
    if again is None or kept_row(again)[1] != content:
        raise ModelError(f"{called} reads something else than it keeps, {_FAULT}")


def restore(store: Store, confidence: bool = False) -> tuple[PreparedRun, RunOptions]:
    """The restored run, and the user's choices.

    The confidence map, which may need another model, is restored on request.

    Raises:
        KBForgeError: it is damaged, or names a model or plugin that is missing.

    """
    choices, name, prior = chosen(store)
    frozen = store.fact("frozen")
    if frozen["bundle"] != _bundle_digest(name):
        raise ModelError(
            f"{quoted(store.database.path, 400)} was made with the model {quoted(name, 400)}, "
            "which is missing or has changed; restore it"
        )
    clusterer = make_clusterer(choices)
    many = frozen["kept"].get("index") is not None
    models = _unfitted(choices, name, frozen["max_evals"], many)
    _take_up(store, models.likelihood, "likelihood")
    if models.surrogate is not None and models.surrogate is not models.likelihood.surrogate:
        _take_up(store, models.surrogate, "surrogate")
    if models.index is not None and models.index is not models.likelihood.index:
        _take_up(store, models.index, "index")
    prepared = PreparedRun(
        clusterer,
        models.spec(prior, choices),
        reading_of(store, models.likelihood, name, choices) if confidence else None,
        name,
        models,
        tuple(frozen["notes"]),
    )
    prepared = with_rules(prepared, rules_of(store))
    return prepared if store.fact(KNOWN) is None else with_known(prepared), choices


def rules_of(store: Store) -> RuleSet:
    """The rules in force."""
    return RuleSet(*(tuple(attributes) for attributes in store.fact(RULES, RuleSet())))


def with_rules(prepared: PreparedRun, rules: RuleSet) -> PreparedRun:
    """The same run under these rules."""
    never, always = rules
    constraints = replace(prepared.spec.constraints, never=never, always=always)
    return replace(prepared, spec=replace(prepared.spec, constraints=constraints))


def chosen(store: Store) -> tuple[RunOptions, str, DirichletProcess]:
    """The user's choices for a store, and its likelihood and prior."""
    frozen = store.fact("frozen")
    require_untempered(store.fact("choices"), store.database.path)
    prior = DirichletProcess(float(frozen["alpha"]), frozen.get("size_exponent", 1.0))
    return _from_json(store.fact("choices")), frozen["likelihood"], prior


def with_likelihood(
    choices: RunOptions, likelihood: str, found: Mapping[str, object] | None = None
) -> RunOptions:
    """The choices with the selected likelihood, including its own options if it was a default.

    `found` are options from its file.
    """
    options = dict(choices.options)
    if choices.likelihood is None and not choices.of("likelihood"):
        own = default_options(likelihood, choices.defaults, choices.link)
        options["likelihood"] = own | dict(found or {})
    return replace(choices, likelihood=likelihood, options=options)


def _unfitted(choices: RunOptions, likelihood: str, max_evals: int | None, many: bool) -> Models:
    """The plugins of a store before they learn; `many`: a likelihood without an index got one."""
    named = replace(with_likelihood(choices, likelihood), max_evals=max_evals)
    with bundles_read_once():
        return make_models(named, make_clusterer(named), [], many=many)


def seen_of(store: Store) -> NDArray[np.uint8]:
    """The digests of the values that the models learned from."""
    kept = _kept(store, "seen")
    if kept is None or "seen" not in kept.arrays:
        raise KBForgeError(
            f"{quoted(store.database.path, 400)} is damaged: the values that it has seen are "
            "missing"
        )
    return kept.arrays["seen"]


def require_same(store: Store, given: RunOptions) -> None:
    """Refuse choices that differ from the store's; omitted choices do not."""
    asked, frozen = _from_json(store.fact("choices")), {"size_exponent": 1.0} | store.fact("frozen")
    found = ("likelihood", "alpha", "size_exponent")
    given, plain = _from_json(_as_json(given)), RunOptions()
    for name in (one.name for one in fields(RunOptions)):
        value, default = getattr(given, name), getattr(plain, name)
        if name in _FREE or value == default or value == getattr(asked, name):
            continue
        has = frozen[name] if name in found else getattr(asked, name)
        if name in found and value == has:
            continue
        named = option("set" if name == "options" else name)
        was = "without it" if has in (None, {}) else f"with {quoted(has)}"
        raise UsageError(
            f"{named}: {quoted(store.database.path, 400)} was made {was}, got {quoted(value)}; "
            "leave the option out, or make another store"
        )


def _as_json(choices: RunOptions) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for one in fields(RunOptions):
        value = getattr(choices, one.name)
        if one.name == "options":
            value = {kind: dict(options) for kind, options in value.items() if options}
        elif value is not None and not isinstance(value, str | int | float):
            raise UsageError(
                f"{option(one.name)}: expected a name, got a {type(value).__name__}; a store keeps "
                "names, from which the next command creates the plugin"
            )
        out[one.name] = value
    return out


def _from_json(told: Mapping[str, Any]) -> RunOptions:
    known = {one.name for one in fields(RunOptions)}
    return RunOptions(**{name: value for name, value in told.items() if name in known})


def _learned(likelihood: Likelihood, fragments: Sequence[Fragment]) -> LearnedState:
    """The state that a likelihood dumps or, without `dump`, the fragments that it was fitted to."""
    return likelihood.dump() if likelihood.keeps else _reference(fragments)


def _reference(fragments: Sequence[Fragment]) -> LearnedState:
    return LearnedState({"fragments": [fragment.to_json() for fragment in fragments]})


def _is_reference(kept: LearnedState, plugin: Likelihood | CandidateIndex) -> bool:
    """Whether these are the fragments that a plugin without `dump` was fitted to."""
    return "fragments" in kept.values and not getattr(plugin, "keeps", False)


def _take_up(store: Store, plugin: Likelihood | CandidateIndex, role: str) -> None:
    """Restore a role's saved state, if there is one; if it belongs to another model, learn again
    from the store."""
    kept = _kept(store, role)
    if kept is None:
        return
    if _is_reference(kept, plugin):
        plugin.fit([Fragment.from_json(one, "the store") for one in kept.values["fragments"]])
        return
    try:
        plugin.load(kept)
    except OtherModelError:
        plugin.fit(list(store.fragments()))


def _kept(store: Store, role: str) -> LearnedState | None:
    """The saved state of a role; it is read now, and may be large."""
    digest = store.fact("frozen")["kept"].get(role)
    return None if digest is None else store.kept(digest)


def reading_of(
    store: Store, likelihood: Likelihood, name: str, choices: RunOptions
) -> ConfidenceMap | None:
    """The confidence map, which may use a model of pairs: the likelihood, if `name` is pairs."""
    found = _kept(store, "confidence")
    if found is None:
        return None
    pairs: Likelihood | None = likelihood if name == _PAIRS else None
    if store.fact("frozen")["kept"].get(_PAIRS) is not None:
        pairs = _pair_model(choices)
        _take_up(store, pairs, _PAIRS)
    return _reading_from(found, pairs, choices.defaults)


def _pair_model(choices: RunOptions) -> Likelihood:
    options = default_options(_PAIRS, choices.defaults, choices.link)
    return make_likelihood(_PAIRS, options)


def _reading_from(
    kept: LearnedState, pairs: Likelihood | CandidateIndex | None, defaults: str | None
) -> ConfidenceMap:
    from kbforge.fit.confidence import load_map

    return load_map(kept, cast("PairModel | None", pairs), defaults)


def _bundle_digest(likelihood: str) -> str | None:
    """The digest of a bundle's manifest, which includes those of its files."""
    manifest = Path(likelihood) / MANIFEST
    if is_name(likelihood) or not manifest.is_file():
        return None
    return hashlib.sha256(manifest.read_bytes()).hexdigest()


# --- drift ----------------------------------------------------------------------------------------
#
# Two shares an attribute are compared. *Stated* is the share of fragments that have the attribute.
# *New* is the share of values that are new: of what was learned from, the values seen once, which
# is the Good-Turing estimate of what one more value would be (Good 1953); of what came since, the
# values that the models have not seen. The drift is the largest difference of any share, less two
# standard errors of a share among what came since. A share of fewer than `LEAST` is not compared.

WORTH_IT = 0.1
"""Minimum drift at which learning again is worth it."""
GROWN = 2.0
"""Growth of the data, as a multiple, at which learning again is worth it, too."""
LEAST = 30
"""Minimum number of new fragments or values for a meaningful share."""
_MOST_ATTRIBUTES = 200
_MOST_COLUMNS = 1_000
_BITS = 16  # a value; a value never seen passes for seen about one time in seventy
_LEAST_BITS = 1 << 10
_MOST_BITS = 1 << 30


@dataclass(slots=True)
class Tally:
    """One attribute: the fragments that have it, their statements, and the new values among them.

    In the learned data, new values are those seen once; later, those never seen.
    """

    stated: int = 0
    values: int = 0
    new: int = 0


@dataclass(slots=True)
class Drift:
    """Tallies of the learned data, and of later fragments."""

    fragments: int  # the number learned from
    # those of them that were not added yet, because a store learns from a whole file before it adds
    # the first fragment
    due: int
    came: int  # the number added since
    learned: dict[str, Tally]  # tallies by attribute
    since: dict[str, Tally]  # tallies of later fragments by attribute
    # the attributes in the order of the learned file, then those of later fragments, up to a
    # maximum; empty in a store of a version before 0.3
    columns: dict[str, None]
    seen: NDArray[np.uint8] = field(repr=False)  # a filter of the learned values, two bits each
    # the number of the first fragment added since; None if none was, or the version did not note it
    first: int | None = None

    def add_learned(self, fragments: Sequence[Fragment]) -> None:
        """Count the first fragments of a store, some of which may be due."""
        due = min(self.due, len(fragments))
        self.due -= due
        for number in range(due, len(fragments)):
            self.add(fragments[number], number)

    def add(self, fragment: Fragment, number: int) -> None:
        """Count an added fragment, which has a higher number than those before it."""
        if self.due:
            self.due -= 1
            return
        if not self.came:
            self.first = number
        if self.columns:
            for attribute in fragment.properties:
                if len(self.columns) < _MOST_COLUMNS:
                    self.columns[attribute] = None
        self._count(fragment, 1)

    def remove(self, fragment: Fragment, number: int) -> None:
        """Count a removed fragment no longer, unless the models learned from it."""
        if self.first is not None and number >= self.first:
            self._count(fragment, -1)

    def _count(self, fragment: Fragment, one: int) -> None:
        self.came += one
        for attribute, values in fragment.properties.items():
            tally = self.since.get(attribute)
            if tally is None:
                if len(self.since) >= _MOST_ATTRIBUTES:
                    continue
                tally = self.since[attribute] = Tally()
            tally.stated += one
            for value in values:
                tally.values += one
                tally.new += one * (
                    not all(
                        self.seen[bit >> 3] >> (bit & 7) & 1
                        for bit in _bits(attribute, value, 8 * len(self.seen))
                    )
                )

    @property
    def figures(self) -> dict[str, float]:
        """For each attribute, the larger of its two differences, from 0 to 1."""
        out = {}
        for attribute in sorted({*self.learned, *self.since}):
            old = self.learned.get(attribute, Tally())
            new = self.since.get(attribute, Tally())
            out[attribute] = max(
                _difference(old.stated, self.fragments, new.stated, self.came),
                _difference(old.new, old.values, new.new, new.values),
            )
        return out

    @property
    def largest(self) -> list[tuple[str, float]]:
        """The attributes and their figures, the largest first."""
        return sorted(self.figures.items(), key=lambda item: (-item[1], item[0]))

    @property
    def figure(self) -> float:
        """The drift, from 0 to 1."""
        return max(self.figures.values(), default=0.0)

    @property
    def worth_it(self) -> bool:
        """Whether learning again is worth it."""
        grown = self.came > (GROWN - 1) * self.fragments
        return self.came >= LEAST and (grown or self.figure > WORTH_IT)

    def to_json(self) -> dict[str, Any]:
        """The form in which a store saves it."""

        def rows(tallies: Mapping[str, Tally]) -> dict[str, list[int]]:
            return {name: [t.stated, t.values, t.new] for name, t in sorted(tallies.items())}

        return {
            "fragments": self.fragments,
            "due": self.due,
            "came": self.came,
            "learned": rows(self.learned),
            "since": rows(self.since),
            "columns": list(self.columns),
            "first": self.first,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any], seen: NDArray[np.uint8]) -> Drift:
        """The tallies in the form of `to_json`, and the filter."""
        learned, since = (
            {name: Tally(*numbers) for name, numbers in told[which].items()}
            for which in ("learned", "since")
        )
        columns = dict.fromkeys(told.get("columns", ()))
        counts = told["fragments"], told["due"], told["came"]
        return cls(*counts, learned, since, columns, seen, told.get("first"))

    @classmethod
    def of(cls, store: Store) -> Drift:
        """The drift of a store."""
        return cls.from_json(store.fact("drift"), seen_of(store))


def attributes_of(store: Store) -> set[str]:
    """The attributes that fragments of a store have; none if there are too many to list."""
    told = store.fact("drift")
    if len(told["learned"]) >= _MOST_ATTRIBUTES or len(told["since"]) >= _MOST_ATTRIBUTES:
        return set()
    return {*told["learned"], *told["since"]}


def drift_of(fragments: Sequence[Fragment], due: bool) -> Drift:
    """Start new tallies: nothing was added since the models learned; `due` are to be added."""
    said = statements_of(fragments)
    n = len(said.attributes)
    stated = np.bincount(said.attribute[firsts_of(said)], minlength=n).tolist()
    counts = [np.bincount(said.value[said.attribute == number]) for number in range(n)]
    ranked = sorted(range(n), key=lambda number: (-stated[number], said.attributes[number]))
    different = sum(map(len, said.texts))
    size = min(max(_BITS * different, _LEAST_BITS), _MOST_BITS)
    size = 1 << math.ceil(math.log2(size))
    seen = np.zeros(size // 8, dtype=np.uint8)
    for attribute, texts in zip(said.attributes, said.texts, strict=True):
        for value in texts:
            for bit in _bits(attribute, value, size):
                seen[bit >> 3] |= 1 << (bit & 7)
    common = sorted((said.attributes[number], number) for number in ranked[:_MOST_ATTRIBUTES])
    learned = {
        attribute: Tally(stated[k], int(counts[k].sum()), int((counts[k] == 1).sum()))
        for attribute, k in common
    }
    columns = dict.fromkeys(islice(columns_of(said), _MOST_COLUMNS))
    return Drift(len(fragments), len(fragments) * due, 0, learned, {}, columns, seen)


def _bits(attribute: str, value: str, size: int) -> tuple[int, int]:
    text = f"{attribute}\0{value}".encode(errors="surrogatepass")
    digest = hashlib.blake2b(text, digest_size=16).digest()
    return int.from_bytes(digest[:8]) % size, int.from_bytes(digest[8:]) % size


def _difference(old: int, of_old: int, new: int, of_new: int) -> float:
    """The difference of two shares, minus two standard errors of the second; 0 if the second has
    few."""
    if not of_old or of_new < LEAST:
        return 0.0
    a, b = old / of_old, new / of_new
    pooled = (old + new) / (of_old + of_new)
    return max(abs(a - b) - 2 * math.sqrt(pooled * (1 - pooled) / of_new), 0.0)
