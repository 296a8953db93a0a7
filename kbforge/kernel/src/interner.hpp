// Texts and their numbers, in the order in which they first appear.
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "memory.hpp"
#include "numbers.hpp"

namespace kbforge {

// A text: where it lies, its bytes and their hash. One that is not there lies nowhere.
struct Text {
  const char* at = nullptr;
  std::uint32_t size = 0, hash = 0;
};

// The seed is secret, so that nobody can write a file whose texts all have one hash.
inline std::uint32_t hash_of(const char* at, std::size_t size, std::uint64_t seed) {
  std::uint64_t hash = seed + size, word;
  for (; size >= 8; at += 8, size -= 8) {
    std::memcpy(&word, at, 8);
    hash = mixed(hash ^ word);
  }
  word = 0;
  std::memcpy(&word, at, size);
  return static_cast<std::uint32_t>(mixed(hash ^ word));
}

class Interner {
 public:
  std::size_t size() const { return starts_.size() - 1; }
  // Where each text begins, and the last one ends.
  const std::vector<std::int64_t>& starts() const { return starts_; }
  const std::vector<char>& bytes() const { return bytes_; }

  // The number of a text, size() before the call if it is new.
  std::uint32_t number(const Text& text) {
    if (4 * starts_.size() > 3 * slots_.size()) grow();
    std::size_t at = text.hash & (slots_.size() - 1);
    for (; slots_[at].after; at = (at + 1) & (slots_.size() - 1)) {
      if (slots_[at].hash == text.hash && is_at(slots_[at].after - 1, text)) {
        return slots_[at].after - 1;
      }
    }
    make_room(bytes_, text.size);
    bytes_.insert(bytes_.end(), text.at, text.at + text.size);
    slots_[at] = Slot{text.hash, static_cast<std::uint32_t>(starts_.size())};
    make_room(starts_, 1);
    starts_.push_back(static_cast<std::int64_t>(bytes_.size()));
    return slots_[at].after - 1;
  }

  // No number will be asked for again.
  void forget() { std::vector<Slot>().swap(slots_); }

  // It will soon be asked for a text: begin to fetch from memory.
  void expect(const Text& text) const {
#if defined(__GNUC__) || defined(__clang__)
    if (!slots_.empty()) __builtin_prefetch(&slots_[text.hash & (slots_.size() - 1)]);
#endif
  }

 private:
  struct Slot {
    std::uint32_t hash = 0, after = 0;  // the number + 1; 0: nothing is here
  };

  bool is_at(std::uint32_t number, const Text& text) const {
    const std::int64_t size = starts_[number + 1] - starts_[number];
    return size == static_cast<std::int64_t>(text.size) &&
           std::memcmp(bytes_.data() + starts_[number], text.at, text.size) == 0;
  }

  void grow() {
    std::vector<Slot> larger(slots_.empty() ? 16 : 2 * slots_.size());
    for (const Slot& slot : slots_) {
      if (!slot.after) continue;
      std::size_t at = slot.hash & (larger.size() - 1);
      while (larger[at].after) at = (at + 1) & (larger.size() - 1);
      larger[at] = slot;
    }
    slots_.swap(larger);
  }

  std::vector<Slot> slots_;
  std::vector<std::int64_t> starts_{0};
  std::vector<char> bytes_;
};

}  // namespace kbforge
