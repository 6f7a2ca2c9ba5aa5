#include "arrays/nonzero.h"

namespace jsparse {

int64_t count_nonzero(const Element& element, const void* data, int64_t n) {
  int64_t count = 0;
  for_nonzero(element, data, n, [&](int64_t, uint64_t mask) { count += __builtin_popcountll(mask); });
  return count;
}

}  // namespace jsparse
