// Gaussian clusters of points with a normal-inverse-gamma prior, dimensions independent.
//
// See kbforge_plugins/likelihoods/gaussian.py for the model and for what is kept of a
// cluster. The order of every sum and product is the one there: the bits are the same.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "table.hpp"

namespace kbforge {

// The prior, by dimension; dimensions up to an end, and from the end before, share `a`.
struct GaussianPrior {
  std::vector<double> a, b, lam, centre;
  std::vector<std::int64_t> ends;
};

class GaussianTable : public Table {
 public:
  void begin(GaussianPrior prior);
  // Terms of cluster sizes 0, 1, ..., n - 1: lgamma(a_n + 1/2) - lgamma(a_n) - log(pi) / 2, summed.
  void set_sizes(std::int64_t n, const double* log_gammas);
  // More points, shape [n, dimensions]. Those to forget are forgotten.
  void add_points(std::int64_t n, const double* points);
  std::int64_t n_points() const { return n_points_; }

  // A record's value is the number of its point.
  bool knows(const Record& x) const override;
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override {
    log_predictive_by(0, x, slots, out);
  }
  Ahead ahead() const override { return Ahead::kByFragment; }
  void log_predictive_by(std::size_t, const Record& x, const std::vector<Slot>& slots,
                         double* out) override;
  double log_predictive_new(const Record& x) override;
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>&) override {}
  void forget(const Record& x) override { forgotten_.push_back(x.values[0]); }

 private:
  const double* point(const Record& x) const { return points_.find(x.values[0])->second.data(); }
  double predicted(const double* x, const double* derived) const;
  void derive(const double* statistics, double* derived) const;

  GaussianPrior prior_;
  std::vector<double> log_gammas_;
  std::unordered_map<std::int32_t, std::vector<double>> points_;  // by number
  std::vector<std::int32_t> forgotten_;  // those of them that are not needed once others come
  std::int64_t n_points_ = 0;
  // of a cluster: n, means, centred sums of squares; and what the predictive reads of it: a
  // constant, a power a run, locations, widths. By slot, the empty cluster before all.
  std::vector<double> statistics_, derived_;
  std::size_t n_statistics_ = 0, n_derived_ = 0;
};

}  // namespace kbforge
