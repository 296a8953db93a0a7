#include "normals.hpp"

#include <algorithm>

namespace kbforge {

namespace {
constexpr double kLogPi = 1.1447298858494002;
constexpr double kLog2Pi = 1.8378770664093453;
}  // namespace

Normals::Normals(Statistics told, const PointsTold& data)
    : Family(told),
      dimensions_(data.dimensions),
      points_(data.points, data.points + told.n * data.dimensions),
      a_(data.a, data.a + data.dimensions),
      b_(data.b, data.b + data.dimensions),
      lam_(data.lam, data.lam + data.dimensions),
      centre_(data.centre, data.centre + data.dimensions) {
  for (std::size_t n = 0; n <= told.n; ++n) {
    double sum = 0.0;
    for (double a : a_) {
      const double a_n = a + 0.5 * static_cast<double>(n);
      sum += log_gamma(a_n + 0.5) - log_gamma(a_n) - 0.5 * kLogPi;
    }
    log_gammas_.push_back(sum);
  }
}

void Normals::add(std::size_t fragment, std::size_t slot) {
  if (slot >= sizes_.size()) {
    sizes_.resize(slot + 1);
    moments_.resize((slot + 1) * dimensions_);
  }
  const double n = sizes_[slot] += 1.0;
  for (std::size_t d = 0; d < dimensions_; ++d) {
    Moment& moment = moments_[slot * dimensions_ + d];
    const double before = points_[fragment * dimensions_ + d] - moment.mean;
    moment.mean += before / n;
    moment.squares += before * (points_[fragment * dimensions_ + d] - moment.mean);
  }
}

void Normals::remove(std::size_t fragment, std::size_t slot) {
  for (std::size_t d = 0; d < dimensions_; ++d) {
    Moment& moment = moments_[slot * dimensions_ + d];
    moment = without(sizes_[slot], moment, points_[fragment * dimensions_ + d]);
  }
  sizes_[slot] -= 1.0;
}

Normals::Moment Normals::without(double n, Moment moment, double x) const {
  if (n <= 1.0) return Moment{0.0, 0.0};
  const double mean = moment.mean - (x - moment.mean) / (n - 1.0);
  const double left = moment.squares - (x - moment.mean) * (x - mean);
  return Moment{mean, n > 2.0 ? std::max(left, 0.0) : 0.0};
}

Normals::Posterior Normals::posterior(double n, Moment moment, std::size_t d) const {
  const double lam_n = lam_[d] + n, pull = lam_[d] / lam_n, shift = centre_[d] - moment.mean;
  const double b_n = b_[d] + 0.5 * (moment.squares + pull * n * shift * shift);
  return Posterior{a_[d] + 0.5 * n, b_n, moment.mean + pull * shift, lam_n};
}

double Normals::log_predictive(std::size_t fragment, std::size_t slot, bool held) const {
  const double n = sizes_[slot] - (held ? 1.0 : 0.0);
  double out = log_gammas_[static_cast<std::size_t>(n)];
  for (std::size_t d = 0; d < dimensions_; ++d) {
    const double x = points_[fragment * dimensions_ + d];
    Moment moment = moments_[slot * dimensions_ + d];
    if (held) moment = without(n + 1.0, moment, x);
    const Posterior of = posterior(n, moment, d);
    const double q = of.lam / (2.0 * of.b * (of.lam + 1.0)), away = x - of.mu;
    out += 0.5 * libm.log(q) - (of.a + 0.5) * std::log1p(away * away * q);
  }
  return out;
}

void Normals::hash_fragment(std::size_t fragment, const Directions& directions,
                            std::uint64_t* hash) const {
  static thread_local std::vector<double> sums;
  sums.assign(directions.bits, 0.0);
  const double* x = points_.data() + fragment * dimensions_;
  for (std::size_t d = 0; d < dimensions_; ++d) {
    const std::int64_t row = static_cast<std::int64_t>(d);
    const std::int64_t square = static_cast<std::int64_t>(dimensions_ + d);
    project(directions.of(row), x[d], directions.bits, sums.data());
    project(directions.of(square), x[d] * x[d] - 1.0, directions.bits, sums.data());
  }
  pack(sums.data(), directions.bits, hash);
}

double Normals::hash_cluster(std::size_t slot, const Directions& directions, std::uint64_t* hash,
                             double* g) const {
  static thread_local std::vector<double> sums;
  sums.assign(directions.bits, 0.0);
  double squares = 0.0;
  g[0] = 0.0;
  for (std::size_t d = 0; d < dimensions_; ++d) {
    const Posterior of = posterior(sizes_[slot], moments_[slot * dimensions_ + d], d);
    const double precision = of.a / of.b;
    const double one = precision * of.mu, other = 0.5 - 0.5 * precision;
    squares += one * one + other * other;
    g[0] += 0.5 * (precision * of.mu * of.mu + 1.0 / of.lam - digamma(of.a) + libm.log(of.b) +
                   kLog2Pi + precision);
    const std::int64_t row = static_cast<std::int64_t>(d);
    const std::int64_t square = static_cast<std::int64_t>(dimensions_ + d);
    project(directions.of(row), one, directions.bits, sums.data());
    project(directions.of(square), other, directions.bits, sums.data());
  }
  pack(sums.data(), directions.bits, hash);
  return std::sqrt(squares);
}

}  // namespace kbforge
