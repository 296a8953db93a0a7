"""Groupings that need no model, against ones worked out by hand and against scikit-learn."""

from collections.abc import Sequence

import numpy as np
import pytest

from kbforge.contracts import Fragment
from kbforge.evaluation.scores import compare
from kbforge.files.fragments import read_fragments
from kbforge_lab.bench import baselines
from kbforge_lab.bench.baselines import connected, group, one_to_one, trigram_weights
from kbforge_lab.suites.accuracy import invented


def fragment(
    number: int, label: str = "a", source: str | None = None, **said: str | tuple[str, ...]
) -> Fragment:
    values = {k: (v,) if isinstance(v, str) else v for k, v in said.items()}
    return Fragment(f"f{number}", values, label=label, source=source)


def together(labels: Sequence[object]) -> list[list[int]]:
    return [[k for k, one in enumerate(labels) if one == other] for other in dict.fromkeys(labels)]


def test_all_apart_joins_nothing():
    held = [fragment(k, name="Ada") for k in range(3)]
    assert together(group("all apart", held, linked=False)) == [[0], [1], [2]]


def test_one_name_whatever_its_case_is_one_entity():
    held = [
        fragment(0, name="Ada Byrne", born="1901"),
        fragment(1, name="ADA BYRNE"),
        fragment(2, name=("Ada Byrne", "A. Byrne")),
        fragment(3, name=("A. Byrne", "Ada Byrne")),
        fragment(4, born="1901"),
        fragment(5, born="1901"),
    ]
    assert together(group("exact name", held, linked=False)) == [[0, 1, 2], [3], [4], [5]]


def test_records_may_have_their_name_in_two_parts():
    held = [
        fragment(0, first_name="Ada", surname="Byrne"),
        fragment(1, first_name="ada", surname="byrne", born="1901"),
        fragment(2, surname="Byrne"),
        fragment(3, surname="BYRNE"),
    ]
    assert together(group("exact name", held, linked=False)) == [[0, 1], [2, 3]]


def test_a_name_is_no_id():
    """A fragment without a name stands alone, also beside one that is called as its id is."""
    held = [fragment(0, name="f1"), fragment(1, born="1901"), fragment(2, first_name="f1")]
    assert together(group("exact name", held, linked=False)) == [[0], [1], [2]]


def test_of_linked_tables_one_name_has_one_fragment_each():
    held = [fragment(k, name="Ada", source=source) for k, source in enumerate("xyxxy")]
    assert together(group("exact name", held, linked=True)) == [[0, 1], [2, 4], [3]]


def test_the_ceiling_gives_equal_fragments_the_label_of_most():
    held = [
        fragment(0, "a", name="Byrne"),
        fragment(1, "a", name="Byrne"),
        fragment(2, "b", name="Byrne"),
        fragment(3, "b", name="Byrne", born="1901"),
        fragment(4, "a", born="1901", name="Ada"),
        fragment(5, "a", name="Ada", born="1901"),
    ]
    assert group("ceiling", held, linked=False) == ["a", "a", "a", "b", "a", "a"]
    apart = [Fragment(f"p{k}", {}, (float(k),), str(k)) for k in range(3)]
    assert group("ceiling", apart, linked=False) == ["0", "1", "2"]


@pytest.mark.data
@pytest.mark.parametrize(
    ("file", "names", "best"),
    [
        ("confusable/wd50_dev.jsonl", (0.774, 0.808, 0.724), (0.866, 0.977, 0.896)),
        ("confusable/dwie100_dev.jsonl", (0.848, 0.793, 0.750), (0.977, 0.998, 0.983)),
        ("restaurant/restaurant_864.jsonl", (0.993, 0.965, 0.972), (1.0, 1.0, 1.0)),
    ],
)
def test_they_are_those_that_the_data_come_with(data_dir, file, names, best):
    held = list(read_fragments(str(data_dir / file)))
    gold = [one.label for one in held]
    exact, ceiling = group("exact name", held, False), group("ceiling", held, False)
    for found, known in ((exact, names), (ceiling, best)):
        scores = compare(found, gold)
        ours = (scores.bcubed_precision, scores.bcubed_recall, scores.bcubed_f1_item_mean)
        assert ours == pytest.approx(known, abs=5e-4)


TEXTS = ["Ada Byrne 1901", "ada  byrne, 1901", "Ada Byrne", "Zofia", "ab", "", "zofia zofia zofia"]


@pytest.mark.parametrize("texts", [TEXTS, ["ab"], ["abc"]])
def test_weights_are_those_of_scikit_learn(texts):
    text = pytest.importorskip("sklearn.feature_extraction.text")
    weights = trigram_weights(texts)
    if weights.nnz == 0:  # which scikit-learn refuses
        assert texts == ["ab"]
        return
    known = text.TfidfVectorizer(analyzer="char", ngram_range=(3, 3)).fit_transform(texts)
    assert weights.shape == known.shape
    ours, theirs = ((w @ w.T).toarray() for w in (weights, known))
    assert ours == pytest.approx(theirs, abs=1e-12)
    lengths = np.sqrt(weights.power(2).sum(axis=1))
    assert lengths == pytest.approx([float(len(t) > 2) for t in texts])


def test_alike_texts_are_one_entity_and_so_are_those_that_others_connect():
    texts = ["Ada Byrne, born 1901", "Ada Byrne, born", "Ada Byrne", "Zofia", "", ""]
    held = [fragment(k, name=text) for k, text in enumerate(texts)]
    cosine = trigram_weights(texts)
    alike = (cosine @ cosine.T).toarray()
    assert min(alike[0, 1], alike[1, 2]) > 0.6 > alike[0, 2]
    assert together(group("TF-IDF", held, linked=False)) == [[0, 1, 2], [3], [4], [5]]


@pytest.mark.parametrize("cells", [1, 300, 10**6])
def test_blocks_change_nothing(cells):
    held = invented()["invented-records"]
    weights = trigram_weights([baselines._text(one) for one in held])
    alike = (weights @ weights.T).toarray()
    tables = np.arange(len(held)) % 3
    near = alike >= 0.6
    for _ in range(8):
        near = near @ near  # paths of twice the length
    groups = [np.flatnonzero(near[k]).tolist() for k in range(len(held))]
    assert together(connected(weights, 0.6, cells)) == [
        g for k, g in enumerate(groups) if g[0] == k
    ]
    assert together(one_to_one(weights, 0.3, tables, cells)) == greedy(alike, 0.3, tables)


def greedy(alike: np.ndarray, least: float, tables: np.ndarray) -> list[list[int]]:
    """The same from the whole table of cosines."""
    rows, columns = np.nonzero((alike >= least) & (tables[:, None] > tables))
    partner: dict[int, int] = {}
    for i, j in sorted(zip(rows, columns, strict=True), key=lambda pair: -alike[pair]):
        if not {i, j} & partner.keys():
            partner |= {i: j, j: i}
    pairs = {tuple(sorted({k, partner.get(k, k)})) for k in range(len(tables))}
    return sorted(map(list, pairs))


def test_linked_tables_are_matched_one_to_one_from_the_most_alike_on():
    texts = ["Ada Byrne", "Ada Byrne 1901", "Ada Byrne 190", "Ada Byrne 1901", "Zofia Petrov", "Q"]
    held = [
        fragment(k, name=t, source=s) for k, (t, s) in enumerate(zip(texts, "xyyxyx", strict=True))
    ]
    # 1 and 3 are equal, so 0 has 2 left; 1 and 2 are of one table, and 4 is like nothing
    assert together(group("TF-IDF", held, linked=True)) == [[0, 2], [1, 3], [4], [5]]
