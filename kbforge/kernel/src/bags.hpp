// Sparse rows of weighted tokens, and what two rows share.
#pragma once

#include <cstdint>
#include <vector>

namespace kbforge {

// Rows of tokens: columns ascending within a row, the sum of its weights, and the factor that makes its
// squares sum to 1. The arrays belong to the caller (kbforge_plugins/likelihoods/pairs/bags.py).
struct Bags {
  const double* weight;         // by column
  const std::int64_t* starts;   // shape [rows + 1]
  const std::int32_t* columns;
  const double *mass, *scale;   // by row
};

struct Overlap {
  double cosine, shared;         // shared weight
  double only_a, only_b;         // the largest weight of a token that only one row has
};

// Compares rows; one for each thread. Sums have the bits that NumPy's `reduceat` gives.
class BagComparer {
 public:
  double cosine(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j);
  Overlap overlap(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j);
  // How many tokens both rows have.
  static double shared(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j);

 private:
  std::vector<double> weights_, products_;
};

// See kb_bags_tidy and kb_bags_sums.
void tidy(std::int64_t rows, std::int64_t* starts, std::int32_t* columns);
void sum_rows(std::int64_t rows, const Bags& bags, double* mass, double* scale);

}  // namespace kbforge
