#include "numbers.hpp"

#include <utility>

namespace kbforge {

double exact_sum(const double* values, std::size_t n) {
  // partial sums that do not overlap, by ascending size; doubles have room for about 40 of them
  double partials[64];
  int count = 0;
  for (std::size_t k = 0; k < n; ++k) {
    double x = values[k];
    int kept = 0;
    for (int j = 0; j < count; ++j) {
      double y = partials[j];
      if (std::fabs(x) < std::fabs(y)) std::swap(x, y);
      const double high = x + y;
      const double low = y - (high - x);
      if (low != 0.0) partials[kept++] = low;
      x = high;
    }
    partials[kept] = x;
    count = kept + 1;
  }
  if (!count) return 0.0;
  double high = partials[--count];
  double low = 0.0;
  while (count > 0) {
    const double x = high;
    const double y = partials[--count];
    high = x + y;
    low = y - (high - x);
    if (low != 0.0) break;
  }
  // a tie is rounded by what lies below it
  if (count > 0 && ((low < 0.0 && partials[count - 1] < 0.0) ||
                    (low > 0.0 && partials[count - 1] > 0.0))) {
    const double y = low * 2.0;
    const double x = high + y;
    if (y == x - high) high = x;
  }
  return high;
}

void normalise(std::vector<double>& weights) {
  static thread_local std::vector<double> shares;
  const double top = weights.front();
  shares.clear();
  for (double& weight : weights) {
    weight -= top;
    shares.push_back(libm.exp(weight));
  }
  const double mass = on_grid(libm.log(exact_sum(shares.data(), shares.size())));
  for (double& weight : weights) weight -= mass;
}

}  // namespace kbforge
