// Sums of decision trees as bits, a bit a leaf: kbforge/models/trees.py says how (`_Masks`).
#pragma once

#include <cstdint>

namespace kbforge {

// Trees of as many nodes each, and rows by column.
struct TreeMasks {
  std::int64_t trees, nodes;
  const std::int64_t* feature;       // [trees, nodes] row of `sides`
  const double* threshold;           // [trees, nodes] the largest value that goes left
  const std::uint64_t* kept_right;   // [trees, nodes] what is left of the leaves on the right
  const std::uint64_t* whole;        // [trees] all leaves
  const std::int64_t* first;         // [trees] the place of a tree's first leaf in `leaves`
  const std::int64_t* leaves;        // the number of each bit's leaf
};

// Add what the rows come to, tree after tree: values of the leaves by number, rows by column of
// shape [columns, rows], sums of shape [rows].
void add_trees(const TreeMasks& masks, const double* values, std::int64_t rows,
               const double* sides, double* sums);

}  // namespace kbforge
