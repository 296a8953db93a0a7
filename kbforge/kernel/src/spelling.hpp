// The best of several spellings in ASCII, as kbforge/kb/spelling.py defines it; that module chooses
// among others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace kbforge {

// The words that several fragments of a file have, in a table of bits; no bits: they are unknown.
struct FrequentWords {
  const std::uint8_t* bits;
  std::int64_t bytes;
};

struct Spelling {
  std::string_view text;
  std::int64_t count;  // fragments that state it
};

// Whether this module chooses among texts like this one.
bool is_plain(std::string_view text);

// The places of a text's words in the largest table of bits, appended; none for numbers and addresses.
void places_of(std::string_view text, std::vector<std::int32_t>& places);

// The best of one or more plain spellings, by its number, among those of `among`, or all if it is empty.
std::size_t best_spelling(const std::vector<Spelling>& stated, const std::vector<std::size_t>& among,
                          const FrequentWords& words);

}  // namespace kbforge
