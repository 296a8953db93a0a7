// Sums of decision trees (kbforge/models/trees.py).
//
// A tree is held as bits, one bit for each leaf, the leftmost one lowest (Lucchese et al. 2015): each
// node at which a row goes right takes away the leaves on its left, and the lowest bit that is left is
// the row's leaf. Values are replaced by their ranks among the thresholds of their feature, which are
// small whole numbers, so that many rows are compared at once.
#pragma once

#include <cstdint>
#include <vector>

namespace kbforge {

// Flat arrays as in trees.py; a child is the number of a node, or -1 - the number of a leaf.
struct TreeArrays {
  std::int64_t features, nodes;
  const std::int32_t* feature;
  const double* threshold;
  const std::uint8_t* missing_left;
  const std::int32_t *left, *right;
  std::int64_t leaves;
  const double* values;  // of the leaves
  std::int64_t trees;
  const std::int32_t* roots;
  double offset;
};

class Trees {
 public:
  explicit Trees(const TreeArrays& given);

  std::int64_t features() const { return features_; }
  // The sums of rows of shape [n, features], which may have missing values (NaN).
  void sums(std::int64_t n, const double* rows, double* out) const;

  static constexpr std::int64_t kRows = 32;  // compared at once

 private:
  struct Column {  // a feature, whose missing values go one way
    std::int32_t feature;
    bool missing_left;
  };
  struct Node {
    std::int32_t column, rank;  // rows of a higher rank go right
    std::uint32_t lost;         // the leaves on the left
  };
  struct Tree {
    std::int32_t root;  // of a tree with too many leaves for bits, otherwise -1
    std::int64_t node, end, leaf;
  };
  struct Bits {
    std::vector<Node> nodes;
    std::vector<double> leaves;
  };

  std::int32_t column_of(std::int32_t feature, bool missing_left);
  bool read(std::int32_t root, Bits& bits);
  double walked(std::int32_t root, const double* row) const;
  template <typename Vectors>
  void add(std::int64_t n, const double* rows, double* sums) const;
  void add_plain(std::int64_t n, const double* rows, double* sums) const;
  void add_wide(std::int64_t n, const double* rows, double* sums) const;

  std::int64_t features_;
  double offset_;
  std::vector<std::int32_t> feature_, left_, right_;
  std::vector<double> threshold_, values_;
  std::vector<std::uint8_t> missing_left_;
  std::vector<Tree> trees_;
  std::vector<Node> nodes_;  // of all trees held as bits, and their leaves, one tree after another
  std::vector<double> leaves_;
  std::vector<Column> columns_;
  std::vector<std::int32_t> column_;               // by feature and way of missing ones, or -1
  std::vector<std::vector<double>> thresholds_;    // by feature, ascending
};

}  // namespace kbforge
