"""Splink on the made-up people of `people.py`, as `curve.py` runs it.

    PYTHON examples/reproductions/splink_people.py people.parquet clusters.parquet FOLDER

PYTHON is an interpreter of an environment with splink and duckdb, which are no part of this
project. DuckDB reads the file, holds the tables, and spills to FOLDER. Settings are those of
Splink's own demos of people (historical people, FEBRL): names compared together, dates as dates,
the rest by edit distance with term frequencies; training without labels; rules of blocking that
each leave few pairs, however large the file is.

The output has a column of clusters for each threshold. Standard output gets JSON: what the
thresholds after the first, and what only they need, added to the time, and the peak before them.
"""

from __future__ import annotations

import json
import logging
import resource
import sys
import time
from typing import Any

import duckdb
import splink.comparison_library as cl
from splink import DuckDBAPI, Linker, SettingsCreator, block_on

DEMO_THRESHOLD = 0.95
THRESHOLDS = (DEMO_THRESHOLD, 0.9, 0.5)
MOST_PAIRS = 1e6  # at random, as in the demo of FEBRL; 1e7 take ten times as long for the same F1
RULES = (
    ("substr(given_name,1,3)", "substr(surname,1,4)"),
    ("surname", "born"),
    ("given_name", "born"),
    ("postcode", "given_name"),
    ("postcode", "surname"),
    ("born", "suburb"),
    ("born", "postcode"),
    ("street", "suburb"),
    ("phone",),
)


def main() -> None:
    """Link, cluster at every threshold, write."""
    logging.disable(logging.WARNING)
    source, output, folder = sys.argv[1:]
    database = duckdb.connect(config={"temp_directory": folder})
    database.execute(
        "CREATE TABLE people AS SELECT * EXCLUDE label, given_name || ' ' || surname AS full_name "
        f"FROM '{source}'"
    )
    linker = trained(Linker(DuckDBAPI(connection=database).register("people"), settings()))
    pairs = linker.inference.predict(threshold_match_probability=min(THRESHOLDS))
    tables = [clusters(linker, pairs, DEMO_THRESHOLD)]
    database.execute(
        f"COPY (SELECT id, cluster_id FROM {tables[0]}) TO '{output}' (FORMAT parquet)"
    )
    begin, used = time.perf_counter(), time.process_time()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    tables += [clusters(linker, pairs, threshold) for threshold in THRESHOLDS[1:]]
    columns = ", ".join(f't{at}.cluster_id AS "{t}"' for at, t in enumerate(THRESHOLDS))
    joins = " ".join(f"JOIN {t} t{at} USING (id)" for at, t in enumerate(tables[1:], 1))
    database.execute(
        f"COPY (SELECT id, {columns} FROM {tables[0]} t0 {joins}) TO '{output}' (FORMAT parquet)"
    )
    after = {"seconds": time.perf_counter() - begin, "cpu": time.process_time() - used}
    print(json.dumps({**after, "mib": peak}))


def settings() -> SettingsCreator:
    """Rules of blocking, and how columns are compared."""
    names = cl.ForenameSurnameComparison(
        "given_name", "surname", forename_surname_concat_col_name="full_name"
    )
    return SettingsCreator(
        link_type="dedupe_only",
        unique_id_column_name="id",
        blocking_rules_to_generate_predictions=[block_on(*rule) for rule in RULES],
        comparisons=[
            names,
            cl.DateOfBirthComparison("born", input_is_string=True),
            *(
                cl.DamerauLevenshteinAtThresholds(column, [1, 2]).configure(
                    term_frequency_adjustments=True
                )
                for column in ("street", "suburb", "postcode", "phone")
            ),
        ],
    )


def trained(linker: Any) -> Any:
    """The linker, with its parameters estimated without labels."""
    certain = [
        block_on("given_name", "surname", "born"),
        block_on("surname", "street", "substr(given_name,1,2)"),
        block_on("born", "postcode"),
    ]
    training = linker.training
    training.estimate_probability_two_random_records_match(certain, recall=0.6)
    training.estimate_u_using_random_sampling(max_pairs=MOST_PAIRS)
    for block in (block_on("given_name", "surname"), block_on("born", "suburb")):
        training.estimate_parameters_using_expectation_maximisation(
            block, estimate_without_term_frequencies=True
        )
    return linker


def clusters(linker: Any, pairs: Any, threshold: float) -> str:
    """The table of every record's cluster."""
    found = linker.clustering.cluster_pairwise_predictions_at_threshold(
        pairs, threshold_match_probability=threshold
    )
    return str(found.physical_name)


if __name__ == "__main__":
    main()
