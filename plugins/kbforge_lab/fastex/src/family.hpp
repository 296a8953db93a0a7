// A family of exponential distributions, as FastEx sees it (plugins/kbforge_lab/fastex).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "numbers.hpp"
#include "signs.hpp"

namespace kbforge {

// Of each fragment, as Python has worked them out.
struct Statistics {
  std::size_t n, n_lengths;
  const double* norms;    // [n] |phi(x)|
  const double* lengths;  // [n, n_lengths]
  const double* alone;    // [n] L({x})
};

class Family {
 public:
  explicit Family(Statistics told) : told(told) {}
  virtual ~Family() = default;

  virtual void add(std::size_t fragment, std::size_t slot) = 0;
  virtual void remove(std::size_t fragment, std::size_t slot) = 0;
  // L(C + x) - L(C), nats; if held, of x's own cluster without it.
  virtual double log_predictive(std::size_t fragment, std::size_t slot, bool held) const = 0;
  // The hash of phi(x).
  virtual void hash_fragment(std::size_t fragment, const Directions& directions,
                             std::uint64_t* hash) const = 0;
  // The hash of theta*, and g, shape [n_lengths]. Returns |theta*|.
  virtual double hash_cluster(std::size_t slot, const Directions& directions,
                              std::uint64_t* hash, double* g) const = 0;
  // At the start: remember that a fragment is in a cluster; the clusters that seem likeliest for
  // one, at most so many. False if the family cannot tell.
  virtual void remember(std::size_t, std::int64_t) {}
  virtual bool recall(std::size_t, std::size_t, std::vector<std::int64_t>&) { return false; }

  const Statistics told;
};

// lgamma and digamma of positive numbers: by their asymptotic series from 16 on, by recurrence
// below; the C library's lgamma writes to a variable that threads share.
inline double log_gamma(double x) {
  double below = 1.0;
  while (x < 16.0) {
    below *= x;
    x += 1.0;
  }
  const double r = 1.0 / x, r2 = r * r;
  const double series =
      r * (1.0 / 12 - r2 * (1.0 / 360 - r2 * (1.0 / 1260 - r2 * (1.0 / 1680 - r2 / 1188))));
  return (x - 0.5) * libm.log(x) - x + 0.9189385332046727 + series - libm.log(below);
}

inline double digamma(double x) {
  double below = 0.0;
  while (x < 16.0) {
    below += 1.0 / x;
    x += 1.0;
  }
  const double r2 = 1.0 / (x * x);
  return libm.log(x) - 0.5 / x -
         r2 * (1.0 / 12 - r2 * (1.0 / 120 - r2 * (1.0 / 252 - r2 / 240))) - below;
}

}  // namespace kbforge
