"""Splink on a file of records, as `records.py --splink` runs it; writes JSON to standard output.

    PYTHON examples/reproductions/splink_side.py RECORDS.jsonl > clusters.json
    PYTHON examples/reproductions/splink_side.py RECORDS.jsonl --any > clusters.json

PYTHON is an interpreter of an environment with splink and duckdb, which are no part of this
project. The historical people are linked as in Splink's own demo (blocking rules, comparisons,
training and threshold). Other sets get blocking on the first letters of each pair of attributes,
Jaro-Winkler comparisons with term frequencies, and training on the two attributes with the most
different values.

With --any, which is how `splink_sets.py` runs it, every set gets settings that suit any table: a
comparison for each attribute that is not rare, blocking on equal values and on the beginnings of
names as far as a bounded number of pairs allows, and training that goes on where a step fails.

Output: seconds and processor seconds from reading to the clusters at the first threshold, the peak
of memory, and at each threshold every record's cluster.
"""

from __future__ import annotations

import json
import logging
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import combinations
from statistics import median
from typing import Any, TypeAlias

import pyarrow as pa
import splink.comparison_library as cl
from splink import DuckDBAPI, Linker, SettingsCreator, block_on

DEMO_THRESHOLD = 0.95
THRESHOLDS = (0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.8, 0.9, 0.99, 0.999, 0.9999)
Record: TypeAlias = dict[str, str | None]
PEOPLE = ("first_name", "surname", "dob", "birth_place", "postcode_fake", "occupation")


def main() -> None:
    """Link, cluster at every threshold, print."""
    logging.disable(logging.WARNING)
    begin, started = time.perf_counter(), time.process_time()
    records = read(sys.argv[1])
    if "--any" in sys.argv[2:]:
        linker = any_table(records)
    else:
        linker = people(records) if set(PEOPLE) <= set(records[0]) else others(records)
    pairs = linker.inference.predict(threshold_match_probability=min(THRESHOLDS))
    clusters = {DEMO_THRESHOLD: at(linker, pairs, DEMO_THRESHOLD)}
    spent = {
        "seconds": time.perf_counter() - begin,
        "cpu_seconds": time.process_time() - started,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    for threshold in THRESHOLDS:
        clusters[threshold] = at(linker, pairs, threshold)
    print(json.dumps({**spent, "clusters": clusters}))


def read(path: str) -> list[Record]:
    """Each record's id and the first value of each attribute, None where there is none."""
    with open(path) as lines:
        records = [json.loads(line) for line in lines]
    names = {name: re.sub(r"\W", "_", name) for record in records for name in record["properties"]}
    return [
        {"unique_id": record["id"]}
        | {
            column: record["properties"].get(name, [""])[0].casefold() or None
            for name, column in sorted(names.items())
        }
        for record in records
    ]


def people(records: list[Record]) -> Any:
    """A linker trained as in the demo of the historical people."""
    for record in records:
        both = record["first_name"], record["surname"]
        record["full_name"] = " ".join(map(str, both)) if all(both) else None
    first, last, code = "first_name", "surname", "postcode_fake"
    area = f"substr({code},1,3)"
    blocks = [
        ("substr(first_name,1,3)", "substr(surname,1,4)"),
        (last, "dob"),
        (first, "dob"),
        (code, first),
        (code, last),
        ("dob", "birth_place"),
        (area, "dob"),
        (area, first),
        (area, last),
        ("substr(first_name,1,2)", "substr(surname,1,2)", "substr(dob,1,4)"),
    ]
    settings = SettingsCreator(
        link_type="dedupe_only",
        blocking_rules_to_generate_predictions=[block_on(*block) for block in blocks],
        comparisons=[
            cl.ForenameSurnameComparison(first, last, forename_surname_concat_col_name="full_name"),
            cl.DateOfBirthComparison("dob", input_is_string=True),
            cl.PostcodeComparison(code),
            cl.ExactMatch("birth_place").configure(term_frequency_adjustments=True),
            cl.ExactMatch("occupation").configure(term_frequency_adjustments=True),
        ],
    )
    certain = [
        block_on(first, last, "dob"),
        block_on("substr(first_name,1,2)", last, "substr(postcode_fake,1,2)"),
        block_on("dob", code),
    ]
    return trained(records, settings, certain, [block_on(first, last), block_on("dob")])


def others(records: list[Record]) -> Any:
    """A linker with plain settings for any other set."""
    names = [name for name in records[0] if name != "unique_id"]
    names.sort(key=lambda name: (-len({record[name] for record in records}), name))
    starts = [f'substr("{name}",1,4)' for name in names]
    blocks = [block_on(f'"{names[0]}"'), *(block_on(*pair) for pair in combinations(starts, 2))]
    settings = SettingsCreator(
        link_type="dedupe_only",
        blocking_rules_to_generate_predictions=blocks,
        comparisons=[
            cl.JaroWinklerAtThresholds(name, [0.92, 0.8]).configure(term_frequency_adjustments=True)
            for name in names
        ],
    )
    certain = [block_on(*(f'"{name}"' for name in names[:2]))]
    return trained(records, settings, certain, [block_on(f'"{name}"') for name in names[:2]])


LEAST_STATED = 0.02  # of the records: a rarer attribute is not compared
MOST_COLUMNS = 10
LONGEST = 100  # characters, the median of a column that is compared by letters
MOST_PAIRS = 3_000_000  # of a blocking rule
BEGINNINGS = (2, 3, 4, 6, 8)  # characters of a name that two records of a block share


def any_table(records: list[Record]) -> Any:
    """A linker for a table of which nothing is known."""
    stated = Counter(column for one in records for column, value in one.items() if value)
    del stated["unique_id"]
    columns = [c for c, n in stated.most_common(MOST_COLUMNS) if n >= LEAST_STATED * len(records)]
    naming = ["name"] if "name" in columns else [c for c in columns if "name" in c] or columns[:1]
    rules = [(f'"{c}"', [one[c] for one in records]) for c in columns]
    for column in naming:
        for n in BEGINNINGS:
            begins = [value[:n] if (value := one[column]) else None for one in records]
            if pairs_of(begins) <= MOST_PAIRS:
                rules.append((f'substr("{column}",1,{n})', begins))
                break
    blocks = [block_on(rule) for rule, values in rules if pairs_of(values) <= MOST_PAIRS]
    settings = SettingsCreator(
        link_type="dedupe_only",
        blocking_rules_to_generate_predictions=blocks or [block_on(f'"{naming[0]}"')],
        comparisons=[comparison(column, [one[column] for one in records]) for column in columns],
    )
    certain = [block_on(*(f'"{c}"' for c in columns[:2])), block_on(*(f'"{c}"' for c in naming))]
    different = sorted(columns, key=lambda c: -len({one[c] for one in records}))
    held = dict.fromkeys((*naming, *different[:2])) if len(columns) > 1 else ()
    training = [block_on(f'"{column}"') for column in held]
    return trained(records, settings, certain, training, may_fail=True)


def comparison(column: str, values: list[str | None]) -> Any:
    """By letters, or of long texts by equality."""
    typical = median(len(value) for value in values if value)
    if typical > LONGEST:
        return cl.ExactMatch(column).configure(term_frequency_adjustments=True)
    by_letters = cl.JaroWinklerAtThresholds(column, [0.92, 0.8])
    return by_letters.configure(term_frequency_adjustments=True)


def pairs_of(values: list[str | None]) -> int:
    """How many pairs of records share a value."""
    return sum(n * (n - 1) // 2 for value, n in Counter(values).items() if value)


def trained(
    records: list[Record],
    settings: Any,
    certain: list[Any],
    blocks: list[Any],
    may_fail: bool = False,
) -> Any:
    """A linker whose parameters were estimated without labels; what fails keeps its defaults."""
    database = DuckDBAPI()
    linker = Linker(database.register(pa.Table.from_pylist(records)), settings)
    training = linker.training
    steps: list[Callable[[], Any]] = [
        partial(training.estimate_probability_two_random_records_match, certain, recall=0.6),
        partial(training.estimate_u_using_random_sampling, max_pairs=1e7),
        *(
            partial(
                training.estimate_parameters_using_expectation_maximisation,
                block,
                estimate_without_term_frequencies=True,
            )
            for block in blocks
        ),
    ]
    for step in steps:
        try:
            step()
        except Exception as error:
            if not may_fail:
                raise
            print(f"{step}: {error}"[:300], file=sys.stderr)
    return linker


def at(linker: Any, pairs: Any, threshold: float) -> dict[str, str]:
    """Record -> cluster at a threshold; records without a partner are clusters of their own."""
    found = linker.clustering.cluster_pairwise_predictions_at_threshold(
        pairs, threshold_match_probability=threshold
    )
    return {row["unique_id"]: str(row["cluster_id"]) for row in found.as_record_list()}


if __name__ == "__main__":
    main()
