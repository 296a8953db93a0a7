#include "bags.hpp"

#include <algorithm>
#include <cmath>

#include "api.hpp"

namespace kbforge {

namespace {

// The sum of a run as NumPy pairs numbers up: eight sums at a time, and halves of what is long.
double paired_sum(const double* values, std::size_t n) {
  if (n < 8) {
    double sum = -0.0;
    for (std::size_t k = 0; k < n; ++k) sum += values[k];
    return sum;
  }
  if (n > 128) {
    const std::size_t half = n / 2 - n / 2 % 8;
    return paired_sum(values, half) + paired_sum(values + half, n - half);
  }
  double sums[8];
  std::copy(values, values + 8, sums);
  std::size_t at = 8;
  for (; at + 8 <= n; at += 8) {
    for (std::size_t k = 0; k < 8; ++k) sums[k] += values[at + k];
  }
  double sum = ((sums[0] + sums[1]) + (sums[2] + sums[3])) +
               ((sums[4] + sums[5]) + (sums[6] + sums[7]));
  for (; at < n; ++at) sum += values[at];
  return sum;
}

double sum_of(const double* values, std::size_t n) {
  if (n == 0) return 0.0;
  return n == 1 ? values[0] : values[0] + paired_sum(values + 1, n - 1);
}

// The tokens of a row.
struct Tokens {
  const std::int32_t *at, *end;

  Tokens(const Bags& bags, std::int64_t row)
      : at(bags.columns + bags.starts[row]), end(bags.columns + bags.starts[row + 1]) {}
  std::size_t size() const { return static_cast<std::size_t>(end - at); }
  double largest(const Bags& bags, double most) const {
    for (const std::int32_t* token = at; token != end; ++token) {
      most = std::max(most, bags.weight[*token]);
    }
    return most;
  }
};

}  // namespace

// The loops below go through two rows without a branch that the processor would have to guess: what is
// not shared is written, too, and written over.

double BagComparer::cosine(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j) {
  const double scale_a = a.scale[i], scale_b = b.scale[j];
  Tokens x(a, i), y(b, j);
  if (products_.size() <= x.size()) products_.resize(2 * x.size() + 1);
  double* const products = products_.data();
  std::size_t n = 0;
  while (x.at != x.end && y.at != y.end) {
    const std::int32_t one = *x.at, other = *y.at;
    const double weight = a.weight[one];
    products[n] = (scale_a * weight) * (scale_b * weight);
    n += one == other;
    x.at += one <= other;
    y.at += other <= one;
  }
  return sum_of(products, n);
}

Overlap BagComparer::overlap(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j) {
  const double scale_a = a.scale[i], scale_b = b.scale[j];
  Tokens x(a, i), y(b, j);
  if (products_.size() <= x.size()) products_.resize(2 * x.size() + 1);
  if (weights_.size() < products_.size()) weights_.resize(products_.size());
  double *const products = products_.data(), *const weights = weights_.data();
  double only_a = 0.0, only_b = 0.0;
  std::size_t n = 0;
  while (x.at != x.end && y.at != y.end) {
    const std::int32_t one = *x.at, other = *y.at;
    const double weight = a.weight[one], theirs = b.weight[other];
    weights[n] = weight;
    products[n] = (scale_a * weight) * (scale_b * weight);
    n += one == other;
    only_a = std::max(only_a, one < other ? weight : 0.0);
    only_b = std::max(only_b, other < one ? theirs : 0.0);
    x.at += one <= other;
    y.at += other <= one;
  }
  return {sum_of(products, n), sum_of(weights, n), x.largest(a, only_a), y.largest(b, only_b)};
}

double BagComparer::shared(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j) {
  Tokens x(a, i), y(b, j);
  std::size_t n = 0;
  while (x.at != x.end && y.at != y.end) {
    const std::int32_t one = *x.at, other = *y.at;
    n += one == other;
    x.at += one <= other;
    y.at += other <= one;
  }
  return static_cast<double>(n);
}

void tidy(std::int64_t rows, std::int64_t* starts, std::int32_t* columns) {
  std::int32_t* out = columns;
  std::int64_t begin = starts[0];
  for (std::int64_t row = 0; row < rows; ++row) {
    const std::int64_t end = starts[row + 1];
    std::sort(columns + begin, columns + end);
    out = std::unique_copy(columns + begin, columns + end, out);
    begin = end;
    starts[row + 1] = out - columns;
  }
}

void sum_rows(std::int64_t rows, const Bags& bags, double* mass, double* scale) {
  std::vector<double> weights, squares;
  for (std::int64_t row = 0; row < rows; ++row) {
    weights.clear();
    squares.clear();
    for (std::int64_t at = bags.starts[row]; at < bags.starts[row + 1]; ++at) {
      const double weight = bags.weight[bags.columns[at]];
      weights.push_back(weight);
      squares.push_back(weight * weight);
    }
    const double length = std::sqrt(sum_of(squares.data(), squares.size()));
    mass[row] = sum_of(weights.data(), weights.size());
    scale[row] = length > 0 ? 1.0 / length : 0.0;
  }
}

}  // namespace kbforge

// Rows of columns: have those of each row ascending and each once, and where they begin then.
KB_API void kb_bags_tidy(std::int64_t rows, std::int64_t* starts, std::int32_t* columns) {
  kbforge::tidy(rows, starts, columns);
}

// The sum of each row's weights, and the factor that makes its squares sum to 1; 0 of an empty row.
KB_API void kb_bags_sums(std::int64_t rows, const double* weight, const std::int64_t* starts,
                         const std::int32_t* columns, double* mass, double* scale) {
  kbforge::sum_rows(rows, {weight, starts, columns, nullptr, nullptr}, mass, scale);
}
