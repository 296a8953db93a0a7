"""The interface as Python reads it from the C++ sources."""

from ctypes import POINTER, c_double, c_int32, c_int64, c_uint8, c_void_p
from pathlib import Path

import pytest

from kbforge.kernel import interface
from kbforge.kernel.build import SOURCES

HEADER = """
struct kb_texts {
  std::int64_t n;  // how many; more
  const std::int64_t* starts;
  const char *bytes, *more;
};

struct kb_said {
  const std::uint8_t* words;
  kb_texts names, ids;
  const kb_texts* texts;
};

KB_API std::int32_t kb_version(void);
KB_API kbforge::Run* kb_run_new(std::int32_t particles, double floor,
                                std::int64_t (*draw)(std::int64_t, const double*),
                                const kb_said* said);
"""
SOURCE = """
KB_API void kb_count(kbforge::Run* run, std::int64_t n) { run->count(n); }
"""


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "api.hpp").write_text(HEADER)
    (tmp_path / "count.cpp").write_text(SOURCE)
    monkeypatch.setattr(interface, "SOURCES", tmp_path)


def test_functions_have_the_types_of_their_declarations(sources: None) -> None:
    assert interface.read_prototypes() == {
        "kb_version": (c_int32, ()),
        "kb_run_new": (c_void_p, (c_int32, c_double, c_void_p, c_void_p)),
        "kb_count": (None, (c_void_p, c_int64)),
    }


def test_structures_have_the_fields_of_their_declarations(sources: None) -> None:
    texts, said = interface.structures.__wrapped__().values()
    assert texts._fields_ == [
        *(("n", c_int64), ("starts", POINTER(c_int64))),
        *(("bytes", c_void_p), ("more", c_void_p)),
    ]
    assert said._fields_ == [
        *(("words", POINTER(c_uint8)), ("names", texts)),
        *(("ids", texts), ("texts", POINTER(texts))),
    ]


def test_every_function_of_the_sources_is_declared() -> None:
    written = "".join(path.read_text() for path in SOURCES.iterdir())
    assert len(interface.read_prototypes()) == written.count("\nKB_API ")
