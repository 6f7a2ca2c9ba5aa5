// Which elements of a dense array are not zero.
#pragma once

#include <cstdint>

#include "arrays/mask.h"

namespace jsparse {

// The type of the elements of an array. Each element has `parts` components (2 for complex numbers) of `bytes` bytes. A
// component is zero if all its bits are 0. With `signed_zero` the highest bit does not count, so that -0.0 is zero and
// NaN is not.
struct Element {
  int64_t bytes;  // 1, 2, 4 or 8
  int64_t parts;
  bool signed_zero;

  bool known() const { return (bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8) && (parts == 1 || parts == 2); }
  int64_t size() const { return bytes * parts; }
};

// Returns how many of n elements are not zero.
int64_t count_nonzero(const Element& element, const void* data, int64_t n);

// Calls f(first, mask) for each group of 64 elements, which begins at `first`, unless all of them are zero. A bit of
// `mask` is set if the element with that number in the group is not zero.
template <class Word, class F>
void for_nonzero_words(const void* data, int64_t parts, Word keep, int64_t n, const F& f) {
  const auto* words = static_cast<const Word*>(data);
  for (int64_t first = 0; first < n; first += 64) {
    const int64_t count = n - first < 64 ? n - first : 64;
    uint8_t flags[64] = {0};
    if (parts == 1) {
      for (int64_t i = 0; i < count; ++i) flags[i] = (words[first + i] & keep) != 0;
    } else {
      const Word* pair = words + 2 * first;
      for (int64_t i = 0; i < count; ++i) flags[i] = ((pair[2 * i] | pair[2 * i + 1]) & keep) != 0;
    }
    if (const uint64_t mask = mask_of(flags); mask != 0) f(first, mask);
  }
}

template <class F>
void for_nonzero(const Element& e, const void* data, int64_t n, const F& f) {
  const auto visit = [&](auto ones) {
    using Word = decltype(ones);
    const Word keep = e.signed_zero ? static_cast<Word>(ones >> 1) : ones;
    for_nonzero_words<Word>(data, e.parts, keep, n, f);
  };
  if (e.bytes == 1) visit(static_cast<uint8_t>(~0u));
  else if (e.bytes == 2) visit(static_cast<uint16_t>(~0u));
  else if (e.bytes == 4) visit(~uint32_t{0});
  else visit(~uint64_t{0});
}

}  // namespace jsparse
