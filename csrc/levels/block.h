// Positions on their way from the last level of a pattern up to the root, some at a time.
#pragma once

#include <cstdint>

namespace jsparse {

struct Block {
  static constexpr int64_t kSize = 1024;
  int64_t count = 0;
  int64_t position[kSize];  // in the level that has been reached; -1: none
  bool outside[kSize];      // no entry, or a coordinate outside its dimension, was met on the way

  // Calls f(i, position) for each position that exists in a level of `room` positions. The others lie outside.
  template <class F>
  void for_each(int64_t room, const F& f) {
    const int64_t n = count;  // a copy, which no write to the arrays can change
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = position[i];
      if (p < 0 || p >= room) outside[i] = true, position[i] = -1;
      else f(i, p);
    }
  }

  // Reads the coordinate of a position, and writes it to `row`, unless that is null.
  template <class Index>
  void read_coordinate(int64_t i, Index coordinate, int64_t size, Index* row) {
    outside[i] |= coordinate < 0 || coordinate >= size;
    if (row != nullptr) row[i] = coordinate;
  }
};

}  // namespace jsparse
