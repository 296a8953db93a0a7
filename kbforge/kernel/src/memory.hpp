// Memory that the C library keeps.
#pragma once

#if defined(__GLIBC__)
#include <malloc.h>
#endif

namespace kbforge {

// What has grown and was freed leaves holes, which glibc keeps: a third of a million fragments' columns.
inline void give_back_memory() {
#if defined(__GLIBC__)
  malloc_trim(0);
#endif
}

}  // namespace kbforge
