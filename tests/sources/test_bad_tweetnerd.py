"""Malformed annotations and tweets for the tweetnerd source, each between two good ones."""

from __future__ import annotations

import pytest

from tests.sources.harness import check_bad_record, check_refused

FIRST, LAST = b"1\tAnn\t0\t3\tQ1\t3", b"3\tCid\t0\t3\tQ3\t3"
KEPT = ["1-0-3-Q1", "3-0-3-Q3"]
TWEETS = (
    b'{"id": 1, "text": "Ann here"}\n'
    b'{"id_str": "2", "text": "\xf0\x9f\x98\x80 Bo and Bo"}\n'
    b"3\tCid too\n"
)

FIELDS = "expected 6 tab-separated fields (tweet_id, phrase, start, end, entityId and score), got "
NUMBER = "expected a whole number, got "
ENTITY = "entityId: expected a Wikidata item, NOT FOUND, AMBIGUOUS or NO_ENTITY, got "
TWEET = "😀 Bo and Bo"


def row(*cells: object) -> bytes:
    return "\t".join(map(str, cells)).encode()


ROWS = {
    "5 fields": (row(2, "Bo", 3, 5, "Q2"), f"{FIELDS}5"),
    "7 fields": (row(2, "Bo", 3, 5, "Q2", 3, 4), f"{FIELDS}7"),
    "10,000 fields": (row(*["x"] * 10_000), f"{FIELDS}10000"),
    "spaces for tabs": (b"2 Bo 3 5 Q2 3", f"{FIELDS}1"),
    "JSON": (b'{"tweet_id": 2}', f"{FIELDS}1"),
    "tweet a word": (row("two", "Bo", 3, 5, "Q2", 3), 'tweet_id: expected a number, got "two"'),
    "no tweet": (row("", "Bo", 3, 5, "Q2", 3), 'tweet_id: expected a number, got ""'),
    "tweet negative": (row(-2, "Bo", 3, 5, "Q2", 3), 'tweet_id: expected a number, got "-2"'),
    "tweet rounded by a spreadsheet": (
        row("1.4E+18", "Bo", 3, 5, "Q2", 3),
        'tweet_id: expected a number, got "1.4E+18"',
    ),
    "tweet in other digits": (
        row("٢", "Bo", 3, 5, "Q2", 3),
        'tweet_id: expected a number, got "٢"',
    ),
    "tweet of 1 MB": (
        row("9" * 1_000_000, "Bo", 3, 5, "Q2", 3),
        "id: expected at most 4,096 characters, got 1,000,007",
    ),
    "no phrase": (
        row(2, "", 3, 5, "Q2", 3),
        "phrase: expected a non-empty string, got an empty one",
    ),
    "phrase not in the tweet": (
        row(2, "Zoe", 3, 6, "Q2", 3),
        f'phrase: expected a tweet with "Zoe" in it, got "{TWEET}"',
    ),
    "phrase in other letters": (
        row(2, "BO", 3, 5, "Q2", 3),
        f'phrase: expected a tweet with "BO" in it, got "{TWEET}"',
    ),
    "phrase with NUL": (
        row(2, "B\0", 3, 5, "Q2", 3),
        rf'phrase: expected a tweet with "B\x00" in it, got "{TWEET}"',
    ),
    "phrase of 1 MB": (
        row(9, "x" * 1_000_000, 0, 5, "Q2", 3),
        "properties.name: expected at most 65,536 characters, got 1,000,000",
    ),
    "start a word": (row(2, "Bo", "three", 5, "Q2", 3), f'start: {NUMBER}"three"'),
    "no start": (row(2, "Bo", "", 5, "Q2", 3), f'start: {NUMBER}""'),
    "start a fraction": (row(2, "Bo", 3.0, 5, "Q2", 3), f'start: {NUMBER}"3.0"'),
    "start NaN": (row(2, "Bo", "NaN", 5, "Q2", 3), f'start: {NUMBER}"NaN"'),
    "start negative": (
        row(2, "Bo", -1, 5, "Q2", 3),
        "start: expected 0 <= start < end, got -1 and 5",
    ),
    "end before start": (
        row(2, "Bo", 5, 3, "Q2", 3),
        "start: expected 0 <= start < end, got 5 and 3",
    ),
    "end at start": (
        row(2, "Bo", 3, 3, "Q2", 3),
        "start: expected 0 <= start < end, got 3 and 3",
    ),
    "end a word": (row(2, "Bo", 3, "five", "Q2", 3), f'end: {NUMBER}"five"'),
    "end huge": (row(2, "Bo", 3, 10**30, "Q2", 3), f'end: {NUMBER}"1{"0" * 30}"'),
    "no entity": (row(2, "Bo", 3, 5, "", 3), f'{ENTITY}""'),
    "entity a property": (row(2, "Bo", 3, 5, "P31", 3), f'{ENTITY}"P31"'),
    "entity without a number": (row(2, "Bo", 3, 5, "Q", 3), f'{ENTITY}"Q"'),
    "entity in small letters": (row(2, "Bo", 3, 5, "q2", 3), f'{ENTITY}"q2"'),
    "entity with a tail": (row(2, "Bo", 3, 5, "Q2x", 3), f'{ENTITY}"Q2x"'),
    "score a word": (row(2, "Bo", 3, 5, "Q2", "high"), f'score: {NUMBER}"high"'),
    "no score": (row(2, "Bo", 3, 5, "Q2", ""), f'score: {NUMBER}""'),
    "invalid UTF-8": (b"2\tB\xff\t3\t5\tQ2\t3", "expected UTF-8 text, got the byte 0xff at byte 4"),
    "lone surrogate": (
        b"2\t\xed\xa0\x80\t3\t5\tQ2\t3",
        "expected UTF-8 text, got the byte 0xed at byte 3",
    ),
    "UTF-16": ("2\tBo".encode("utf-16"), "expected UTF-8 text, got the byte 0xff at byte 1"),
}

TWEET_LINES = {
    "truncated": (
        b'{"id": 2, "text": "x',
        "expected a JSON object, got invalid JSON at column 21 (unexpected end of data)",
    ),
    "no id": (b'{"text": "x"}', "tweet_id: expected the tweet's number, got nothing"),
    "id a boolean": (
        b'{"id": true, "text": "x"}',
        "tweet_id: expected the tweet's number, got true",
    ),
    "no text": (b'{"id": 2}', "text: expected the tweet's text, got nothing"),
    "text a list": (b'{"id": 2, "text": []}', "text: expected the tweet's text, got []"),
    "three columns": (
        b"2\tx\ty",
        'expected a JSON object, or a tweet\'s id and text with a tab between, got "2"',
    ),
    "invalid UTF-8": (b"2\t\xff", "expected UTF-8 text, got the byte 0xff at byte 3"),
    "lone surrogate": (
        rb'{"id": 2, "text": "\ud800"}',
        "expected a JSON object, got invalid JSON at column 20 (no low surrogate in string)",
    ),
}


@pytest.fixture
def tweets(tmp_path):
    path = tmp_path / "tweets.jsonl"
    path.write_bytes(TWEETS)
    return path


@pytest.mark.parametrize("bad", ROWS)
def test_bad_row(program, tmp_path, tweets, bad):
    line, sentence = ROWS[bad]
    file = tmp_path / "in.tsv"
    file.write_bytes(b"\n".join([FIRST, line, LAST]))
    reader = ["tweetnerd", "--set", f"source.tweets={tweets}"]
    check_bad_record(program, reader, file, f"2: {sentence}", KEPT, line)


@pytest.mark.parametrize("bad", TWEET_LINES)
def test_bad_tweet(program, tmp_path, tweets, bad):
    line, sentence = TWEET_LINES[bad]
    tweets.write_bytes(TWEETS + line)
    file = tmp_path / "in.tsv"
    file.write_bytes(b"\n".join([FIRST, LAST]))
    reader = ["tweetnerd", "--set", f"source.tweets={tweets}"]
    check_bad_record(program, reader, file, f"4: {sentence}", KEPT, line, culprit=tweets)


def test_repeated_mention(program, tmp_path):
    """The same mention with another score: which of them is right is not ours to say."""
    file = tmp_path / "in.tsv"
    file.write_bytes(b"\n".join([FIRST, b"1\tAnn\t0\t3\tQ1\t2", LAST]))
    sentence = '2: id: expected a unique id, got "1-0-3-Q1" again'
    check_bad_record(program, ["tweetnerd"], file, sentence, KEPT)


def test_missing_tweets(program, tmp_path):
    file = tmp_path / "in.tsv"
    file.write_bytes(FIRST)
    reader = ["tweetnerd", "--set", f"source.tweets={tmp_path}/none"]
    check_refused(program, reader, file, f"cannot read {tmp_path}/none: no such file or directory")


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("top=0", "top: expected at least 1, got 0"),
        ("top=many", "source tweetnerd: top: expected a whole number, got many"),
        ("unlinked=maybe", "source tweetnerd: unlinked: expected one of keep, drop, got maybe"),
    ],
)
def test_bad_options(program, tmp_path, option, sentence):
    file = tmp_path / "in.tsv"
    file.write_bytes(FIRST)
    check_refused(program, ["tweetnerd", "--set", f"source.{option}"], file, sentence, code=2)
