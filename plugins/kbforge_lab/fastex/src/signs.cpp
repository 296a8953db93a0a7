#include "signs.hpp"
#include "wider.hpp"

namespace kbforge {

namespace {

template <typename Number>
KB_INLINE void project_loop(const std::int8_t* coordinates, Number times, std::size_t bits,
                            Number* out) {
  for (std::size_t b = 0; b < bits; ++b) out[b] += times * static_cast<Number>(coordinates[b]);
}

KB_INLINE void distances_loop(const std::uint64_t* one, const std::uint64_t* others,
                              std::size_t n, std::size_t words, std::int32_t* out) {
  if (words == 1) {
    for (std::size_t k = 0; k < n; ++k) out[k] = __builtin_popcountll(*one ^ others[k]);
    return;
  }
  for (std::size_t k = 0; k < n; ++k) {
    std::int32_t sum = 0;
    for (std::size_t w = 0; w < words; ++w) sum += __builtin_popcountll(one[w] ^ others[w]);
    out[k] = sum;
    others += words;
  }
}

#ifdef KB_WIDER
template <typename Number>
__attribute__((target("avx2"))) void project_wider(const std::int8_t* coordinates, Number times,
                                                   std::size_t bits, Number* out) {
  project_loop(coordinates, times, bits, out);
}

__attribute__((target("popcnt"))) void distances_counted(const std::uint64_t* one,
                                                         const std::uint64_t* others,
                                                         std::size_t n, std::size_t words,
                                                         std::int32_t* out) {
  distances_loop(one, others, n, words, out);
}

__attribute__((target("avx512f,avx512vl,avx512vpopcntdq"))) void distances_wider(
    const std::uint64_t* one, const std::uint64_t* others, std::size_t n, std::size_t words,
    std::int32_t* out) {
  distances_loop(one, others, n, words, out);
}
#endif

}  // namespace

void project(const std::int8_t* coordinates, std::int32_t times, std::size_t bits,
             std::int32_t* out) {
#ifdef KB_WIDER
  if (has_avx2()) return project_wider(coordinates, times, bits, out);
#endif
  project_loop(coordinates, times, bits, out);
}

void project(const std::int8_t* coordinates, double times, std::size_t bits, double* out) {
#ifdef KB_WIDER
  if (has_avx2()) return project_wider(coordinates, times, bits, out);
#endif
  project_loop(coordinates, times, bits, out);
}

void distances(const std::uint64_t* one, const std::uint64_t* others, std::size_t n,
               std::size_t words, std::int32_t* out) {
#ifdef KB_WIDER
  if (has_vector_popcnt()) return distances_wider(one, others, n, words, out);
  if (has_popcnt()) return distances_counted(one, others, n, words, out);
#endif
  distances_loop(one, others, n, words, out);
}

}  // namespace kbforge
