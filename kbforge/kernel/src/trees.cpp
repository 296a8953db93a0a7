#include "trees.hpp"

#include <algorithm>
#include <cstring>
#include <limits>

#include "api.hpp"
#include "crew.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#define KB_WIDE __attribute__((target("avx2")))
#else
#define KB_WIDE
#endif

namespace kbforge {

namespace {

constexpr std::size_t kMostLeaves = 32;

// Numbers that are compared at once; the compiler has them in as many registers as it takes.
typedef double Doubles __attribute__((vector_size(32)));
typedef std::int64_t Longs __attribute__((vector_size(32)));
typedef std::int32_t Ints __attribute__((vector_size(32)));
typedef std::uint32_t Leaves __attribute__((vector_size(32)));

template <typename Vector, typename Number>
inline __attribute__((always_inline)) void load(const Number* from, Vector& to) {
  std::memcpy(&to, from, sizeof(Vector));
}

// Whether the processor and the system have registers of 32 bytes.
bool has_wide_registers() {
#if defined(__x86_64__)
  unsigned a, b, c, d, low, high;
  constexpr unsigned kSaved = 1u << 27, kWide = 1u << 5;
  if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & kSaved)) return false;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (low & 6) == 6 && __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & kWide);
#else
  return false;
#endif
}

}  // namespace

Trees::Trees(const TreeArrays& given)
    : features_(given.features),
      offset_(given.offset),
      feature_(given.feature, given.feature + given.nodes),
      left_(given.left, given.left + given.nodes),
      right_(given.right, given.right + given.nodes),
      threshold_(given.threshold, given.threshold + given.nodes),
      values_(given.values, given.values + given.leaves),
      missing_left_(given.missing_left, given.missing_left + given.nodes),
      column_(2 * given.features, -1),
      thresholds_(given.features) {
  for (std::int64_t node = 0; node < given.nodes; ++node) {
    thresholds_[feature_[node]].push_back(threshold_[node]);
  }
  for (std::vector<double>& some : thresholds_) {
    std::sort(some.begin(), some.end());
    some.erase(std::unique(some.begin(), some.end()), some.end());
  }
  Bits bits;
  for (std::int64_t k = 0; k < given.trees; ++k) {
    const std::int32_t root = given.roots[k];
    const bool fits = read(root, bits);
    Tree tree{fits ? -1 : root, static_cast<std::int64_t>(nodes_.size()), 0,
              static_cast<std::int64_t>(leaves_.size())};
    if (fits) {
      nodes_.insert(nodes_.end(), bits.nodes.begin(), bits.nodes.end());
      leaves_.insert(leaves_.end(), bits.leaves.begin(), bits.leaves.end());
    }
    tree.end = static_cast<std::int64_t>(nodes_.size());
    trees_.push_back(tree);
  }
}

std::int32_t Trees::column_of(std::int32_t feature, bool missing_left) {
  std::int32_t& column = column_[2 * feature + missing_left];
  if (column < 0) {
    column = static_cast<std::int32_t>(columns_.size());
    columns_.push_back({feature, missing_left});
  }
  return column;
}

// Read a tree from left to right; false: it has too many leaves.
bool Trees::read(std::int32_t root, Bits& bits) {
  struct Step {
    std::int32_t node;
    std::int64_t first;  // the first leaf on the node's left, once these have been read
  };
  bits.nodes.clear();
  bits.leaves.clear();
  std::vector<Step> steps{{root, -1}};
  while (!steps.empty()) {
    const Step step = steps.back();
    steps.pop_back();
    const std::size_t leaves = bits.leaves.size();
    if (step.node < 0) {
      if (leaves == kMostLeaves) return false;
      bits.leaves.push_back(values_[-1 - step.node]);
    } else if (step.first < 0) {
      steps.push_back({right_[step.node], -1});
      steps.push_back({step.node, static_cast<std::int64_t>(leaves)});
      steps.push_back({left_[step.node], -1});
    } else {
      const std::vector<double>& known = thresholds_[feature_[step.node]];
      const auto found = std::lower_bound(known.begin(), known.end(), threshold_[step.node]);
      const std::uint64_t below = (std::uint64_t{1} << leaves) - 1;
      const std::uint64_t before = (std::uint64_t{1} << step.first) - 1;
      bits.nodes.push_back({column_of(feature_[step.node], missing_left_[step.node]),
                            static_cast<std::int32_t>(found - known.begin()),
                            static_cast<std::uint32_t>(below & ~before)});
    }
  }
  return true;
}

double Trees::walked(std::int32_t root, const double* row) const {
  std::int32_t node = root;
  while (node >= 0) {
    const double value = row[feature_[node]];
    const bool left = value != value ? missing_left_[node] != 0 : value <= threshold_[node];
    node = left ? left_[node] : right_[node];
  }
  return values_[-1 - node];
}

// Up to kRows rows. `Vectors` only tells apart the two kinds of registers that this is made for.
template <typename Vectors>
inline __attribute__((always_inline)) void Trees::add(std::int64_t n, const double* rows,
                                                      double* sums) const {
  thread_local std::vector<std::int32_t> all_ranks;
  all_ranks.resize(columns_.size() * kRows);
  std::int32_t* const ranks = all_ranks.data();
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    const std::vector<double>& thresholds = thresholds_[columns_[column].feature];
    double values[kRows] = {};
    for (std::int64_t k = 0; k < n; ++k) values[k] = rows[k * features_ + columns_[column].feature];
    std::int32_t* const out = ranks + column * kRows;
    for (std::int64_t k = 0; k < kRows; k += 8) {
      Doubles low, high;
      load(values + k, low);
      load(values + k + 4, high);
      Longs above_low = {}, above_high = {};
      for (const double threshold : thresholds) {
        const Doubles limit = {threshold, threshold, threshold, threshold};
        above_low -= limit < low;
        above_high -= limit < high;
      }
      for (int lane = 0; lane < 4; ++lane) {
        out[k + lane] = static_cast<std::int32_t>(above_low[lane]);
        out[k + lane + 4] = static_cast<std::int32_t>(above_high[lane]);
      }
    }
    if (columns_[column].missing_left) continue;  // no threshold is less than a missing value
    for (std::int64_t k = 0; k < n; ++k) {
      if (values[k] != values[k]) out[k] = std::numeric_limits<std::int32_t>::max();
    }
  }
  for (const Tree& tree : trees_) {
    if (tree.root >= 0) {
      for (std::int64_t k = 0; k < n; ++k) sums[k] += walked(tree.root, rows + k * features_);
      continue;
    }
    Leaves left[kRows / 8];
    for (Leaves& some : left) some = ~Leaves{};
    for (std::int64_t at = tree.node; at < tree.end; ++at) {
      const Node node = nodes_[at];
      const std::int32_t* const column = ranks + node.column * kRows;
      for (std::int64_t k = 0; k < kRows / 8; ++k) {
        Ints rank;
        load(column + 8 * k, rank);
        left[k] &= ~((Leaves)(rank > node.rank) & node.lost);
      }
    }
    std::uint32_t bits[kRows];
    std::memcpy(bits, left, sizeof bits);
    const double* const leaves = leaves_.data() + tree.leaf;
    for (std::int64_t k = 0; k < n; ++k) sums[k] += leaves[__builtin_ctz(bits[k])];
  }
}

void Trees::add_plain(std::int64_t n, const double* rows, double* sums) const {
  add<char>(n, rows, sums);
}

KB_WIDE void Trees::add_wide(std::int64_t n, const double* rows, double* sums) const {
  add<double>(n, rows, sums);
}

void Trees::sums(std::int64_t n, const double* rows, double* out) const {
  static const bool wide = has_wide_registers();
  std::fill(out, out + n, offset_);
  for (std::int64_t first = 0; first < n; first += kRows) {
    const std::int64_t some = std::min(kRows, n - first);
    const double* const here = rows + first * features_;
    wide ? add_wide(some, here, out + first) : add_plain(some, here, out + first);
  }
}

}  // namespace kbforge

using kbforge::Trees;

// Trees of flat arrays, which are copied and form trees (kbforge/models/trees.py).
KB_API Trees* kb_trees_new(std::int64_t features, std::int64_t nodes, const std::int32_t* feature,
                           const double* threshold, const std::uint8_t* missing_left,
                           const std::int32_t* left, const std::int32_t* right,
                           std::int64_t leaves, const double* values, std::int64_t trees,
                           const std::int32_t* roots, double offset) {
  return new Trees({features, nodes, feature, threshold, missing_left, left, right, leaves, values,
                    trees, roots, offset});
}

KB_API void kb_trees_free(Trees* trees) { delete trees; }

// The sums of rows of shape [n, features], on some threads.
KB_API void kb_trees_sums(const Trees* trees, std::int64_t n, const double* rows,
                          std::int32_t workers, double* out) {
  kbforge::share_parts(n, 1024, workers, [&](std::size_t, std::int64_t first, std::int64_t end) {
    trees->sums(end - first, rows + first * trees->features(), out + first);
  });
}
