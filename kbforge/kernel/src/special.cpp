// Special functions of arrays and isotonic regression, with SciPy's bits, which loading SciPy takes longer than a small file.
//
// The approximations and their constants are those of the Cephes library (Moshier 1989) as SciPy has
// it; psi between 1 and 2 is the rational form of the Boost library (Maddock 2006).
#include <vector>

#include "api.hpp"
#include "numbers.hpp"

namespace kbforge {
namespace {

constexpr double kHalfLogTwoPi = 0.91893853320467274178;
constexpr double kEuler = 0.577215664901532860606512090082402431;

// Coefficients from the highest power down.
template <std::size_t n>
double polynomial(double x, const double (&coefficients)[n]) {
  double sum = coefficients[0];
  for (std::size_t k = 1; k < n; ++k) sum = sum * x + coefficients[k];
  return sum;
}

double expit(double x) { return 1.0 / (1.0 + libm.exp(-x)); }

// log gamma(2 + y) of y from 0 up to 1.
double log_gamma_past_two(double y) {
  constexpr double above[] = {-1.37825152569120859100E3, -3.88016315134637840924E4,
                              -3.31612992738871184744E5, -1.16237097492762307383E6,
                              -1.72173700820839662146E6, -8.53555664245765465627E5};
  constexpr double below[] = {1.0,
                              -3.51815701436523470549E2,
                              -1.70642106651881159223E4,
                              -2.20528590553854454839E5,
                              -1.13933444367982507207E6,
                              -2.53252307177582951285E6,
                              -2.01889141433532773231E6};
  return y * polynomial(y, above) / polynomial(y, below);
}

// log gamma(x) of x > 0; infinite at 0.
double log_gamma(double x) {
  constexpr double stirling[] = {8.11614167470508450300E-4, -5.95061904284301438324E-4,
                                 7.93650340457716943945E-4, -2.77777777730099687205E-3,
                                 8.33333333333331927722E-2};
  constexpr double far[] = {7.9365079365079365079365e-4, -2.7777777777777777777778e-3,
                            0.0833333333333333333333};
  if (x == 0.0 || std::isinf(x)) return -kNever;
  if (x < 13.0) {
    double product = 1.0, shift = 0.0, u = x;
    while (u >= 3.0) {
      shift -= 1.0;
      u = x + shift;
      product *= u;
    }
    while (u < 2.0) {
      product /= u;
      shift += 1.0;
      u = x + shift;
    }
    const double log_product = libm.log(product);
    return u == 2.0 ? log_product : log_product + log_gamma_past_two(x + (shift - 2.0));
  }
  const double near = (x - 0.5) * libm.log(x) - x + kHalfLogTwoPi;
  if (x > 1.0e8) return near;
  const double p = 1.0 / (x * x);
  return near + (x >= 1000.0 ? polynomial(p, far) : polynomial(p, stirling)) / x;
}

double digamma_from_one_to_two(double x) {
  constexpr double above[] = {-0.0020713321167745952, -0.045251321448739056, -0.28919126444774784,
                              -0.65031853770896507,   -0.32555031186804491,  0.25479851061131551};
  constexpr double below[] = {-0.55789841321675513e-6, 0.0021284987017821144, 0.054151797245674225,
                              0.43593529692665969,     1.4606242909763515,    2.0767117023730469,
                              1.0};
  constexpr double root[] = {1569415565.0 / 1073741824.0,
                             (381566830.0 / 1073741824.0) / 1073741824.0,
                             0.9016312093258695918615325266959189453125e-19};
  const double g = ((x - root[0]) - root[1]) - root[2];
  const double r = polynomial(x - 1.0, above) / polynomial(x - 1.0, below);
  return g * static_cast<double>(0.99558162689208984f) + g * r;
}

// The logarithmic derivative of gamma(x) of x > 0; infinite at 0.
double digamma(double x) {
  constexpr double far[] = {8.33333333333333333333E-2,  -2.10927960927960927961E-2,
                            7.57575757575757575758E-3,  -4.16666666666666666667E-3,
                            3.96825396825396825397E-3,  -8.33333333333333333333E-3,
                            8.33333333333333333333E-2};
  if (x == 0.0) return std::copysign(-kNever, -x);
  double sum = 0.0;
  if (x <= 10.0 && x == std::floor(x)) {
    for (int k = 1; k < static_cast<int>(x); ++k) sum += 1.0 / k;
    return sum - kEuler;
  }
  if (x < 1.0) {
    sum -= 1.0 / x;
    x += 1.0;
  } else if (x < 10.0) {
    while (x > 2.0) {
      x -= 1.0;
      sum += 1.0 / x;
    }
  }
  if (1.0 <= x && x <= 2.0) return sum + digamma_from_one_to_two(x);
  double rest = 0.0;
  if (x < 1.0e17) {
    const double z = 1.0 / (x * x);
    rest = z * polynomial(z, far);
  }
  return sum + (libm.log(x) - 0.5 / x - rest);
}

constexpr double (*kFunctions[])(double) = {expit, log_gamma, digamma};

}  // namespace
}  // namespace kbforge

KB_API void kb_special(std::int32_t function, std::int64_t n, const double* x, double* out) {
  for (std::int64_t k = 0; k < n; ++k) out[k] = kbforge::kFunctions[function](x[k]);
}

// Pool adjacent violators, first to the right and then to the left (Busing 2022).
KB_API void kb_isotonic(std::int64_t n, double* values, double* weights) {
  std::vector<std::int64_t> ends;  // of the blocks, whose means and weights lie in front
  for (std::int64_t at = 0; at < n; ++at) {
    std::size_t block = ends.size();
    double mean = values[at];
    double weight = weights[at];
    if (block > 0 && values[block - 1] >= mean) {
      --block;
      double total = weights[block] * values[block] + weight * mean;
      const auto pool = [&](std::int64_t other) {
        total += weights[other] * values[other];
        weight += weights[other];
        mean = total / weight;
      };
      weight += weights[block];
      mean = total / weight;
      while (at + 1 < n && mean >= values[at + 1]) pool(++at);
      while (block > 0 && values[block - 1] >= mean) pool(--block);
      ends.resize(block);
    }
    values[block] = mean;
    weights[block] = weight;
    ends.push_back(at + 1);
  }
  std::int64_t last = n;
  for (std::size_t block = ends.size(); block-- > 0;) {
    const std::int64_t begin = block > 0 ? ends[block - 1] : 0;
    const double mean = values[block];
    while (last > begin) values[--last] = mean;
  }
}
