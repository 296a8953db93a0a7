// Hashes by the signs of random projections, and their distances
// (plugins/kbforge_lab/fastex/proposals.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kbforge {

constexpr std::size_t kWord = 64;

// Directions in the space of rows: row r has the coordinates of place (r multiplier + offset) mod
// length of a table, shape [length, bits].
struct Directions {
  const std::int8_t* table = nullptr;
  std::int64_t length = 1, multiplier = 1, offset = 0;
  std::size_t bits = 0;

  std::size_t words() const { return (bits + kWord - 1) / kWord; }
  const std::int8_t* of(std::int64_t row) const {
    return table + static_cast<std::size_t>((row * multiplier + offset) % length) * bits;
  }
};

// Add a row, times a number, to projections: sums of whole numbers, or of others in order.
void project(const std::int8_t* coordinates, std::int32_t times, std::size_t bits,
             std::int32_t* out);
void project(const std::int8_t* coordinates, double times, std::size_t bits, double* out);

// Bit b is whether projection b is above 0.
template <typename Number>
void pack(const Number* projections, std::size_t bits, std::uint64_t* out) {
  for (std::size_t w = 0; w < (bits + kWord - 1) / kWord; ++w) out[w] = 0;
  for (std::size_t b = 0; b < bits; ++b) {
    out[b / kWord] |= static_cast<std::uint64_t>(projections[b] > 0) << (b % kWord);
  }
}

// Hamming distances of a hash to n others, shape [n, words].
void distances(const std::uint64_t* one, const std::uint64_t* others, std::size_t n,
               std::size_t words, std::int32_t* out);

}  // namespace kbforge
