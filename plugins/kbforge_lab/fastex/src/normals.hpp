// Points of Gaussian clusters (plugins/kbforge_lab/fastex/families.py).
#pragma once

#include <vector>

#include "family.hpp"

namespace kbforge {

// Standardised points and their prior, by dimension.
struct PointsTold {
  std::size_t dimensions;
  const double* points;  // [n, dimensions]
  const double *a, *b, *lam, *centre;
};

class Normals : public Family {
 public:
  Normals(Statistics told, const PointsTold& data);

  void add(std::size_t fragment, std::size_t slot) override;
  void remove(std::size_t fragment, std::size_t slot) override;
  double log_predictive(std::size_t fragment, std::size_t slot, bool held) const override;
  void hash_fragment(std::size_t fragment, const Directions& directions,
                     std::uint64_t* hash) const override;
  double hash_cluster(std::size_t slot, const Directions& directions, std::uint64_t* hash,
                      double* g) const override;

 private:
  struct Moment {
    double mean, squares;
  };
  struct Posterior {
    double a, b, mu, lam;
  };

  Moment without(double n, Moment moment, double x) const;
  Posterior posterior(double n, Moment moment, std::size_t d) const;

  std::size_t dimensions_;
  std::vector<double> points_, a_, b_, lam_, centre_;
  std::vector<double> log_gammas_;  // by size: of a_n + 1/2 less that of a_n, summed over dimensions
  std::vector<double> sizes_;
  std::vector<Moment> moments_;  // [slots, dimensions]
};

}  // namespace kbforge
