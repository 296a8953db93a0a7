// Memory: room that is asked for, and what the C library keeps.
#pragma once

#include <cstddef>
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

// What has grown and was freed leaves holes, which glibc keeps: a third of a million fragments' columns.
inline void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace kbforge
