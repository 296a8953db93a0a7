// Memory: room that is asked for, and what the C library keeps.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <new>
#include <utility>
#include <vector>

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace kbforge {

// Room for n more, with little waste: what grows with the fragments is most of the memory.
template <typename T>
void make_room(std::vector<T>& entries, std::size_t n) {
  const std::size_t needed = entries.size() + n;
  if (needed > entries.capacity()) entries.reserve(needed + needed / 8 + 16);
}

// Of a vector that only grows, new entries are zero without being written, so that a session over a
// large store takes memory only for what it holds. For types whose default is all zero bits.
template <typename T>
struct Zeroed {
  using value_type = T;
  Zeroed() = default;
  template <typename Other>
  Zeroed(const Zeroed<Other>&) {}

  T* allocate(std::size_t n) {
    void* made = std::calloc(n, sizeof(T));
    if (!made) throw std::bad_alloc();
    return static_cast<T*>(made);
  }
  void deallocate(T* entries, std::size_t) { std::free(entries); }
  void construct(T*) {}
  template <typename... Given>
  void construct(T* entry, Given&&... given) {
    ::new (static_cast<void*>(entry)) T(std::forward<Given>(given)...);
  }
  bool operator==(const Zeroed&) const { return true; }
  bool operator!=(const Zeroed&) const { return false; }
};

// What has grown and was freed leaves holes, which glibc keeps: a third of a million fragments' columns.
inline void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace kbforge
