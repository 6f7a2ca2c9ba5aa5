// Saturating arithmetic of positions: sizes and numbers of entries fit 64 bits, but their products and sums may not.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace jsparse {

constexpr int64_t kFar = int64_t{1} << 62;  // beyond the end of every array

// Returns a + b, or kFar if that is less. Both are at least 0.
inline int64_t add_positions(int64_t a, int64_t b) {
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? kFar : std::min(sum, kFar);
}

// Returns a * b, or kFar if that is less. Both are at least 0.
inline int64_t multiply_positions(int64_t a, int64_t b) {
  int64_t product;
  return __builtin_mul_overflow(a, b, &product) ? kFar : std::min(product, kFar);
}

// Converts a position or a number of positions to the type of an index array. A number that does not fit becomes the
// greatest one.
template <class Index>
Index narrowed(int64_t x) {
  return static_cast<Index>(std::min<int64_t>(x, std::numeric_limits<Index>::max()));
}

}  // namespace jsparse
