"""Malformed annotations and tweets for the tweetnerd source, each between two good ones."""

import pytest

from tests.sources.harness import AGAIN, JSON, LONG_VALUE, UTF8

FIRST, LAST = b"1\tAnn\t0\t3\tQ1\t3", b"3\tCid\t0\t3\tQ3\t3"
KEPT = ["1-0-3-Q1", "3-0-3-Q3"]
TWEETS = (
    b'{"id": 1, "text": "Ann here"}\n'
    b'{"id_str": "2", "text": "\xf0\x9f\x98\x80 Bo and Bo"}\n'
    b"3\tCid too\n"
)

FIELDS = "expected 6 tab-separated fields (tweet_id, phrase, start, end, entityId and score), got "
ID = "tweet_id: expected a number, got "
PHRASE = "phrase: expected a tweet with "
IN_TWEET = 'in it, got "😀 Bo and Bo"'
NUMBER = "expected a whole number, got "
OFFSETS = "start: expected 0 <= start < end, got "
ENTITY = "entityId: expected a Wikidata item, NOT FOUND, AMBIGUOUS or NO_ENTITY, got "


def row(tweet=2, phrase="Bo", start=3, end=5, entity="Q2", score=3) -> bytes:
    return tabbed(tweet, phrase, start, end, entity, score)


def tabbed(*cells: object) -> bytes:
    return "\t".join(map(str, cells)).encode()


ROWS = {
    "5 fields": (tabbed(2, "Bo", 3, 5, "Q2"), f"{FIELDS}5"),
    "7 fields": (row() + b"\t4", f"{FIELDS}7"),
    "10,000 fields": (tabbed(*["x"] * 10_000), f"{FIELDS}10000"),
    "spaces for tabs": (b"2 Bo 3 5 Q2 3", f"{FIELDS}1"),
    "JSON": (b'{"tweet_id": 2}', f"{FIELDS}1"),
    "tweet a word": (row("two"), f'{ID}"two"'),
    "no tweet": (row(""), f'{ID}""'),
    "tweet negative": (row(-2), f'{ID}"-2"'),
    "tweet rounded by a spreadsheet": (row("1.4E+18"), f'{ID}"1.4E+18"'),
    "tweet in other digits": (row("٢"), f'{ID}"٢"'),
    "tweet of 1 MB": (
        row("9" * 1_000_000),
        "id: expected at most 4,096 characters, got 1,000,007",
    ),
    "no phrase": (row(phrase=""), "phrase: expected a non-empty string, got an empty one"),
    "phrase not in the tweet": (row(phrase="Zoe", end=6), f'{PHRASE}"Zoe" {IN_TWEET}'),
    "phrase in other letters": (row(phrase="BO"), f'{PHRASE}"BO" {IN_TWEET}'),
    "phrase with NUL": (row(phrase="B\0"), rf'{PHRASE}"B\x00" {IN_TWEET}'),
    "phrase of 1 MB": (row(9, "x" * 1_000_000, 0), LONG_VALUE),
    "start a word": (row(start="three"), f'start: {NUMBER}"three"'),
    "no start": (row(start=""), f'start: {NUMBER}""'),
    "start a fraction": (row(start=3.0), f'start: {NUMBER}"3.0"'),
    "start NaN": (row(start="NaN"), f'start: {NUMBER}"NaN"'),
    "start negative": (row(start=-1), f"{OFFSETS}-1 and 5"),
    "end before start": (row(start=5, end=3), f"{OFFSETS}5 and 3"),
    "end at start": (row(end=3), f"{OFFSETS}3 and 3"),
    "end a word": (row(end="five"), f'end: {NUMBER}"five"'),
    "end huge": (row(end=10**30), f'end: {NUMBER}"1{"0" * 30}"'),
    "no entity": (row(entity=""), f'{ENTITY}""'),
    "entity a property": (row(entity="P31"), f'{ENTITY}"P31"'),
    "entity without a number": (row(entity="Q"), f'{ENTITY}"Q"'),
    "entity in small letters": (row(entity="q2"), f'{ENTITY}"q2"'),
    "entity with a tail": (row(entity="Q2x"), f'{ENTITY}"Q2x"'),
    "score a word": (row(score="high"), f'score: {NUMBER}"high"'),
    "no score": (row(score=""), f'score: {NUMBER}""'),
    "invalid UTF-8": (b"2\tB\xff\t3\t5\tQ2\t3", f"{UTF8}0xff at byte 4"),
    "lone surrogate": (b"2\t\xed\xa0\x80\t3\t5\tQ2\t3", f"{UTF8}0xed at byte 3"),
    "UTF-16": ("2\tBo".encode("utf-16"), f"{UTF8}0xff at byte 1"),
    # the same mention with another score: which of them is right is not ours to say
    "repeated": (row(1, "Ann", 0, 3, "Q1", 2), AGAIN.format("1-0-3-Q1")),
}

AT = f"{JSON}invalid JSON at column "
TWEET_LINES = {
    "truncated": (b'{"id": 2, "text": "x', f"{AT}21 (unexpected end of data)"),
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
    "invalid UTF-8": (b"2\t\xff", f"{UTF8}0xff at byte 3"),
    "lone surrogate": (
        rb'{"id": 2, "text": "\ud800"}',
        f"{AT}20 (no low surrogate in string)",
    ),
}


@pytest.mark.parametrize("bad", ROWS)
def test_bad_row(bad_record, written, bad):
    line, sentence = ROWS[bad]
    tweets = written(TWEETS, "tweets.jsonl")
    file = written(b"\n".join([FIRST, line, LAST]), "in.tsv")
    reader = ["tweetnerd", "--set", f"source.tweets={tweets}"]
    bad_record(reader, file, f"2: {sentence}", KEPT, None if bad == "repeated" else line)


@pytest.mark.parametrize("bad", TWEET_LINES)
def test_bad_tweet(bad_record, written, bad):
    line, sentence = TWEET_LINES[bad]
    tweets = written(TWEETS + line, "tweets.jsonl")
    file = written(b"\n".join([FIRST, LAST]), "in.tsv")
    reader = ["tweetnerd", "--set", f"source.tweets={tweets}"]
    bad_record(reader, file, f"4: {sentence}", KEPT, line, culprit=tweets)
