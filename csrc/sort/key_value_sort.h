// Sorts keys together with their values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

namespace jsparse {

template <class Word>
struct KeyValue {
  Word key;
  Word value;  // the bits of the value
};

constexpr int64_t kCachedEntries = 1 << 15;  // entries that are sorted in the cache, without another partition
constexpr int kDigit = 12;

// Returns the number of digits of a radix sort. Wide digits save passes over many entries. For few entries, their
// counters would cost more than the passes.
inline int digits_of(int64_t n, int bits) {
  const int widest = n >= 2048 ? kDigit : n >= 256 ? 9 : 6;
  return (bits + widest - 1) / widest;
}

// Sorts n entries stably by the `bits` lowest bits of their keys. Higher bits are equal. `other` is temporary memory
// for n entries.
template <class Entry>
void key_value_sort(Entry* a, Entry* other, int64_t n, int bits) {
  if (n <= 1 || bits <= 0) return;
  if (n <= 24) {
    for (int64_t i = 1; i < n; ++i) {
      const Entry x = a[i];
      int64_t j = i;
      for (; j > 0 && a[j - 1].key > x.key; --j) a[j] = a[j - 1];
      a[j] = x;
    }
    return;
  }
  const auto slot = [](uint64_t key, int shift, int width) { return (key >> shift) & ((uint64_t{1} << width) - 1); };
  if (n > kCachedEntries && bits > 8) {  // each such step takes 8 bits, so recursion ends
    const int shift = bits - 8;
    int64_t starts[257] = {0}, next[256];
    for (int64_t i = 0; i < n; ++i) ++starts[slot(a[i].key, shift, 8) + 1];
    for (int b = 0; b < 256; ++b) starts[b + 1] += starts[b];
    std::memcpy(next, starts, sizeof next);
    for (int64_t i = 0; i < n; ++i) other[next[slot(a[i].key, shift, 8)]++] = a[i];
    std::memcpy(a, other, static_cast<size_t>(n) * sizeof *a);
    for (int b = 0; b < 256; ++b) key_value_sort(a + starts[b], other, starts[b + 1] - starts[b], shift);
    return;
  }
  const int passes = digits_of(n, bits), width = (bits + passes - 1) / passes;
  uint32_t counts[2][1 << kDigit];  // one pass moves entries by a digit and counts the next digit
  std::memset(counts[0], 0, sizeof(uint32_t) << width);
  for (int64_t i = 0; i < n; ++i) ++counts[0][slot(a[i].key, 0, width)];
  Entry* from = a;
  Entry* to = other;
  for (int p = 0; p < passes; ++p) {
    uint32_t* next = counts[p % 2];
    uint32_t* after = counts[1 - p % 2];
    const int shift = p * width;
    uint32_t sum = 0;
    for (int64_t b = 0; b < int64_t{1} << width; ++b) sum += std::exchange(next[b], sum);
    if (p + 1 < passes) {
      std::memset(after, 0, sizeof(uint32_t) << width);
      for (int64_t i = 0; i < n; ++i) {
        const Entry x = from[i];
        ++after[slot(x.key, shift + width, width)];
        to[next[slot(x.key, shift, width)]++] = x;
      }
    } else {
      for (int64_t i = 0; i < n; ++i) to[next[slot(from[i].key, shift, width)]++] = from[i];
    }
    std::swap(from, to);
  }
  if (from != a) std::memcpy(a, from, static_cast<size_t>(n) * sizeof *a);
}

}  // namespace jsparse
