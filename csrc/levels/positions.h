// Arithmetic of positions. Sizes and numbers of entries are any that 64 bits hold, their products and sums are not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace jsparse {

constexpr int64_t kFar = int64_t{1} << 62;  // beyond the end of every array

// a + b for a, b >= 0, or kFar if that is less.
inline int64_t add_positions(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kFar : std::min(sum, kFar);
}

// a * b for a, b >= 0, or kFar if that is less.
inline int64_t multiply_positions(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kFar : std::min(product, kFar);
}

// A position or a number of positions as an index array holds it: what does not fit becomes the greatest number.
template <class Index>
Index narrowed(int64_t x) {
  return static_cast<Index>(std::min<int64_t>(x, std::numeric_limits<Index>::max()));
}

}  // namespace jsparse
