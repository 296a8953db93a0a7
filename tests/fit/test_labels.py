"""Labels of a file: how they are read, which pairs they are about, and what they change."""

import json
from dataclasses import replace

import pytest

import kbforge
from kbforge.contracts import Decision, Fragment
from kbforge.errors import BadRecord, KBForgeError, ModelError, UsageError
from kbforge.files.answers import NumberedAnswer
from kbforge.files.fragments import write_fragments
from kbforge.fit.choices import RunOptions, choices_of
from kbforge.fit.labels import Labels, read_labels
from kbforge.fit.prepare import prepare
from kbforge_plugins.likelihoods.pairs.likelihood import Pairs

_WORDS = ("stone", "river", "amber", "north", "silver", "maple", "quartz", "harbor")


def editions(count: int) -> list[Fragment]:
    """Works with two editions of two fragments each: other editions are other entities."""
    return [
        Fragment(
            f"{k}-{edition}-{shop}",
            {
                "name": (f"{_WORDS[k % 8]} {_WORDS[k // 8 % 8]} lamp {k % 5}",),
                "edition": (edition,),
                "shop": (f"shop {shop} {k % 3}",),
            },
            label=f"{k} {edition}",
        )
        for k in range(count)
        for edition in ("first", "second")
        for shop in range(2)
    ]


LABELLED = editions(40)
FRAGMENTS = [replace(fragment, label=None) for fragment in LABELLED]
HALF = LABELLED[:80]


def f1(entities, gold) -> float:
    """F1 of pairs of the fragments in `gold`."""
    labels = {fragment.id: fragment.label for fragment in gold}
    groups = [[labels[x] for x in one.fragments if x in labels] for one in entities]

    def pairs(sizes):
        return sum(n * (n - 1) // 2 for n in sizes)

    found = pairs(map(len, groups))
    right = sum(pairs(group.count(label) for label in {*group}) for group in groups)
    true = [*labels.values()]
    return 2 * right / (found + pairs(true.count(label) for label in {*true}))


def test_labels_of_half_of_the_entities_teach_about_the_others(tmp_path):
    pytest.importorskip("lightgbm")
    path = str(tmp_path / "labels.jsonl")
    write_fragments(HALF, path)
    plain = kbforge.cluster(FRAGMENTS)
    taught = kbforge.cluster(FRAGMENTS, labels_from=path)
    assert f1(plain.entities, LABELLED[80:]) < 0.6
    assert f1(taught.entities, LABELLED[80:]) == 1
    assert any("to learn from" in note for note in taught.notes)
    again = kbforge.cluster(FRAGMENTS, labels_from=path)
    assert [one.fragments for one in again.entities] == [one.fragments for one in taught.entities]
    with pytest.raises(ModelError, match="train-pairs"):
        choices_of(taught.made, "kb")


FORMS = {
    "labels.csv": "fragment,entity\n" + "".join(f"{x.id},{x.label}\n" for x in HALF),
    "labels.tsv": "fragment\tentity\n" + "".join(f"{x.id}\t{x.label}\n" for x in HALF),
}


@pytest.mark.parametrize("name", FORMS)
def test_tables_say_of_which_entity_a_fragment_is(name, tmp_path):
    (tmp_path / name).write_text(FORMS[name])
    read = read_labels(str(tmp_path / name))
    assert read.entity == {fragment.id: fragment.label for fragment in HALF}
    assert not read.pairs


def test_entities_are_labels(tmp_path):
    kb = kbforge.cluster(FRAGMENTS[:12], likelihood="names")
    kb.write(str(tmp_path / "kb.jsonl"))
    read = read_labels(str(tmp_path / "kb.jsonl"))
    assert read.entity == {id: one.id for one in kb.entities for id in one.fragments}


def test_pairs_are_read_from_tables_and_answers(tmp_path):
    expected = [Decision(True, "a", "b"), Decision(False, "a", "c")]
    (tmp_path / "pairs.csv").write_text("one,other,said\na,b,same\na,c,different\n")
    lines = [{"a": "a", "b": "b", "same": True}, {"a": "a", "b": "c", "same": False}]
    unknown = {"a": "b", "b": "c", "same": None}
    text = "".join(json.dumps(line) + "\n" for line in [*lines, unknown])
    (tmp_path / "pairs.jsonl").write_text(text)
    for name in ("pairs.csv", "pairs.jsonl"):
        read = read_labels(str(tmp_path / name))
        assert (read.pairs, read.entity) == (expected, {})


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("x.csv", "a,b,c\nx,y,maybe\n", r"x\.csv:2: expected same or different, got \"maybe\""),
        ("x.csv", "a,b,c\nx,x,same\n", "expected two fragments"),
        ("x.csv", "a,b\nx,1\nx,2\n", "expected each fragment once"),
        ("x.csv", "a,b\nx,1\nx,y,same\n", "x.csv:3: expected fragment and entity"),
        ("x.csv", "a,b\nx,\n", "x.csv:2: expected fragment and entity"),
        ("x.csv", 'a,b\n"x,1\n', "expected fragment and entity"),
        ("x.csv", "a,b\n" + "x" * 200_000 + ",1\n", "expected fragment and entity"),
        ("x.jsonl", '{"a": "x", "b": "x", "same": true}\n', "another id than a"),
        ("x.jsonl", '{"a": "x", "b": "y", "same": "yes"}\n', "same"),
        ("x.jsonl", '{"id": "x", "properties": {"name": ["n"]}}\n', "no fragment has a label"),
        ("x.jsonl", "", "no fragment has a label"),
    ],
)
def test_a_wrong_file_is_one_sentence(name, text, said, tmp_path):
    (tmp_path / name).write_text(text)
    with pytest.raises((BadRecord, KBForgeError), match=said) as caught:
        read_labels(str(tmp_path / name))
    assert len(str(caught.value)) < 600


class Recorder(Pairs):
    """Keeps what it is told."""

    def trained(self, labels):
        self.told = labels
        return self


def test_compared_pairs_of_labelled_rows_are_told_with_the_share_that_is_one_entity():
    """Of a row that two entities state, half of the pairs with either are."""
    twin = Fragment("twin", HALF[0].properties)
    fragments = [*FRAGMENTS[:4], twin]
    entity = {"0-first-0": "x", "0-first-1": "x", "0-second-0": "y", "twin": "y"}
    model = Recorder()
    model.fit(fragments)
    Labels("labels", entity, ()).teach(model, fragments)
    told = {frozenset((a.properties["edition"], a.id, b.id)): same for a, b, same in model.told}
    row = {"0-first-0": "row", "twin": "row"}
    found = {
        tuple(sorted((row.get(a.id, a.id), row.get(b.id, b.id)))): same for a, b, same in model.told
    }
    assert len(told) == len(found)
    assert found == {
        ("row", "row"): 0.0,
        ("0-first-1", "row"): 0.5,
        ("0-second-0", "row"): 0.5,
        ("0-first-1", "0-second-0"): 0.0,
    }


def test_labels_of_other_fragments_teach_nothing():
    model = Pairs()
    model.fit(FRAGMENTS[:8])
    other = Labels("labels.csv", {"other": "x", "another": "x"}, [Decision(True, "p", "q")])
    with pytest.raises(KBForgeError, match=r"labels\.csv: expected labels of these fragments"):
        other.teach(model, FRAGMENTS[:8])


def test_labels_and_answers_are_not_combined(tmp_path):
    said = [NumberedAnswer(0, 1, True, False)]
    with pytest.raises(UsageError, match="cannot be combined"):
        prepare(FRAGMENTS[:4], RunOptions(labels_from="b"), said)
    with pytest.raises(UsageError, match="train-pairs"):
        kbforge.update(str(tmp_path / "kb.sqlite"), FRAGMENTS, labels_from="labels.csv")
