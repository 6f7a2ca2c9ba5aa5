// A least-significant-digit radix sort of words, or of pairs of a word and an index, by several threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "threads/loops.h"

namespace jsparse {

constexpr int kRadixDigit = 10;  // bits of a digit, at most: the ends of 1024 buckets fit the first-level cache

struct Pair {  // a word and the number of its tuple
  uint64_t word;
  uint64_t index;
};
inline uint64_t word_of(const Pair& x) { return x.word; }
inline uint64_t word_of(uint64_t x) { return x; }

// One stable pass over the digit (of at most kRadixDigit bits) at `shift`. Every slice has counts of its own. Its share
// of a bucket comes after the shares of the slices before it, so the result does not depend on the number of slices.
template <class T>
void radix_pass(Context* ctx, const std::vector<T>& from, std::vector<T>& to, int shift, int width, int64_t parts) {
  const auto n = static_cast<int64_t>(from.size());
  const size_t buckets = size_t{1} << width;
  const uint64_t mask = buckets - 1;
  std::vector<std::vector<int64_t>> starts(static_cast<size_t>(parts), std::vector<int64_t>(buckets, 0));
  const auto digit = [=](const T& x) { return (word_of(x) >> shift) & mask; };
  slices(ctx, n, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t* count = starts[static_cast<size_t>(t)].data();
    for (int64_t i = begin; i < end; ++i) ++count[digit(from[static_cast<size_t>(i)])];
  });
  int64_t total = 0;
  for (size_t bucket = 0; bucket < buckets; ++bucket) {
    for (auto& start : starts) total += std::exchange(start[bucket], total);
  }
  slices(ctx, n, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t* next = starts[static_cast<size_t>(t)].data();
    for (int64_t i = begin; i < end; ++i) {
      const T& x = from[static_cast<size_t>(i)];
      to[static_cast<size_t>(next[digit(x)]++)] = x;
    }
  });
}

// Sorts by the bits [low, high) of the word. `varying` has the bits in which some two words differ. The number of
// passes is the least that digits of kRadixDigit bits allow, and the digits are as narrow as this number allows.
template <class T>
void radix_sort(Context* ctx, std::vector<T>& items, int low, int high, uint64_t varying, int64_t parts) {
  const int passes = std::max(1, (high - low + kRadixDigit - 1) / kRadixDigit);
  const int width = (high - low + passes - 1) / passes;
  std::vector<T> other(items.size());
  for (int shift = low; shift < high; shift += width) {
    const int bits = std::min(width, high - shift);
    if (((varying >> shift) & ((uint64_t{1} << bits) - 1)) == 0) continue;
    radix_pass(ctx, items, other, shift, bits, parts);
    items.swap(other);
  }
}

}  // namespace jsparse
