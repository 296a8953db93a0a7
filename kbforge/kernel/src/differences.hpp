// What the differences of two attributes' measures say of a pair of rows
// (kbforge_plugins/likelihoods/pairs/differences.py learns it).
#pragma once

#include <cstdint>

namespace kbforge {

constexpr std::int64_t kDifferenceBins = 32;

// The rules of a file; the arrays belong to the caller. Rows have measures of shape
// [rows, attributes]; NaN where they state none.
struct Differences {
  std::int64_t rules, attributes;
  const std::int64_t* attribute;  // [rules, 2] of each difference: the second's less the first's
  const double* bounds;           // [rules, kDifferenceBins - 1] ascending
  const double* log_ratio;        // [rules, kDifferenceBins] nats
};

// Features of row i of the one and j of the other: the evidence of differences between attributes
// that no other comparison covers, the least of all, and how many there are. Returns the end.
double* put_differences(const Differences& rules, const double* a, std::int64_t i, const double* b,
                        std::int64_t j, double* out);

}  // namespace kbforge
