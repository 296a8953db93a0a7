// Clusters of the pair likelihood: how often each row was seen, and the sum over pairs of rows.
//
// See kbforge_plugins/likelihoods/pairs/likelihood.py for the model. All is added as whole numbers.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "table.hpp"

namespace kbforge {

using Row = std::int32_t;

// The candidate pairs of a file's rows and what each adds to `apart`, in units. The arrays are the
// caller's, and stay where they are. Pairs go by their first row, and by their second one.
struct Links {
  std::int64_t rows;
  const std::int64_t* start;         // [rows + 1] by row, where the pairs are whose first one it is
  const std::int32_t *second, *above;
  const std::int64_t* back_start;    // [rows + 1] by row, the pairs whose second one it is
  const std::int32_t *back, *back_first;
  const std::int32_t* own;           // [rows] of two fragments that state the same
};

class PairTable : public Table {
 public:
  // `apart`: log odds of rows that are no candidates; `units` of log odds are one nat.
  PairTable(const Links& links, std::int64_t apart, double units)
      : links_(links), apart_(apart), scale_(units * kOne * kOne) {}

  std::int64_t n_rows() const { return links_.rows + static_cast<std::int64_t>(met_.size()); }
  // Rows that the file does not have, numbered on: where each one's candidates begin, shape [n + 1],
  // rows up to itself, and what each adds.
  void add_rows(std::int64_t n, const std::int64_t* start, const std::int32_t* rows,
                const std::int32_t* above);

  // A record's value is a row.
  bool knows(const Record& x) const override { return x.values[0] < n_rows(); }
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override {
    log_predictive_by(0, x, slots, out);
  }
  Ahead ahead() const override { return Ahead::kByFragment; }
  void set_workers(std::size_t workers) override { near_.resize(workers); }
  void log_predictive_by(std::size_t worker, const Record& x, const std::vector<Slot>& slots,
                         double* out) override;
  double log_predictive_new(const Record&) override { return 0.0; }
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>& slots) override;
  void log_marginals(Slot slot, double* out) override;
  void log_merge_ratios(Slot slot, std::int64_t n, const std::int64_t* others,
                        double* out) override;
  void merge(Slot slot, Slot into) override;

 private:
  static constexpr std::int64_t kOne = 256;  // the weight of a row that was seen once
  struct Count {
    Row row;
    std::int32_t n;
  };
  struct Cluster {
    std::vector<Count> counts;
    std::int64_t weight = 0;
  };
  struct Near {
    Row row;
    std::int32_t above;
  };

  // By row, what it adds, for candidates of the row at hand, and which these are.
  class Asked {
   public:
    void note(Row row, std::int32_t above);
    void forget();
    const std::vector<Row>& noted() const { return noted_; }
    bool has(Row row) const { return places_[row].near; }
    std::int64_t above(Row row) const { return places_[row].above; }
    void resize(std::size_t rows) { places_.resize(rows); }

   private:
    struct Place {
      std::int32_t above = 0;
      bool near = false;
    };
    std::vector<Place> places_;
    std::vector<Row> noted_;
  };

  // What a row is to a cluster: its weight there, and what its candidates there add.
  struct Part {
    std::int64_t weight = 0, near = 0;
  };
  // Sums of log odds times two weights.
  __extension__ typedef __int128 Units;

  static std::int64_t weight(std::int64_t n);
  static Cluster joined(const Cluster& one, const Cluster& other);
  Units units_of(const Cluster& cluster);
  void ask(Row x, Asked& asked) const;

  Links links_;
  std::int64_t apart_;
  double scale_;
  std::vector<std::vector<Near>> met_;                  // by row that the file does not have
  std::unordered_map<Row, std::vector<Near>> later_;    // by row of the file: of those, its candidates
  std::vector<Cluster> clusters_;                       // by slot
  std::vector<Asked> near_{1};                          // by thread
  std::vector<Part> parts_;                             // by row, of the cluster at hand
};

}  // namespace kbforge
