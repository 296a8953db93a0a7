#include "differences.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace kbforge {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double* put_differences(const Differences& rules, const double* a, std::int64_t i, const double* b,
                        std::int64_t j, double* out) {
  const double *one = a + i * rules.attributes, *other = b + j * rules.attributes;
  double evidence = kMissing, least = kMissing, compared = 0;
  for (int turn = 0; turn < 2; ++turn, std::swap(one, other)) {
    for (std::int64_t rule = 0; rule < rules.rules; ++rule) {
      const std::int64_t *attribute = rules.attribute + 2 * rule, x = attribute[0], y = attribute[1];
      const double difference = other[y] - one[x];
      if (std::isnan(difference)) continue;
      const double* bounds = rules.bounds + rule * (kDifferenceBins - 1);
      const auto bin = std::upper_bound(bounds, bounds + kDifferenceBins - 1, difference) - bounds;
      const double log_ratio = rules.log_ratio[rule * kDifferenceBins + bin];
      // where both state one of the two attributes, its own comparison says the same again
      if (std::isnan(one[y]) && std::isnan(other[x])) {
        evidence = std::isnan(evidence) ? log_ratio : evidence + log_ratio;
      }
      least = std::fmin(least, log_ratio);
      ++compared;
    }
  }
  for (const double feature : {evidence, least, compared}) *out++ = feature;
  return out;
}

}  // namespace kbforge
