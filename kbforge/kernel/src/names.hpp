// Names that are like one another, for kbforge/fit/description.py: their parts, and which of them
// share the rarest.
#pragma once

#include <cstdint>
#include <vector>

namespace kbforge {

// Texts end to end, as UTF-8, each a name whose words one space separates.
struct Names {
  std::int64_t n;
  const std::uint8_t* text;
  const std::int64_t* starts;  // [n + 1]
};

// The parts of names, which are their words, marked as words, and their trigrams of characters: how
// many a name has, and their numbers, ascending. Parts are numbered in the order in which they come
// first; `hashes` takes the CRC-32 of each. There is room for as many as words and characters. How
// many parts there are.
std::int64_t number_parts(const Names& names, std::int32_t* sizes, std::int32_t* parts,
                          std::int64_t* hashes);

// The parts of names as rows of numbers and weights.
struct Weighted {
  std::int64_t n;
  const std::int64_t* starts;  // [n + 1]
  const std::int32_t* parts;   // ascending within a name
  const double* rarity;        // by part
  const double* scale;         // by name

  double weight(std::int64_t name, std::int32_t part) const { return rarity[part] * scale[name]; }
};

// What leads from a name to others: its `keys` rarest parts, of those that 2 to `sharing` names have.
struct Leads {
  const std::int64_t* often;  // by part, how many names have it
  std::int64_t keys, sharing, alike;
};

// For each name the `alike` names with the largest products over common leads, the first ones of
// equals: as pairs, low * n + high, of which some may come twice, and -1 where it has fewer; shape
// [n, alike].
void nearest_names(const Weighted& names, const Leads& leads, std::int64_t workers, std::int64_t* pairs);

// The products of the weights of the common parts of pairs of names, by ascending part: where each
// pair's begin, shape [pairs + 1], and all. There is room for as many as the smaller name has parts.
void shared_products(const Weighted& names, std::int64_t pairs, const std::int64_t* firsts,
                     const std::int64_t* seconds, std::int64_t* starts, double* products);

}  // namespace kbforge
