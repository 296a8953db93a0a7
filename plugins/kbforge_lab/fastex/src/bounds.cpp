#include "bounds.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "numbers.hpp"
#include "wider.hpp"

namespace kbforge {

namespace {

// plugins/kbforge_lab/fastex/proposals.py has these numbers, too
constexpr double kSteps = 16.0;
constexpr std::int32_t kMost = 384;
constexpr std::size_t kLanes = 8;

std::array<std::int64_t, kMost + 1> all_weights() {
  std::array<std::int64_t, kMost + 1> out;
  for (std::int32_t k = 0; k <= kMost; ++k) {
    out[k] = static_cast<std::int64_t>(std::nearbyint(std::ldexp(libm.exp(-k / kSteps), 36)));
  }
  return out;
}

const std::array<std::int64_t, kMost + 1> kWeights = all_weights();

KB_INLINE void bounds_loop(const double* by_distance, const std::int32_t* distances,
                           const double* norms, const double* lengths, const double* g,
                           std::size_t n_lengths, std::size_t n, double* out) {
  for (std::size_t k = 0; k < n; ++k) out[k] = by_distance[distances[k]] * norms[k];
  if (n_lengths == 1) {
    const double length = *lengths;
    for (std::size_t k = 0; k < n; ++k) out[k] = out[k] - length * g[k];
    return;
  }
  for (std::size_t h = 0; h < n_lengths; ++h) {
    const double length = lengths[h];
    for (std::size_t k = 0; k < n; ++k) out[k] = out[k] - length * g[k * n_lengths + h];
  }
}

KB_INLINE std::int64_t sum_of(const std::int32_t* below, std::size_t n) {
  std::int64_t sum = 0;
  for (std::size_t k = 0; k < n; ++k) sum += kWeights[below[k]];
  return sum;
}

KB_INLINE void weigh_loop(double temperature, const double* log_join, std::size_t n,
                          double* log_q, std::int32_t* below) {
  // a maximum a lane, as the order of comparisons does not matter
  double tops[kLanes];
  for (double& top : tops) top = kNever;
  std::size_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const double value = temperature * log_q[k + lane] + log_join[k + lane];
      log_q[k + lane] = value;
      tops[lane] = value > tops[lane] ? value : tops[lane];
    }
  }
  double top = kNever;
  for (; k < n; ++k) {
    log_q[k] = temperature * log_q[k] + log_join[k];
    top = log_q[k] > top ? log_q[k] : top;
  }
  for (double one : tops) top = one > top ? one : top;
  for (k = 0; k < n; ++k) {
    const double steps = (top - log_q[k]) * kSteps;
    below[k] = static_cast<std::int32_t>(steps < kMost ? steps : static_cast<double>(kMost));
  }
}

KB_INLINE void sums_loop(const std::int32_t* below, std::size_t n, std::int64_t* out) {
  for (std::size_t begin = 0; begin < n; begin += kRun) {
    *out++ = n - begin < kRun ? sum_of(below + begin, n - begin) : sum_of(below + begin, kRun);
  }
}

#ifdef KB_WIDER
__attribute__((target("avx2"))) void bounds_wider(
    const double* by_distance, const std::int32_t* distances, const double* norms,
    const double* lengths, const double* g, std::size_t n_lengths, std::size_t n, double* out) {
  bounds_loop(by_distance, distances, norms, lengths, g, n_lengths, n, out);
}

__attribute__((target("avx2"))) void weigh_wider(double temperature, const double* log_join,
                                                 std::size_t n, double* log_q,
                                                 std::int32_t* below, std::int64_t* sums) {
  weigh_loop(temperature, log_join, n, log_q, below);
  sums_loop(below, n, sums);
}
#endif

}  // namespace

std::int64_t Weights::of(std::size_t row) const { return kWeights[below[row]]; }

std::size_t Weights::row_at(std::int64_t aim) const {
  std::size_t run = 0;
  for (; aim >= sums[run]; ++run) aim -= sums[run];
  std::size_t row = run * kRun;
  while ((aim -= kWeights[below[row]]) >= 0) ++row;
  return row;
}

void bounds(const double* by_distance, const std::int32_t* distances, const double* norms,
            const double* lengths, const double* g, std::size_t n_lengths, std::size_t n,
            double* out) {
#ifdef KB_WIDER
  if (has_avx2()) {
    return bounds_wider(by_distance, distances, norms, lengths, g, n_lengths, n, out);
  }
#endif
  bounds_loop(by_distance, distances, norms, lengths, g, n_lengths, n, out);
}

void weigh(double temperature, const double* log_join, std::size_t n, double* log_q,
           Weights& out) {
  out.below.resize(n);
  out.sums.resize((n + kRun - 1) / kRun);
#ifdef KB_WIDER
  if (has_avx2()) {
    weigh_wider(temperature, log_join, n, log_q, out.below.data(), out.sums.data());
  } else
#endif
  {
    weigh_loop(temperature, log_join, n, log_q, out.below.data());
    sums_loop(out.below.data(), n, out.sums.data());
  }
  out.total = 0;
  for (std::int64_t sum : out.sums) out.total += sum;
}

}  // namespace kbforge
