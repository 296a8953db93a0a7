// The arithmetic of a proposal over all clusters that have a hash, in columns
// (plugins/kbforge_lab/fastex/proposals.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace kbforge {

constexpr std::size_t kRun = 64;  // rows that have a sum of their own

// Weights of rows by how far below the best they are, and the sums of runs of rows.
struct Weights {
  std::vector<std::int32_t> below;  // a place in the table of weights, by row
  std::vector<std::int64_t> sums;   // of `kRun` rows each
  std::int64_t total = 0;

  std::int64_t of(std::size_t row) const;
  // The row that an aim from 0 up to the total falls into.
  std::size_t row_at(std::int64_t aim) const;
};

// out[k] = by_distance[distances[k]] norms[k] - sum over h of lengths[h] g[k, h]
void bounds(const double* by_distance, const std::int32_t* distances, const double* norms,
            const double* lengths, const double* g, std::size_t n_lengths, std::size_t n,
            double* out);

// Weights of temperature log_q + log_join, which takes the place of log_q.
void weigh(double temperature, const double* log_join, std::size_t n, double* log_q,
           Weights& out);

}  // namespace kbforge
