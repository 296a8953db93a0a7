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

double sum_of(const std::vector<double>& values) {
  if (values.empty()) return 0.0;
  return values.size() == 1 ? values[0] : values[0] + paired_sum(&values[1], values.size() - 1);
}

// Go through the tokens of two rows: those of one, of the other, and of both, by column.
template <typename OnlyA, typename OnlyB, typename Both>
inline void go_through(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j, OnlyA only_a,
                       OnlyB only_b, Both both) {
  const std::int32_t *x = a.columns + a.starts[i], *const x_end = a.columns + a.starts[i + 1];
  const std::int32_t *y = b.columns + b.starts[j], *const y_end = b.columns + b.starts[j + 1];
  while (x != x_end && y != y_end) {
    if (*x == *y) {
      both(*x);
      ++x, ++y;
    } else if (*x < *y) {
      only_a(*x++);
    } else {
      only_b(*y++);
    }
  }
  while (x != x_end) only_a(*x++);
  while (y != y_end) only_b(*y++);
}

}  // namespace

double BagComparer::cosine(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j) {
  const double scale_a = a.scale[i], scale_b = b.scale[j];
  const std::int32_t *x = a.columns + a.starts[i], *const x_end = a.columns + a.starts[i + 1];
  const std::int32_t *y = b.columns + b.starts[j], *const y_end = b.columns + b.starts[j + 1];
  products_.clear();
  while (x != x_end && y != y_end) {
    const std::int32_t column = *x, other = *y;
    if (column == other) {
      const double weight = a.weight[column];
      products_.push_back((scale_a * weight) * (scale_b * weight));
    }
    // without a branch that the processor would have to guess
    x += column <= other;
    y += other <= column;
  }
  return sum_of(products_);
}

Overlap BagComparer::overlap(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j) {
  const double scale_a = a.scale[i], scale_b = b.scale[j];
  double only_a = 0.0, only_b = 0.0;
  weights_.clear();
  products_.clear();
  go_through(
      a, i, b, j, [&](std::int32_t column) { only_a = std::max(only_a, a.weight[column]); },
      [&](std::int32_t column) { only_b = std::max(only_b, b.weight[column]); },
      [&](std::int32_t column) {
        const double weight = a.weight[column];
        weights_.push_back(weight);
        products_.push_back((scale_a * weight) * (scale_b * weight));
      });
  return {sum_of(products_), sum_of(weights_), only_a, only_b};
}

double BagComparer::shared(const Bags& a, std::int64_t i, const Bags& b, std::int64_t j) {
  double count = 0.0;
  const auto pass = [](std::int32_t) {};
  go_through(a, i, b, j, pass, pass, [&](std::int32_t) { count += 1.0; });
  return count;
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
    const double length = std::sqrt(sum_of(squares));
    mass[row] = sum_of(weights);
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
