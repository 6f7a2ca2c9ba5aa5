// The index arrays of one level while tuples are written to them, in order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "levels/level.h"
#include "levels/positions.h"

namespace jsparse {

// An array that is written from front to back. What is skipped gets a value as well, and nothing is written twice or
// beyond the end.
template <class T>
struct FilledArray {
  T* data = nullptr;
  int64_t length = 0;
  int64_t next = 0;  // the first element that is not written yet

  explicit FilledArray(IndexArray array = {}) : data(static_cast<T*>(array.data)), length(array.length) {}

  // Gives `value` to all elements up to `at`, inclusive, that are not written yet.
  void fill(int64_t at, int64_t value) {
    const int64_t end = std::min(at + 1, length);
    for (; next < end; ++next) data[next] = narrowed<T>(value);
    next = std::max(next, at + 1);
  }
};

template <class Index>
struct LevelWriter {
  FilledArray<Index> pointers, starts;
  Index* coordinates = nullptr;
  int64_t capacity = 0;  // of the coordinates
  int64_t next = 0;      // the first position that no tuple has reached; a singleton has those of the level above

  LevelWriter() = default;
  explicit LevelWriter(const LevelArrays& arrays)
      : pointers(arrays.pointers), starts(arrays.starts), coordinates(static_cast<Index*>(arrays.coordinates.data)),
        capacity(arrays.coordinates.length) {}

  void write_coordinate(int64_t position, int64_t coordinate) {
    if (position < capacity) coordinates[position] = static_cast<Index>(coordinate);
  }
  // Writes coordinates of `count` consecutive positions: coordinate(k) at `position` + k.
  template <class F>
  void write_coordinates(int64_t position, int64_t count, const F& coordinate) {
    Index* const to = coordinates;
    const int64_t fitting = std::min(count, capacity - position);
    for (int64_t k = 0; k < fitting; ++k) to[position + k] = static_cast<Index>(coordinate(k));
  }
  // Coordinates behind the last position in use are 0.
  void pad_coordinates(int64_t total) {
    for (int64_t p = total; p < capacity; ++p) coordinates[p] = 0;
  }
  // The last pointer is the true number of positions, also where there are more parents than pointers.
  void finish_pointers(int64_t total) {
    if (pointers.length == 0) return;
    pointers.fill(pointers.length - 1, total);
    pointers.data[pointers.length - 1] = narrowed<Index>(total);
  }
};

// One tuple, as a level meets it.
struct Step {
  int64_t parent;    // the tuple's position in the level above
  int64_t last;      // the position in this level of the tuple before; nothing if there is none
  bool same_parent;  // whether the tuple before agrees in all levels above
  int64_t coordinate;
};

}  // namespace jsparse
