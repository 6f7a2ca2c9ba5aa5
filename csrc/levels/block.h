// Positions on their way from the last level of a pattern up to the root, some at a time.
#pragma once

#include <cstdint>

namespace jsparse {

struct Block {
  static constexpr int64_t kSize = 1024;
  int64_t count = 0;
  int64_t position[kSize];  // in the level that has been reached; -1: none
  bool outside[kSize];      // no entry, or a coordinate outside its dimension, was met on the way

  // f(i, position) for those that exist in a level with room for so many.
  template <class F>
  void for_each(int64_t room, const F& f) {
    const int64_t n = count;  // a copy, which no write to the arrays can change
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = position[i];
      if (p < 0 || p >= room) outside[i] = true, position[i] = -1;
      else f(i, p);
    }
  }
};

}  // namespace jsparse
