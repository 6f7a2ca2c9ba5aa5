// The coordinates by which tuples are sorted.
#pragma once

#include <cstdint>

namespace jsparse {

// One coordinate of every tuple. It is an int32 or int64 in [0, size).
struct Key {
  const void* data;
  bool wide;  // int64
  int64_t size;

  int64_t at(int64_t i) const {
    return wide ? static_cast<const int64_t*>(data)[i] : static_cast<const int32_t*>(data)[i];
  }
};

// Returns the index of the first entry outside [0, size), or -1.
template <class T>
int64_t out_of_range(const T* data, int64_t n, int64_t size) {
  constexpr int64_t kBlock = 1024;  // a block has no branches, so that the compiler vectorizes it
  // As an unsigned number, a negative entry is greater than every size.
  const auto outside = [size](T x) { return static_cast<uint64_t>(static_cast<int64_t>(x)) >= static_cast<uint64_t>(size); };
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t end = begin + kBlock < n ? begin + kBlock : n;
    bool any = false;
    for (int64_t i = begin; i < end; ++i) any |= outside(data[i]);
    for (int64_t i = begin; any && i < end; ++i) {
      if (outside(data[i])) return i;
    }
  }
  return -1;
}

}  // namespace jsparse
