// Gaussian clusters of points with a normal-inverse-gamma prior, dimensions independent.
//
// See kbforge_plugins/likelihoods/gaussian.py for the model and for what is kept of a cluster.
// The example of a table: a class with what `Table` asks for, and its functions for Python below.
#include <cmath>
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include "api.hpp"
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
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override;
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

namespace {

constexpr double kLog2 = 0.6931471805599453;

// The sum of logs of positive numbers (kbforge/numerics.py: log_of_product).
class Product {
 public:
  void take(double factor) {
    int exponent;
    product_ *= 2.0 * std::frexp(factor, &exponent);
    twos_ += exponent - 1;
  }
  double log() const { return libm.log(product_) + static_cast<double>(twos_) * kLog2; }

 private:
  double product_ = 1.0;
  std::int64_t twos_ = 0;
};

}  // namespace

void GaussianTable::begin(GaussianPrior prior) {
  prior_ = std::move(prior);
  const std::size_t dimensions = prior_.a.size();
  n_statistics_ = 1 + 2 * dimensions;
  n_derived_ = 1 + prior_.ends.size() + 2 * dimensions;
}

void GaussianTable::set_sizes(std::int64_t n, const double* log_gammas) {
  log_gammas_.assign(log_gammas, log_gammas + n);
  if (!statistics_.empty()) return;
  statistics_.resize(n_statistics_);
  derived_.resize(n_derived_);
  derive(statistics_.data(), derived_.data());
}

void GaussianTable::add_points(std::int64_t n, const double* points) {
  const std::size_t dimensions = prior_.a.size();
  for (std::int32_t number : forgotten_) points_.erase(number);
  forgotten_.clear();
  for (std::int64_t k = 0; k < n; ++k, points += dimensions) {
    points_.emplace(static_cast<std::int32_t>(n_points_++),
                    std::vector<double>(points, points + dimensions));
  }
}

bool GaussianTable::knows(const Record& x) const {
  return points_.count(x.values[0]) && x.values[0] + 1 < static_cast<std::int64_t>(log_gammas_.size());
}

void GaussianTable::log_predictive(const Record& x, const std::vector<Slot>& slots,
                                   double* out) {
  const double* at = point(x);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    out[k] = predicted(at, derived_.data() + (slots[k] + 1) * n_derived_);
  }
}

double GaussianTable::log_predictive_new(const Record& x) {
  return predicted(point(x), derived_.data());
}

double GaussianTable::predicted(const double* x, const double* derived) const {
  const std::size_t dimensions = prior_.a.size(), runs = prior_.ends.size();
  const double *power = derived + 1, *location = power + runs, *q = location + dimensions;
  double out = derived[0];
  std::int64_t d = 0;
  for (std::size_t run = 0; run < runs; ++run) {
    Product product;
    for (; d < prior_.ends[run]; ++d) {
      const double away = x[d] - location[d];
      product.take(away * away * q[d] + 1.0);
    }
    out -= power[run] * product.log();
  }
  return out;
}

void GaussianTable::extend(const Record& x, const std::vector<std::int64_t>& parents,
                           const std::vector<std::int64_t>& children) {
  const std::size_t dimensions = prior_.a.size();
  const double* at = point(x);
  for (std::size_t k = 0; k < children.size(); ++k) {
    const std::size_t child = children[k] + 1, parent = parents[k] + 1;
    if ((child + 1) * n_statistics_ > statistics_.size()) {
      statistics_.resize((child + 1) * n_statistics_);
      derived_.resize((child + 1) * n_derived_);
    }
    const double* old = statistics_.data() + parent * n_statistics_;
    double* grown = statistics_.data() + child * n_statistics_;
    const double n = grown[0] = old[0] + 1.0;
    for (std::size_t d = 0; d < dimensions; ++d) {
      const double before = at[d] - old[1 + d];
      const double mean = grown[1 + d] = old[1 + d] + before / n;
      grown[1 + dimensions + d] = old[1 + dimensions + d] + before * (at[d] - mean);
    }
    derive(grown, derived_.data() + child * n_derived_);
  }
}

void GaussianTable::derive(const double* statistics, double* derived) const {
  const std::size_t dimensions = prior_.a.size(), runs = prior_.ends.size();
  const double n = statistics[0];
  double *power = derived + 1, *location = power + runs, *q = location + dimensions;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const double mean = statistics[1 + d], squares = statistics[1 + dimensions + d];
    const double lam_n = n + prior_.lam[d];
    const double pull = prior_.lam[d] / lam_n;
    const double shift = prior_.centre[d] - mean;
    const double width = 2.0 * prior_.b[d] + squares + pull * n * shift * shift;
    location[d] = mean + pull * shift;
    q[d] = lam_n / (width * (lam_n + 1.0));
  }
  derived[0] = log_gammas_[static_cast<std::size_t>(n)];
  std::int64_t d = 0;
  for (std::size_t run = 0; run < runs; ++run) {
    power[run] = n * 0.5 + (prior_.a[d] + 0.5);
    Product product;
    for (; d < prior_.ends[run]; ++d) product.take(q[d]);
    derived[0] += 0.5 * product.log();
  }
}

}  // namespace kbforge

using kbforge::Table;

// Gaussian clusters: the prior by dimension, dimensions that share `a` up to each end.
KB_API Table* kb_gaussian_new(void) { return new kbforge::GaussianTable(); }

KB_API void kb_gaussian_begin(Table* table, std::int64_t dimensions, std::int64_t n_ends,
                              const std::int64_t* ends, const double* a, const double* b,
                              const double* lam, const double* centre) {
  const auto by_dimension = [dimensions](const double* x) {
    return std::vector<double>(x, x + dimensions);
  };
  static_cast<kbforge::GaussianTable*>(table)->begin(
      {by_dimension(a), by_dimension(b), by_dimension(lam), by_dimension(centre),
       std::vector<std::int64_t>(ends, ends + n_ends)});
}

// The terms of cluster sizes below n.
KB_API void kb_gaussian_sizes(Table* table, std::int64_t n, const double* log_gammas) {
  static_cast<kbforge::GaussianTable*>(table)->set_sizes(n, log_gammas);
}

// More points, numbered from `first`, which is how many there have been; 0: it is not, and nothing
// was done. Shape [n, dimensions].
KB_API std::int32_t kb_gaussian_points(Table* table, std::int64_t first, std::int64_t n,
                                       const double* points) {
  auto* gaussian = static_cast<kbforge::GaussianTable*>(table);
  if (gaussian->n_points() != first) return 0;
  gaussian->add_points(n, points);
  return 1;
}
