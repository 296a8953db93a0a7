// The keys of fragments, composed of those of their values (kbforge/indexes/selective.py).
#pragma once

#include <cstdint>
#include <vector>

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

class Keys {
 public:
  explicit Keys(std::size_t most) : most_(most) {}

  // More values, numbered on: the keys of each by itself, and those that are paired with others'.
  void add(std::int64_t n, const std::int64_t* single_start, const std::int64_t* singles,
           const std::int64_t* paired_start, const std::int64_t* paired);
  // The distinct keys of a fragment: further ones, those of its values, and the pairs.
  void compose(const std::int64_t* values, std::size_t n, const std::int64_t* more,
               std::size_t n_more, std::vector<std::int64_t>& out);

 private:
  struct Common {
    std::size_t place;
    std::int64_t key;
  };

  void put(std::int64_t key, std::size_t begin, std::vector<std::int64_t>& out);

  std::size_t most_;
  std::vector<std::uint32_t> single_start_{0}, paired_start_{0};
  std::vector<std::int64_t> singles_, paired_;
  std::vector<Common> common_;
  // which keys the fragment has, hashed: marks of the last fragment that had one there
  struct Seen {
    std::int64_t key = 0;
    std::uint32_t stamp = 0;
  };
  std::vector<Seen> seen_ = std::vector<Seen>(256);
  std::size_t n_seen_ = 0;
  std::uint32_t stamp_ = 0;
};

}  // namespace kbforge
