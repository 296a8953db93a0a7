"""Results survive whatever ends the process, and never pass for others."""

import math
from dataclasses import asdict
from pathlib import Path

import numpy as np
import orjson
import pytest

from kbforge import __version__
from kbforge.errors import BadRecord, KBForgeError
from kbforge_lab.bench.results import ROWS, TRACE, Results, alone_in
from tests.lab.bench.toys import row, trace_row


def filled(folder: Path) -> Results:
    results = Results(folder)
    for shuffle in (0, 1):
        trace = [trace_row(shuffle=shuffle, fragments=n) for n in (20, 40)]
        results.add(row(shuffle=shuffle), trace)
    return results


def test_what_was_added_is_there_again(tmp_path):
    before = filled(tmp_path / "new" / "folder")
    again = Results(tmp_path / "new" / "folder")
    assert again.rows == before.rows
    assert again.trace == before.trace
    assert list(again.rows.values()) == [row(shuffle=0), row(shuffle=1)]


def test_minus_infinity_and_numbers_of_numpy_are_kept(tmp_path):
    made = row(log_posterior=-math.inf, model_evaluations=np.int64(7), cut=np.bool_(True))
    Results(tmp_path).add(made, [trace_row(log_posterior=-math.inf, f1=np.float64(0.5))])
    again = Results(tmp_path)
    kept = row(log_posterior=-math.inf, model_evaluations=7, cut=True)
    assert list(again.rows.values()) == [kept]
    assert again.trace == [trace_row(log_posterior=-math.inf, f1=0.5)]


@pytest.mark.parametrize("lost", [1, 5, 100])
def test_half_a_line_is_dropped_with_its_trace(tmp_path, lost):
    filled(tmp_path)
    rows = tmp_path / ROWS
    rows.write_bytes(rows.read_bytes()[:-lost])
    again = Results(tmp_path)
    assert list(again.rows.values()) == [row(shuffle=0)]
    assert {t.shuffle for t in again.trace} == {0}
    again.add(row(shuffle=1), [trace_row(shuffle=1)])
    assert list(Results(tmp_path).rows.values()) == [row(shuffle=0), row(shuffle=1)]
    assert len(Results(tmp_path).trace) == 3


def test_looking_at_a_folder_that_is_being_written_changes_nothing(tmp_path):
    filled(tmp_path)
    for name in (ROWS, TRACE):
        path = tmp_path / name
        path.write_bytes(path.read_bytes()[:-5])
    before = [(tmp_path / name).read_bytes() for name in (ROWS, TRACE)]
    assert list(Results(tmp_path, repair=False).rows.values()) == [row(shuffle=0)]
    assert [(tmp_path / name).read_bytes() for name in (ROWS, TRACE)] == before


def test_a_trace_whose_row_never_came_is_dropped(tmp_path):
    filled(tmp_path)
    kept = (tmp_path / TRACE).read_bytes()
    with open(tmp_path / TRACE, "ab") as file:
        file.write(kept.replace(b"None-", b"None-7")[:-30])
    assert len(Results(tmp_path).trace) == 4
    assert (tmp_path / TRACE).read_bytes() == kept


OTHER = (
    f"expected a row as kbforge {__version__} writes it, "
    "got one of another version or program; give another --output"
)


@pytest.mark.parametrize(
    ("line", "said"), [(b"no json\n", ""), (b"[]\n", ""), (b'{"key": "a"}\n', OTHER)]
)
def test_another_file_is_refused_and_left_alone(tmp_path, line, said):
    (tmp_path / ROWS).write_bytes(line)
    with pytest.raises(BadRecord) as raised:
        Results(tmp_path)
    assert str(raised.value).startswith(f"{tmp_path}/{ROWS}:1: {said}")
    assert (tmp_path / ROWS).read_bytes() == line


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("key", 7, "a string"),
        ("cut", 0, "true or false"),
        ("particles", 2.5, "a whole number of at least 0"),
        ("shuffle", None, "a whole number of at least 0"),
        ("shuffle", True, "a whole number of at least 0"),
        ("fragments", -1, "a whole number of at least 0"),
        ("f1", "0.5", "a number from 0 to 1"),
        ("recall", 1.01, "a number from 0 to 1"),
        ("seconds", None, "a number of at least 0"),
        ("log_posterior", [], "a number"),
    ],
)
def test_a_value_that_is_none_is_named(tmp_path, field, value, expected):
    good, bad = asdict(row()), asdict(row()) | {field: value}
    (tmp_path / ROWS).write_bytes(orjson.dumps(good) + b"\n" + orjson.dumps(bad) + b"\n")
    with pytest.raises(BadRecord) as raised:
        Results(tmp_path)
    error = raised.value
    assert (error.where, error.field) == (f"{tmp_path}/{ROWS}:2", field)
    assert error.expected == expected


def test_whole_numbers_and_the_last_bit_are_good_figures(tmp_path):
    fine = row(f1=math.nextafter(1, 2), log_posterior=-3, particles=None)
    (tmp_path / ROWS).write_bytes(orjson.dumps(fine) + b"\n")
    assert list(Results(tmp_path).rows.values()) == [fine]


@pytest.mark.parametrize(
    "lacks", [("seed",), ("model", "alpha", "peak_mib", "pairs_ece", "pairs_ece_mapped")]
)
def test_older_rows_are_read(tmp_path, lacks):
    """From before there were seeds, and from before there were whole ways."""
    old = {name: value for name, value in asdict(row()).items() if name not in lacks}
    (tmp_path / ROWS).write_bytes(orjson.dumps(old) + b"\n")
    assert list(Results(tmp_path).rows.values()) == [row()]


def test_two_benches_do_not_write_to_one_folder(tmp_path):
    with alone_in(tmp_path / "new" / "folder"):
        with (
            pytest.raises(KBForgeError, match="folder is in use: another bench is writing to it"),
            alone_in(tmp_path / "new" / "folder"),
        ):
            pass
        with alone_in(tmp_path / "other"):
            pass
    with alone_in(tmp_path / "new" / "folder"):
        pass


def test_a_folder_that_cannot_be_made_is_a_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(KBForgeError, match="cannot write"):
        Results(tmp_path / "file" / "folder")
    with pytest.raises(KBForgeError, match="cannot write"), alone_in(tmp_path / "file" / "folder"):
        pass


def test_parquet_columns_without_a_value_have_their_type(tmp_path):
    from pyarrow import parquet

    results = Results(tmp_path)
    results.add(row(max_evals=None, particles=None), [])
    results.write_parquet()
    types = {
        name: {field.name: str(field.type) for field in parquet.read_schema(tmp_path / name)}
        for name in ("results.parquet", "trace.parquet")
    }
    assert list(types["results.parquet"]) == list(asdict(row()))
    assert list(types["trace.parquet"]) == list(asdict(trace_row()))
    for columns in types.values():
        assert (columns["particles"], columns["max_evals"]) == ("int64", "int64")
        assert (columns["key"], columns["surrogate"], columns["f1"]) == ("string", "bool", "double")


def test_parquet_holds_the_same_tables(tmp_path):
    from pyarrow import parquet

    results = filled(tmp_path)
    results.write_parquet()
    rows = parquet.read_table(tmp_path / "results.parquet").to_pylist()
    trace = parquet.read_table(tmp_path / "trace.parquet").to_pylist()
    assert rows == [asdict(row) for row in results.rows.values()]
    assert trace == [asdict(row) for row in results.trace]


def test_no_row_is_kept_without_its_trace(tmp_path):
    """The other way round, what a killed bench left would count as finished."""
    results = Results(tmp_path)
    (tmp_path / TRACE).mkdir()
    with pytest.raises(KBForgeError, match="cannot write"):
        results.add(row(), [trace_row()])
    assert not (tmp_path / ROWS).exists()


def test_what_is_not_known_survives_and_shares_are_shares(tmp_path):
    known = row(shuffle=1, model="bigram", alpha=1e5, peak_mib=80.5, entities_ece=0.25)
    results = Results(tmp_path)
    for one in (row(), known):
        results.add(one, [])
    assert list(Results(tmp_path).rows.values()) == [row(), known]
    results.write_parquet()
    assert (tmp_path / "results.parquet").is_file()
    results.add(row(shuffle=2, pairs_ece=1.5), [])
    with pytest.raises(BadRecord, match=r"pairs_ece: expected a number from 0 to 1, got 1.5"):
        Results(tmp_path)
