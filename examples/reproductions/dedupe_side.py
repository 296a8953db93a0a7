"""dedupe on a file of records, as `curve.py --rivals` runs it; writes JSON to standard output.

    PYTHON examples/reproductions/dedupe_side.py RECORDS.jsonl

PYTHON is an interpreter of an environment with dedupe, which is no part of this project. It learns
from a hundred pairs drawn by the gold labels, as a patient user would give. Every attribute is a
string that may be missing; blocking is by plain predicates, since the others are slow to train.

Output: seconds and processor seconds from reading to the clusters, the peak of memory, and every
record's cluster.
"""

from __future__ import annotations

import io
import json
import logging
import random
import resource
import sys
import time

import dedupe
import numpy as np

PAIRS = 100
THRESHOLD = 0.5


def main() -> None:
    """Train, cluster, print."""
    logging.disable(logging.WARNING)
    random.seed(0)
    np.random.seed(0)
    begin, started = time.perf_counter(), time.process_time()
    records, labels = read(sys.argv[1])
    names = sorted({name for record in records.values() for name in record})
    data = {id: {name: record.get(name) for name in names} for id, record in records.items()}
    labelled = {id: {**record, "label": labels[id]} for id, record in data.items()}
    model = dedupe.Dedupe(
        [dedupe.variables.String(name, has_missing=True) for name in names], num_cores=1
    )
    model.prepare_training(data, training_file=told(labelled))
    model.train(index_predicates=False)
    clusters = {
        id: str(number)
        for number, (ids, _) in enumerate(model.partition(data, THRESHOLD))
        for id in ids
    }
    print(
        json.dumps(
            {
                "seconds": time.perf_counter() - begin,
                "cpu_seconds": time.process_time() - started,
                "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                "clusters": clusters,
            }
        )
    )


def told(labelled: dict[str, dict[str, str | None]]) -> io.StringIO:
    """Pairs of records, told apart by their labels, as dedupe reads them."""
    pairs = dedupe.training_data_dedupe(labelled, "label", PAIRS)
    without = {
        kind: [
            {
                "__class__": "tuple",
                "__value__": [{k: v for k, v in record.items() if k != "label"} for record in pair],
            }
            for pair in found
        ]
        for kind, found in pairs.items()
    }
    return io.StringIO(json.dumps(without))


def read(path: str) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """By id: the first value of each attribute, and the label."""
    records, labels = {}, {}
    with open(path) as lines:
        for record in map(json.loads, lines):
            records[record["id"]] = {
                name: values[0].casefold() for name, values in record["properties"].items()
            }
            labels[record["id"]] = str(record["label"])
    return records, labels


if __name__ == "__main__":
    main()
