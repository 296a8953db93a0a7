// Dirichlet-multinomial likelihoods, of n-grams, values or numbers: counts of rows.
//
// See kbforge_lm/likelihoods/counts.py for the model. The log factors of a row are told, and
// lie on the grid: sums of them are exact in any order, whether over the rows of one cluster or,
// where many clusters are asked for, over the clusters of one row.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "table.hpp"

namespace kbforge {

// The factors of row `row` for counts from `begin` on, `n` of them: nats, on the grid.
using MoreFactors = void (*)(std::int32_t row, std::int64_t begin, std::int64_t n, double* out);

class CountTable : public Table {
 public:
  explicit CountTable(MoreFactors more) : more_(more) {}

  std::int64_t n_rows() const { return static_cast<std::int64_t>(more_factors_.size()); }
  // Further rows, and the factors of counts 0 to width - 1 of each; shape [n, width], width > 1,
  // the same each time.
  void add_rows(std::int64_t n, std::int64_t width, const double* factors);

  // A record's attributes are rows, ascending, and its values how often it counts in each.
  bool knows(const Record& x) const override;
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override;
  Ahead ahead() const override { return Ahead::kByFragment; }
  void set_workers(std::size_t workers) override { asked_.resize(workers); }
  void log_predictive_by(std::size_t worker, const Record& x, const std::vector<Slot>& slots,
                         double* out) override;
  double log_predictive_new(const Record& x) override;
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>& slots) override;
  void log_merge_ratios(Slot slot, std::int64_t n, const std::int64_t* others,
                        double* out) override;
  void merge(Slot slot, Slot into) override;

 private:
  struct Count {
    std::int32_t row, n;
  };
  // A cluster with a row, by its cell: its place among the clusters that there have been. A cell is
  // written once, so that nothing of a slot's former cluster comes back with the slot.
  struct Posting {
    std::uint32_t cell;
    std::int32_t n;
  };

  // F of a row at a count, nats.
  double factor(std::int32_t row, std::int64_t n) {
    return n < width_ ? few_[row * width_ + n] : more_factor(row, n);
  }
  double more_factor(std::int32_t row, std::int64_t n);
  // What a row that a cluster counts in n times adds if a fragment counts in it, too.
  double gain(std::int32_t row, std::int32_t n, std::int32_t more) {
    const double both = factor(row, std::int64_t{n} + more);
    return both - factor(row, n) - factor(row, more);
  }
  void ask_all(const Record& x, const std::vector<Slot>& slots, double* out);
  void post_all();
  void post(std::size_t slot);

  MoreFactors more_;
  std::int64_t width_ = 0;
  std::vector<double> few_;                       // factors of counts below `width_`, by row
  std::vector<std::vector<double>> more_factors_;  // those from there on, by row
  std::vector<std::vector<Count>> held_;      // by slot: the counts of its cluster, by row
  std::mutex mutex_;                              // of these
  // by thread and row: how often the fragment counts in it
  std::vector<std::vector<std::int32_t>> asked_{1};
  // where clusters are, from the first time on that many were asked for
  bool posted_ = false;
  std::vector<std::vector<Posting>> postings_;  // by row
  std::vector<std::uint32_t> cell_of_;          // by slot
  std::vector<double> gains_;                   // by cell
  std::vector<double> gain_of_;                 // by how often a cluster counts in the row at hand
  std::size_t n_live_ = 0;
};

}  // namespace kbforge
