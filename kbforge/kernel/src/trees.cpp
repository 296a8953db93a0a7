#include "trees.hpp"

#include <algorithm>
#include <vector>

namespace kbforge {

void add_trees(const TreeMasks& masks, const double* values, std::int64_t rows,
               const double* sides, double* sums) {
  std::vector<std::uint64_t> reached(rows);
  for (std::int64_t tree = 0; tree < masks.trees; ++tree) {
    std::fill(reached.begin(), reached.end(), masks.whole[tree]);
    for (std::int64_t node = tree * masks.nodes; node < (tree + 1) * masks.nodes; ++node) {
      const double* column = sides + masks.feature[node] * rows;
      const double threshold = masks.threshold[node];
      const std::uint64_t kept = masks.kept_right[node];
      for (std::int64_t k = 0; k < rows; ++k) {
        reached[k] &= column[k] <= threshold ? ~std::uint64_t{0} : kept;
      }
    }
    const std::int64_t* leaves = masks.leaves + masks.first[tree];
    for (std::int64_t k = 0; k < rows; ++k) {
      sums[k] += values[leaves[__builtin_ctzll(reached[k])]];
    }
  }
}

}  // namespace kbforge
