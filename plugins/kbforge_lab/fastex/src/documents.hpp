// Bags of words with Dirichlet priors (plugins/kbforge_lab/fastex/families.py).
#pragma once

#include <vector>

#include "family.hpp"

namespace kbforge {

// Fragments as sparse counts, and rows (kbforge_lab.likelihoods.discrete.SparseCounts).
struct SparseCounts {
  const std::int64_t* starts;
  const std::int32_t *rows, *counts;
  std::size_t n_rows;
  const double *pseudo_counts, *signs;
  const double* half;  // [n_lengths] half the mean length, for the secant
  bool tangent;
  double unit;
};

class Documents : public Family {
 public:
  Documents(Statistics told, const SparseCounts& data);

  void add(std::size_t fragment, std::size_t slot) override;
  void remove(std::size_t fragment, std::size_t slot) override;
  double log_predictive(std::size_t fragment, std::size_t slot, bool held) const override;
  void hash_fragment(std::size_t fragment, const Directions& directions,
                     std::uint64_t* hash) const override;
  double hash_cluster(std::size_t slot, const Directions& directions, std::uint64_t* hash,
                      double* g) const override;
  void remember(std::size_t fragment, std::int64_t slot) override;
  bool recall(std::size_t fragment, std::size_t most, std::vector<std::int64_t>& out) override;

 private:
  struct Entry {
    std::int32_t row, count;
  };
  // Rows of equal pseudo-counts: log(n + a), log of rising factorials and theta* of small n.
  struct Kind {
    double a;
    std::vector<double> log_plus, log_rising, theta;
  };
  // The counts of a cluster: an open-addressing table; rows whose count is 0 again stay in it.
  struct Cluster {
    std::vector<Entry> table;
    std::size_t used = 0;
    std::int32_t at(std::int32_t row) const;
    void count(std::int32_t row, std::int32_t more);
    void grow();
  };

  double theta(const Kind& kind, std::int64_t n) const;
  double rise(const Kind& kind, std::int64_t n, std::int64_t more) const;

  std::vector<std::size_t> word_start_;
  std::vector<Entry> words_;
  std::vector<std::uint32_t> kind_of_;
  std::vector<Kind> kinds_;
  std::vector<double> totals_a_, half_;  // of the distributions
  bool tangent_;
  double unit_;  // what a coordinate of theta* is rounded to multiples of, to be hashed
  std::vector<Cluster> clusters_;
  std::vector<std::int64_t> totals_;  // [slots, n_lengths]
  // by row: in how many fragments it is, and the first clusters that have had it
  std::vector<std::int32_t> fragments_with_;
  std::vector<std::vector<std::int32_t>> first_clusters_;
  std::vector<Entry> rarest_;
  std::vector<std::int32_t> tally_;
};

}  // namespace kbforge
