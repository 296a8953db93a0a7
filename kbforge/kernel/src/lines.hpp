// Fragments of JSON lines (kbforge/contracts/fragment.py): without any doubt, or not at all.
//
// A line that is taken is one that the Python reader takes, and means the same. The reverse does not
// hold: a line at fault, or only unusual, is a doubt, which the Python reader settles.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "interner.hpp"

namespace kbforge {

// The most bytes of an id or an attribute's name, and of another text; the most attributes, values of
// one, and dimensions.
struct LineLimits {
  std::size_t id, text, attributes, values, dimensions;
};

// Where reading needs the Python reader: for one line, or for everything from a run of blank lines on.
struct Doubt {
  std::size_t row, line;  // fragments and lines of the chunk before it
  std::size_t at, size;   // bytes of the chunk before it, and its own
  bool blank;             // a run of blank lines
};

// Some whole lines and their fragments, whose texts lie in the lines or in `written`.
struct Chunk {
  const char *begin = nullptr, *end = nullptr;
  // Of each fragment. A rest that lies nowhere is the row of its source: its size, 0 for none.
  std::vector<Text> ids, labels, sources, rests;
  std::vector<std::size_t> ends;                  // of each fragment's statements
  std::vector<std::uint32_t> lines;               // of the chunk before each fragment's
  std::vector<std::uint32_t> attributes;          // of each statement, numbered within the chunk
  std::vector<Text> values;                       // of each statement
  std::vector<Text> names;                        // of the attributes
  std::vector<std::int32_t> numbers;              // of the attributes among all; -1: not known yet
  std::vector<Doubt> doubts;
  // Values that mean that there is none: the fragment, and which value it is.
  std::vector<std::pair<std::size_t, std::size_t>> nulls;
  std::size_t lines_before = 0, n_lines = 0;
  std::size_t blank = 0;  // the weight of the blank lines at the end (kbforge/files/io.py)
  bool all_blank = true;
  std::unique_ptr<char[]> written, made_ids;

  std::size_t rows() const { return ids.size(); }
};

// The length of a character of UTF-8 that is not ASCII, of which four bytes can be read; 0: it is none.
int length_of(const char* at);

// Read the lines from `begin` to `end`, each with its newline. Lines that are `trusted` have been
// checked: they have no limits, and need no properties.
void read_lines(Chunk& chunk, const LineLimits& limits, std::uint64_t seed, bool trusted);

}  // namespace kbforge
