// The keys of fragments, composed of those of their values (kbforge/indexes/selective.py).
#pragma once

#include <cstdint>
#include <vector>

#include "crew.hpp"

namespace kbforge {

// The places of distinct numbers, hashed.
class PlaceOf {
 public:
  PlaceOf(std::int64_t n, const std::int64_t* numbers);
  // -1 of a number that is none of them.
  std::int64_t operator()(std::int64_t number) const { return slots_[slot(number)]; }

 private:
  std::size_t slot(std::int64_t number) const;

  const std::int64_t* numbers_;
  std::vector<std::int64_t> slots_;
};

// The keys of values, numbered on.
struct Keys {
  explicit Keys(std::size_t most_of_one) : most(most_of_one) {}
  // More values: the keys of each by itself, and those that are paired with others'.
  void add(std::int64_t n, const std::int64_t* single_start, const std::int64_t* singles,
           const std::int64_t* paired_start, const std::int64_t* paired);

  std::size_t most;  // keys of a fragment
  std::vector<std::uint32_t> single_start{0}, paired_start{0};
  std::vector<std::int64_t> singles, paired;
};

// Fragments by their values and, unless null, further keys.
struct Stating {
  std::int64_t n;
  const std::int64_t* value_start;
  const std::int32_t* values;
  const std::int64_t *more_start, *more;
};

class Composer {
 public:
  explicit Composer(const Keys& keys) : keys_(keys) {}
  // The distinct keys of a fragment: further ones, those of its values, and the pairs.
  const std::vector<std::int64_t>& compose(const Stating& said, std::int64_t fragment);

 private:
  struct Common {
    std::int64_t place, key;
  };
  // which keys the fragment has, hashed: marks of the last fragment that had one there
  struct Seen {
    std::int64_t key = 0;
    std::uint32_t stamp = 0;
  };

  void put(std::int64_t key);

  const Keys& keys_;
  std::vector<std::int64_t> out_;
  std::vector<Common> common_;
  std::vector<Seen> seen_ = std::vector<Seen>(256);
  std::size_t n_seen_ = 0;
  std::uint32_t stamp_ = 0;
};

constexpr std::int64_t kKeysAtOnce = 1 << 12;  // fragments

inline std::size_t parts_of(std::int64_t n) {
  return static_cast<std::size_t>((n + kKeysAtOnce - 1) / kKeysAtOnce);
}

// task(part, fragment, keys), part by part on some threads; the fragments of each part in order.
template <typename Task>
void for_each_keys(const Keys& keys, const Stating& said, std::int64_t workers,
                   const Task& task) {
  share_parts(said.n, kKeysAtOnce, workers,
              [&](std::size_t, std::int64_t first, std::int64_t end) {
                Composer composer(keys);
                for (std::int64_t k = first; k < end; ++k) {
                  task(static_cast<std::size_t>(first / kKeysAtOnce), k, composer.compose(said, k));
                }
              });
}

}  // namespace kbforge
