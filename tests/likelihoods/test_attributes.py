"""The attribute likelihood as a whole: records, explanations, bundles, and what is thrown at it."""

import math
import random
from pathlib import Path

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.contracts import UNREAD, Fragment, ModelSpec, Posterior
from kbforge.errors import ModelError, UsageError
from kbforge.models.bundle import Bundle, make_likelihood, write_bundle
from kbforge.testing.examples import HOSTILE_VALUES
from kbforge.testing.likelihood import stored
from kbforge.texts.kinds import stated
from kbforge.texts.statements import StatedValues
from kbforge_plugins.clusterers.sequential import SplitSmc
from kbforge_plugins.likelihoods.attributes.fitting import FittedAttributes, vocabularies_of
from kbforge_plugins.likelihoods.attributes.likelihood import RATES_FILE, VALUES_FILE, Attributes
from kbforge_plugins.likelihoods.attributes.urn import AttributeRates, rates_to_toml
from tests.likelihoods.attributes.toys import random_rates, urn_written_out
from tests.people import people
from tests.profile import examples


def record(identity: object, **properties: str | tuple[str, ...]) -> Fragment:
    said = {a: (v,) if isinstance(v, str) else v for a, v in properties.items()}
    return Fragment(str(identity), said)


def fitted(fragments: list[Fragment]) -> Attributes:
    model = Attributes()
    model.fit(fragments)
    return model


def some_records(rng: random.Random, n: int) -> list[Fragment]:
    """Few values, some written in two ways, attributes missing, one with several values."""
    choices = {
        "name": ["Ann Lee", "ann  lee", "Anne Lee", "A. Lee", "Bo Ek", " "],
        "born": ["1901-02-03", "1901-02-04", "1901", "1910-02-03"],
        "known as": ["Nan", "NAN", "Annie", "Bosse", "the wren"],
    }
    most = {"name": 1, "born": 1, "known as": 3}
    out = []
    for i in range(n):
        said = {
            attribute: tuple(rng.sample(values, rng.randint(1, most[attribute])))
            for attribute, values in choices.items()
            if rng.random() < 0.8
        }
        out.append(Fragment(f"f{i}", said or {"name": ("Bo Ek",)}))
    return out


def model_of(rng: random.Random, fragments: list[Fragment]) -> Attributes:
    """With rates that data would never teach."""
    vocabularies = vocabularies_of(StatedValues.of(fragments))
    rates = {a: random_rates(rng, v.kind) for a, v in vocabularies.items()}
    return Attributes.trained(FittedAttributes(vocabularies, rates, 1.0, len(fragments)))


def written_out(model: Attributes, cluster: list[Fragment]) -> float:
    read = [
        any(stated(x.properties.get(attribute, ())) for attribute in model.vocabularies)
        for x in cluster
    ]
    total = -60.0 * min(read.count(False), len(cluster) - 1)
    for attribute, vocabulary in model.vocabularies.items():
        said = [stated(fragment.properties.get(attribute, ())) for fragment in cluster]
        drawn = [vocabulary.number(value) for value in said if value]
        if drawn:
            total += urn_written_out(vocabulary, model.rates[attribute], drawn)
    return total


@given(seed=st.integers(0, 10**9), n=st.integers(1, 7))
@examples(80)
def test_the_marginal_is_the_product_of_the_urns_written_out(seed, n):
    """Also of fragments with several values, with blanks, and with one value in two spellings."""
    rng = random.Random(seed)
    fragments = some_records(rng, n + 3)
    model = model_of(rng, fragments[3:])  # three whose values it may not know
    found = float(model.log_marginal([fragments])[0])
    assert found == pytest.approx(written_out(model, fragments), abs=1e-8)


@given(seed=st.integers(0, 10**9), n=st.integers(2, 9))
@examples(60)
def test_order_does_not_matter_to_the_last_bit(seed, n):
    rng = random.Random(seed)
    fragments = some_records(rng, n)
    model = model_of(rng, fragments[: n // 2 + 1])
    first = model.log_marginal([fragments])[0]
    for _ in range(3):
        shuffled = rng.sample(fragments, n)
        assert model.log_marginal([shuffled])[0] == first
        # nor does what the model has been asked before it comes to these
        other = Attributes.trained(FittedAttributes(model.vocabularies, model.rates, 1.0, n))
        other.log_marginal([[fragment] for fragment in rng.sample(fragments, n)])
        assert other.log_marginal([shuffled])[0] == first


def test_agreement_speaks_for_and_disagreement_against():
    fragments = people(80, 9, error=0.05)
    model = fitted(fragments)
    ann = record("a", name="Ann Karlsson", born="1901-02-03", town="Leeds")
    other = record("b", name="Ann Karlsson", born="1944-11-27")
    found = model.contributions(ann, [other])
    assert found["name"] > 0 > found["born"]
    assert "town" not in found
    assert model.contributions(ann, []) == {}


def test_a_missing_value_costs_nothing():
    model = fitted(people(40, 2))
    whole, less = record("a", name="Ann", town="york"), record("b", name="Ann")
    blank = record("c", name="Ann", town=(" ", "\u3000"))
    alone = model.log_marginal([[whole, less], [whole, blank]])
    assert alone[0] == alone[1]


def test_a_record_of_which_nothing_is_read_stays_alone():
    model = fitted(people(40, 2))
    whole, less = record("a", name="Ann", town="york"), record("b", name="Ann")
    nothing, blank = Fragment("d", {"colour": ("red",)}), record("c", town=(" ", "\u3000"))
    found = model.log_marginal([[whole, less], [whole, less, nothing], [blank, nothing]])
    assert found[1] - found[0] == pytest.approx(UNREAD)
    assert found[2] == UNREAD
    assert model.log_marginal([[nothing]])[0] == 0
    assert model.contributions(nothing, [whole]) == {"colour": UNREAD}
    assert model.contributions(whole, [nothing]) == {"name": UNREAD}


def test_a_value_in_two_spellings_is_one_value():
    model = fitted(people(40, 2))
    once, twice = record("a", name="Ann Lee"), record("a", name=("Ann Lee", "ANN  LEE"))
    values = model.log_marginal([[once], [twice], [once, once], [twice, twice]])
    assert values[0] == values[1]
    assert values[2] == values[3]


def test_the_attributes_named_are_read_and_no_others():
    """By the likelihood and by the index, before and after fitting."""
    fragments = people(40, 2)
    model = Attributes(attributes=("name", "born"))
    model.fit(fragments)
    only = [
        Fragment(f.id, {a: f.properties[a] for a in ("name", "born") if a in f.properties})
        for f in fragments
    ]
    assert list(model.vocabularies) == ["born", "name"]
    assert model.log_marginal([fragments[:9]]).tolist() == model.log_marginal([only[:9]]).tolist()
    same = fitted([f for f in only if f.properties] or only)
    assert same.rates == model.rates
    for whole, part in zip(fragments, only, strict=True):
        assert model.index.keys(whole) == model.index.keys(part)
    assert model.index.keys(record("x", town=next(iter(fragments[0].properties["name"])))) == []


@pytest.mark.parametrize("names", [("name", "age"), ("age",)])
def test_an_attribute_that_no_fragment_has(names):
    with pytest.raises(UsageError) as error:
        Attributes(attributes=names).fit(people(5, 1))
    assert str(error.value) == 'likelihood attributes: no fragment has the attribute "age"'


def test_fragments_without_attributes():
    with pytest.raises(UsageError) as error:
        Attributes().fit([Fragment("a", {}, (1.0,)), record("b", name=" ")])
    expected = "likelihood attributes: the fragments have no attributes to read"
    assert str(error.value) == expected


def test_an_attribute_named_twice():
    with pytest.raises(UsageError, match="an attribute is named twice"):
        Attributes(attributes=("a", "a"))


# bundles


@pytest.fixture
def trained():
    return fitted(people(40, 2))


def files_of(model: Attributes) -> dict[str, bytes]:
    counts = {name: v.counts for name, v in model.vocabularies.items()}
    return {RATES_FILE: rates_to_toml(model.rates), VALUES_FILE: orjson.dumps(counts)}


def write(folder: Path, files: dict[str, bytes]) -> Path:
    write_bundle(folder, Bundle("likelihoods", "attributes", files, {}, {}))
    return folder


def test_a_bundle_gives_the_same_model_back(trained, tmp_path):
    """To the last bit, also after it has seen what it was trained on."""
    read = make_likelihood(str(write(tmp_path / "m", files_of(trained))))
    assert isinstance(read, Attributes)
    fragments = people(40, 2)
    clusters = [fragments[i : i + 4] for i in range(20)]
    assert read.log_marginal(clusters).tolist() == trained.log_marginal(clusters).tolist()
    assert read.fit(fragments) is None
    assert read.rates == trained.rates
    assert read.log_marginal(clusters).tolist() == trained.log_marginal(clusters).tolist()
    assert [read.index.keys(f) for f in fragments] == [trained.index.keys(f) for f in fragments]


def test_fragments_without_any_attribute_of_the_model_are_pointed_out(trained, tmp_path):
    model = Attributes.from_bundle(write(tmp_path / "m", files_of(trained)))
    note = model.fit([record("a", colour="red"), record("b", colour="red")])
    assert note is not None
    assert "no fragment has an attribute that the model reads (" in note
    assert all(name in note for name in trained.vocabularies)
    assert model.fit(people(5, 1)) is None


def test_a_bundle_reads_the_attributes_it_was_trained_on(trained, tmp_path):
    folder = write(tmp_path / "m", files_of(trained))
    read = Attributes.from_bundle(folder, ("name",))
    assert list(read.vocabularies) == ["name"]
    strangers = [record("a", name="Ann", colour="red"), record("b", name="Bo", colour="red")]
    for model in (read, Attributes.from_bundle(folder)):
        model.fit(strangers)
        assert not set(model.index.keys(strangers[0])) & set(model.index.keys(strangers[1]))
    with pytest.raises(ModelError, match='was not trained on the attribute "age"'):
        Attributes.from_bundle(folder, ("age",))


def test_new_values_are_counted_with_those_trained_on(trained, tmp_path):
    """New names can be variants of each other; fitting again does not count them again."""
    read = Attributes.from_bundle(write(tmp_path / "m", files_of(trained)))
    pair = [record("a", name="wolfgang pückett"), record("b", name="w pückett")]
    others = [record(f"n{i}", name=f"x{i}") for i in range(5)]

    def evidence() -> float:
        both, one, other = read.log_marginal([pair, pair[:1], pair[1:]])
        return float(both - one - other)

    before = evidence()
    read.fit([*pair, *others])
    after = evidence()
    assert after > before
    read.fit([*pair, *others])
    assert evidence() == after
    old = {name: v.counts for name, v in trained.vocabularies.items()}
    new = read.vocabularies["name"].counts
    assert {value: new[value] for value in old["name"]} == old["name"]


def _spoiled(name: str, content: bytes | None, model: Attributes) -> dict[str, bytes]:
    files = {**files_of(model), name: content or b""}
    if content is None:
        del files[name]
    return files


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        (RATES_FILE, None, " has no rates.toml: it is not an attribute model"),
        (VALUES_FILE, None, " has no values.json: it is not an attribute model"),
        (RATES_FILE, b"", "/rates.toml: format: expected 2, got nothing"),
        (VALUES_FILE, b"{", "/values.json is not JSON"),
        (VALUES_FILE, b"[]", "/values.json: expected an object of attributes, got []"),
        (VALUES_FILE, b'{"name":3}', "/values.json: name: expected an object of values, got 3"),
        (VALUES_FILE, b'{"name":{}}', "/values.json: name: expected an object of values, got {}"),
        (VALUES_FILE, b'{"name":{"a":0}}', "/values.json: name: a: expected a number of at least"),
        (VALUES_FILE, b'{"name":{"a":true}}', "/values.json: name: a: expected a number of at"),
        (VALUES_FILE, b'{"name":{"a":"x"}}',
         "/values.json: name: a: expected a number of at least 0.02, got x"),
        (VALUES_FILE, b'{"name":{"b":1,"a":0.01}}',
         "/values.json: name: a: expected a number of at least 0.02, got 0.01"),
        (VALUES_FILE, b'{"name":{"a":1}}', '/values.json lacks the attribute "born"'),
        (RATES_FILE, rates_to_toml({"name": AttributeRates.prior("text")}),
         '/rates.toml lacks the attribute "born"'),
    ],
)  # fmt: skip
def test_a_bundle_that_is_not_whole(name, content, sentence, trained, tmp_path):
    folder = write(tmp_path / "m", _spoiled(name, content, trained))
    with pytest.raises(ModelError) as error:
        make_likelihood(str(folder))
    assert str(error.value).startswith(f"{folder}{sentence}")


def test_rates_beside_a_bundle(trained, tmp_path):
    folder = write(tmp_path / "m", files_of(trained))
    edited = AttributeRates.of("category", [0.5, 0.1, 0.1, 0.1, 0.2], 7.0)
    (tmp_path / "r.toml").write_bytes(rates_to_toml({"town": edited}))
    read = Attributes.from_bundle(folder, rates=str(tmp_path / "r.toml"))
    assert read.rates == {**trained.rates, "town": edited}
    assert read.vocabularies["town"].kind == "category"
    (tmp_path / "r.toml").write_bytes(rates_to_toml({"age": edited}))
    with pytest.raises(ModelError, match='has no attribute "age" of the rates file'):
        Attributes.from_bundle(folder, rates=str(tmp_path / "r.toml"))


# what is thrown at it


def clustered(model: Attributes, alpha: float, fragments: list[Fragment], n: int) -> Posterior:
    spec = ModelSpec(model, alpha, index=model.index)
    return SplitSmc(particles=n).cluster(fragments, spec, np.random.default_rng(0))


def test_hostile_values_are_clustered():
    values = [*HOSTILE_VALUES, "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u202eadA", "\x00"]
    values += ["x" * 65_536, "x" * 65_535, "北京 " * 9000, "\ufdfa" * 500, "Ω≈ç√∫˜µ", "\u0301"]
    fragments = [
        Fragment(f"{v}-{k}", {"name": (value,), value[:900]: (value, "y"), "born": ("1901",)})
        for v, value in enumerate(values)
        for k in range(3)
    ]
    model = fitted(fragments)
    found = clustered(model, 1.0, fragments, 10)
    assert math.isfinite(found.log_posterior)
    assert found.n_fragments == len(fragments)


@pytest.mark.slow
def test_ten_thousand_different_values_in_one_cluster():
    """Neither at once nor one after the other does their number squared matter."""
    model = fitted(people(20, 1))
    fragments = [record(i, name=f"name {i} of many") for i in range(10_000)]
    whole = float(model.log_marginal([fragments])[0])
    assert math.isfinite(whole)
    table = model.live_clusters()
    total = table.log_predictive_new(table.encode(fragments[0]))
    table.extend(table.encode(fragments[0]), np.array([-1]), np.array([0]))
    for slot, fragment in enumerate(fragments[1:500]):
        x = table.encode(fragment)
        total += float(table.log_predictive_of(x, np.array([slot]))[0])
        table.extend(x, np.array([slot]), np.array([slot + 1]))
        table.release(np.array([slot]))
    part = float(model.log_marginal([fragments[:500]])[0])
    assert total == pytest.approx(part, rel=1e-8)


def test_a_fragment_of_ten_thousand_values():
    model = fitted(people(20, 1))
    many = record("a", name=tuple(f"name {i}" for i in range(10_000)))
    both, one = model.log_marginal([[many, record("b", name="name 7")], [many]])
    assert math.isfinite(both)
    assert both < one


def test_three_hundred_attributes():
    rng = random.Random(1)
    fragments = [
        Fragment(f"f{i}", {f"a{k}": (rng.choice("xyz") * rng.randint(1, 9),) for k in range(300)})
        for i in range(20)
    ]
    model = fitted(fragments)
    assert len(model.vocabularies) == 200
    assert math.isfinite(clustered(model, 1.0, fragments, 3).log_posterior)


def test_people_are_found():
    """The whole of it on records of made-up people, without labels: B-cubed F1 above .93."""
    fragments = people(80, 12, error=0.1)
    model = fitted(fragments)
    found = clustered(model, model.default_alpha, fragments, 20)
    cluster_of = {i: cluster for cluster in found.clusters() for i in cluster}
    gold: dict[str | None, set[int]] = {}
    for i, fragment in enumerate(fragments):
        gold.setdefault(fragment.label, set()).add(i)
    shared = [len(set(cluster_of[i]) & gold[f.label]) for i, f in enumerate(fragments)]
    precision = np.mean([n / len(cluster_of[i]) for i, n in enumerate(shared)])
    recall = np.mean([n / len(gold[f.label]) for n, f in zip(shared, fragments, strict=True)])
    assert 2 * precision * recall / (precision + recall) > 0.93


def taken_up_of(model: Attributes, other: Attributes) -> Attributes:
    other.load(stored(model.dump()))
    return other


def test_a_trained_model_keeps_the_values_that_it_was_not_trained_on(tmp_path):
    rng = random.Random(4)
    model = model_of(rng, some_records(rng, 12))
    path = write(tmp_path / "model", files_of(model))
    fragments = [*some_records(rng, 12), *people(4, 2)]
    trained = make_likelihood(str(path))
    assert isinstance(trained, Attributes)
    trained.fit(fragments)
    fresh = make_likelihood(str(path))
    assert isinstance(fresh, Attributes)
    clusters = [rng.sample(fragments, rng.randint(1, 6)) for _ in range(20)]
    other = taken_up_of(trained, fresh)
    assert other.log_marginal(clusters).tolist() == trained.log_marginal(clusters).tolist()
    # fitted again, it is what a fit of the bundle makes of the file
    other.fit(fragments[:5])
    trained.fit(fragments[:5])
    assert other.log_marginal(clusters).tolist() == trained.log_marginal(clusters).tolist()
    with pytest.raises(ModelError, match="trained: expected False, got True"):
        taken_up_of(trained, Attributes())
