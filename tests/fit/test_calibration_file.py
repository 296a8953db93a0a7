from __future__ import annotations

import gzip
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kbforge.errors import KBForgeError
from kbforge.fit.alpha import Calibration, fingerprint, read_calibration, write_calibration
from tests.calibrators.toys import fragments

GOOD = """format = 1
alpha = 2.0
log_alpha = 0.6931471805599453
at_edge = ""
kbforge = "0.1.0"
[objective]
name = "bcubed"
value = 0.5
[likelihood]
name = "bigram"
[likelihood.options]
scale = "25"
[data]
fragments = 3
sha256 = "ab"
"""

texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)
options = st.dictionaries(
    texts, texts | st.integers(-(2**62), 2**62) | st.booleans() | st.floats(allow_nan=False)
)


@given(
    st.floats(-10, 25), texts, st.floats(allow_nan=False, allow_infinity=False), texts, options
)  # fmt: skip
def test_what_was_written_is_read(tmp_path_factory, log_alpha, objective, value, name, chosen):
    path = str(tmp_path_factory.getbasetemp() / "calibration.toml")
    written = Calibration(
        alpha=math.exp(log_alpha),
        objective=objective,
        value=value,
        at_edge="low",
        likelihood=name,
        options=chosen,
        fragments=7,
        sha256="00",
    )
    write_calibration(written, path)
    assert read_calibration(path) == written


def test_the_documented_file_is_read(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(GOOD)
    assert read_calibration(str(path)).options == {"scale": "25"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("alpha = 2.0\n", "", "alpha: expected a number, got nothing"),
        ("alpha = 2.0\n", "alpha = -1\n", "alpha: expected a number above 0, got -1.0"),
        ("alpha = 2.0\n", "alpha = true\n", "alpha: expected a number, got True"),
        ("alpha = 2.0\n", "alpha = nan\n", "alpha: expected a finite number, got nan"),
        ("alpha = 2.0\n", "alpha = inf\n", "alpha: expected a finite number, got inf"),
        ("alpha = 2.0\n", f"alpha = 1{'0' * 400}\n", "alpha: expected a whole number of 64 bits"),
        ("alpha = 2.0\n", 'alpha = "2"\n', "alpha: expected a number, got 2"),
        ("alpha = 2.0\n", "alpha = 3.0\n", "log_alpha: expected the natural logarithm of alpha"),
        ("format = 1\n", "format = 2\n", "format: expected 1, got 2"),
        ("format = 1\n", "", "format: expected a whole number, got nothing"),
        ("format = 1\n", "format = 1\nextra = 1\n", "extra: expected one of"),
        ('at_edge = ""', 'at_edge = "top"', "at_edge: expected"),
        ("value = 0.5\n", "", "objective.value: expected a number, got nothing"),
        ("[objective]", "[objectives]", "objectives: expected one of"),
        ('name = "bigram"', "name = 3", "likelihood.name: expected a string, got 3"),
        ('scale = "25"', "scale = [1]", "likelihood.options.scale: expected a string, number"),
        ("fragments = 3", "fragments = true", "data.fragments: expected a whole number, got True"),
        ("format = 1\n", "format = \n", "expected TOML"),
        (GOOD, "", "format: expected a whole number, got nothing"),
        (GOOD, "a = " + "[" * 5000, "expected TOML"),
        (GOOD, "format." + "a." * 5000 + "a = 1", "expected TOML"),
        ("format = 1\n", f"format = {'9' * 5000}\n", "expected TOML"),
        (
            "format = 1\n",
            f"format = [0x{'f' * 5000}]\n",
            "format[0]: expected a whole number of 64",
        ),
    ],
)
def test_bad_files_give_one_sentence_with_the_field(tmp_path, old, new, said):
    path = tmp_path / "c.toml"
    assert old in GOOD
    path.write_text(GOOD.replace(old, new))
    with pytest.raises(KBForgeError) as caught:
        read_calibration(str(path))
    assert said in str(caught.value)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_unreadable_files(tmp_path):
    (tmp_path / "c.toml").write_bytes(b"format = 1 # \xff")
    with pytest.raises(KBForgeError, match="expected TOML"):
        read_calibration(str(tmp_path / "c.toml"))
    (tmp_path / "c.toml").write_bytes(b"#" * (2 << 20))
    with pytest.raises(KBForgeError, match="more than"):
        read_calibration(str(tmp_path / "c.toml"))
    for damaged in (gzip.compress(GOOD.encode())[:-9], b"\x1f\x8bgarbage", b"\x28\xb5\x2f\xfdx"):
        (tmp_path / "c.toml").write_bytes(damaged)
        said = r"c\.toml: expected a calibration file, got a damaged or truncated one"
        with pytest.raises(KBForgeError, match=said):
            read_calibration(str(tmp_path / "c.toml"))
    with pytest.raises(KBForgeError, match="cannot read"):
        read_calibration(str(tmp_path / "absent.toml"))


def test_fingerprint_sees_labels_and_order():
    one = fragments(["a", "b"], ["x", "y"])
    assert fingerprint(one) == fingerprint(list(one))
    assert fingerprint(one) != fingerprint(one[::-1])
    assert fingerprint(one) != fingerprint(fragments(["a", "b"], ["x", "x"]))
