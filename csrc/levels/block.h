// A block of slots while their positions are traced from the last level of a pattern up to the root.
#pragma once

#include <cstdint>

namespace jsparse {

// The positions of a block are consecutive at first: until a level replaces them, they are `first + i`, and `position`
// is not used. Loops over consecutive positions need no test and no load for each of them.
struct Block {
  static constexpr int64_t kSize = 1024;
  int64_t count = 0;
  int64_t first = 0;
  bool consecutive = false;
  int64_t position[kSize];  // positions in the current level; -1: none
  bool outside[kSize];      // whether a level had no entry, or a coordinate outside its dimension

  // Starts with the positions [begin, end), or with the first kSize of them.
  void start(int64_t begin, int64_t end) {
    first = begin;
    count = end - begin < kSize ? end - begin : kSize;
    consecutive = true;
    for (int64_t i = 0; i < count; ++i) outside[i] = false;
  }

  // Replaces each position less than `room` by f(i, position), and marks the others as outside. `room` is the number of
  // positions that the current level can have.
  template <class F>
  void replace(int64_t room, const F& f) {
    const int64_t n = count, from = first;  // copies, so that the compiler knows that they do not change
    if (consecutive && from + n <= room) {
      consecutive = false;
      for (int64_t i = 0; i < n; ++i) position[i] = f(i, from + i);
      return;
    }
    write_positions();
    for (int64_t i = 0; i < n; ++i) {
      const int64_t p = position[i];
      if (p < 0 || p >= room) outside[i] = true, position[i] = -1;
      else position[i] = f(i, p);
    }
  }

  // Calls f(i, position) for each position less than `room`, and marks the others as outside.
  template <class F>
  void for_each(int64_t room, const F& f) {
    const int64_t n = count, from = first;
    if (consecutive && from + n <= room) {
      for (int64_t i = 0; i < n; ++i) f(i, from + i);
    } else {
      replace(room, [&](int64_t i, int64_t p) { return f(i, p), p; });
    }
  }

  // Writes consecutive positions to `position`.
  void write_positions() {
    if (!consecutive) return;
    consecutive = false;
    for (int64_t i = 0; i < count; ++i) position[i] = first + i;
  }

  // Reads the coordinate of a position, and writes it to `row`, unless that is null.
  template <class Index>
  void read_coordinate(int64_t i, Index coordinate, int64_t size, Index* row) {
    outside[i] |= coordinate < 0 || coordinate >= size;
    if (row != nullptr) row[i] = coordinate;
  }
};

}  // namespace jsparse
