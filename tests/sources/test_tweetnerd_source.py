"""TweetNERD's annotations: offsets, special entities, and the paper's clustering set."""

import json

import pytest

from tests.sources import harness


def read(tmp_path, rows, tweets=None, **options):
    """(fragments, the source's counts); `tweets` is {id: text}, or what their file says."""
    file = tmp_path / "in.tsv"
    file.write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    if tweets is not None:
        options["tweets"] = str(tmp_path / "tweets.jsonl")
        if not isinstance(tweets, str):
            tweets = "\n".join(json.dumps({"id": i, "text": t}) for i, t in tweets.items())
        (tmp_path / "tweets.jsonl").write_text(tweets)
    return harness.read("tweetnerd", file, **options)


def test_a_mention_becomes_a_fragment(tmp_path):
    (one,), _ = read(tmp_path, [(11, "Ada Li", 0, 6, "Q7", 3)])
    assert one.to_json() == {
        "id": "11-0-6-Q7",
        "properties": {"name": ["Ada Li"]},
        "label": "Q7",
        "source": "tweetnerd",
        "metadata": {"tweet": "11", "score": 3},
    }


def test_header_and_rows_without_an_entity(tmp_path):
    header = ("tweet_id", "phrase", "start", "end", "entityId", "score")
    rows = [header, (11, "NO_PHRASE", -1, -1, "NO_ENTITY", -1), (12, "Ada", 0, 3, "Q7", 2)]
    found, counts = read(tmp_path, rows)
    assert [f.id for f in found] == ["12-0-3-Q7"]
    assert counts == {"tweets without an entity": 1}


def test_unlinked_mentions_have_no_label_and_are_dropped_on_request(tmp_path):
    rows = [(1, "Ada", 0, 3, "NOT FOUND", 2), (2, "Ada", 0, 3, "AMBIGUOUS", 2)]
    found, _ = read(tmp_path, rows)
    ids = ["1-0-3-not-found", "2-0-3-ambiguous"]
    assert [(f.id, f.label) for f in found] == [(id, None) for id in ids]
    found, counts = read(tmp_path, rows, unlinked="drop")
    assert found == []
    assert counts["unlinked mentions"] == 2


def test_repeated_rows_count_once(tmp_path):
    row = (1, "Ada", 0, 3, "Q7", 2)
    found, counts = read(tmp_path, [row, row])
    assert len(found) == 1
    assert counts["repeated rows"] == 1


@pytest.mark.parametrize(
    ("text", "start", "end", "span", "realigned"),
    [
        ("Ada here", 0, 3, [0, 3], 0),
        ("\U0001f600\U0001f600 Ada here", 5, 8, [3, 6], 0),  # an emoji is two code units
        ("\U0001f600\U0001f600 Ada here", 3, 6, [3, 6], 1),  # counted in characters
        ("\U0001f600 Ada here", 1, 4, [2, 5], 1),  # in the middle of a pair
        ("Zoë, Ada here", 6, 9, [5, 8], 1),  # counted in bytes
        ("Ada or Ada", 6, 9, [7, 10], 1),
        ("Ada or Ada", 0, 9, [0, 3], 1),  # too wide
        ("Ada", 900, 903, [0, 3], 1),
    ],
)
def test_offsets_are_utf16_code_units(tmp_path, text, start, end, span, realigned):
    (one,), counts = read(tmp_path, [(1, "Ada", start, end, "Q7", 3)], {1: text})
    assert one.metadata == {"tweet": "1", "score": 3, "text": text, "span": span}
    assert counts["mentions realigned"] == realigned


def test_a_tweet_that_is_gone(tmp_path):
    """Most hydrated sets have holes; a phrase without its tweet is a fragment all the same."""
    (one,), counts = read(tmp_path, [(1, "Ada", 0, 3, "Q7", 3)], {2: "x"})
    assert one.names == ("Ada",)
    assert counts["mentions without their tweet"] == 1


def test_tweets_as_a_table(tmp_path):
    (one,), _ = read(tmp_path, [(1, "Ada", 0, 3, "Q7", 3)], "1\tAda here\n")
    assert one.metadata["text"] == "Ada here"


def test_top_is_the_clustering_set_of_the_paper(tmp_path):
    """The distinct names of the largest entities, one fragment a name."""
    names = [
        ("Q1", ["Rome", "Roma", "rome", "Rome"]),
        ("Q2", ["Ada", "Ada", "Ada", "Ada", "Ada"]),
        ("Q3", ["Bo", "Bobby"]),
        ("Q4", ["Cy", "Cyrus", "Cy"]),
    ]
    rows, tweet = [], 0
    for place in range(5):
        for entity, forms in names:
            if place < len(forms):
                tweet += 1
                rows.append((tweet, forms[place], 0, 9, entity, 3))
    rows.append((99, "Rum", 0, 3, "AMBIGUOUS", 1))
    found, counts = read(tmp_path, rows, top=2)
    assert [(f.id, f.label, f.names[0]) for f in found] == [
        ("Q1-1", "Q1", "Rome"),
        ("Q4-1", "Q4", "Cy"),
        ("Q1-2", "Q1", "Roma"),
        ("Q4-2", "Q4", "Cyrus"),
        ("Q1-3", "Q1", "rome"),
    ]
    assert [f.metadata["mentions"] for f in found] == [2, 2, 1, 1, 1]
    assert counts["unlinked mentions"] == 1


def test_top_prefers_more_mentions_among_equals(tmp_path):
    rows = [(1, "A", 0, 1, "Q1", 1), (2, "B", 0, 1, "Q2", 1), (3, "B", 0, 1, "Q2", 1)]
    found, _ = read(tmp_path, rows, top=1)
    assert [f.label for f in found] == ["Q2"]
