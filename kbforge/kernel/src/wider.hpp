// Wider instructions, where the processor has them. They make the same operations, number by
// number: a function is compiled twice, and chosen when it runs.
#pragma once

#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
#define KB_WIDER 1

namespace kbforge {

inline bool has_avx2() {
  static const bool has = __builtin_cpu_supports("avx2");
  return has;
}

inline bool has_popcnt() {
  static const bool has = __builtin_cpu_supports("popcnt");
  return has;
}

inline bool has_vector_popcnt() {
  static const bool has = __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512vpopcntdq");
  return has;
}

}  // namespace kbforge
#endif

#define KB_INLINE inline __attribute__((always_inline))
