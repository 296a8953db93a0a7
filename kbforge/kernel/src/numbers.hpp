// Numbers: the grid of log weights, exact sums, and hashes.
//
// Everything here gives the bits that the Python side gives: exp and log are those of the C library,
// called number by number, and sums are rounded once (see kbforge/numerics.py).
#pragma once

#if !defined(_WIN32)
#include <dlfcn.h>
#endif

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#if defined(_WIN32)
// as windows.h has them, which also has macros with names like "near"
extern "C" __declspec(dllimport) void* __stdcall GetModuleHandleA(const char* name);
extern "C" __declspec(dllimport) void* __stdcall GetProcAddress(void* module, const char* name);
#endif

namespace kbforge {

constexpr double kGrid = 17179869184.0;  // 2^34 units of log weights in one nat
constexpr double kNever = -std::numeric_limits<double>::infinity();

// The functions of the process's C library, which Python calls, too. They are looked up by name: a
// compiler's own runtime may have others, with other last bits, and would be linked in their place.
struct Libm {
  double (*exp)(double);
  double (*log)(double);
  double (*log10)(double);
  double (*pow)(double, double);
};

template <typename Function>
Function* of_the_process(const char* name, Function* otherwise) {
#if defined(_WIN32)
  void* const library = GetModuleHandleA("ucrtbase.dll");
  void* const found = library ? GetProcAddress(library, name) : nullptr;
#else
  void* const found = dlsym(RTLD_DEFAULT, name);
#endif
  return found ? reinterpret_cast<Function*>(found) : otherwise;
}

inline const Libm libm = {of_the_process<double(double)>("exp", std::exp),
                          of_the_process<double(double)>("log", std::log),
                          of_the_process<double(double)>("log10", std::log10),
                          of_the_process<double(double, double)>("pow", std::pow)};

// The nearest multiple of 2^-34 nats; infinities and NaN as they are.
inline double on_grid(double x) { return std::nearbyint(x * kGrid) / kGrid; }

// A fixed random-looking number (SplitMix64; Steele, Lea and Flood 2014).
inline std::uint64_t mixed(std::uint64_t x) {
  x = (x + 1) * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

// The correctly rounded sum of finite numbers (Shewchuk 1997), whatever their order.
double exact_sum(const double* values, std::size_t n);

// Log weights less the log of their sum, on the grid like these; the first one is the largest.
void normalise(std::vector<double>& weights);

// Have at least n entries, and an eighth more: what grows with the fragments shall waste little.
template <typename T>
void fit(std::vector<T>& entries, std::size_t n, T empty) {
  if (entries.size() >= n) return;
  entries.reserve(n + n / 8);
  entries.resize(n + n / 8, empty);
}

// Have room for one more, likewise.
template <typename T>
void make_room(std::vector<T>& entries) {
  if (entries.size() == entries.capacity()) entries.reserve(entries.size() + entries.size() / 8 + 64);
}

}  // namespace kbforge
