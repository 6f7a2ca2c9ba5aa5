// Writes tuples in order to the index arrays of one level.
#pragma once

#include <algorithm>
#include <cstdint>

#include "levels/level.h"
#include "levels/positions.h"

namespace jsparse {

// An array that is written from front to back. Every element gets a value, no element is written twice, and nothing is
// written beyond the end.
template <class T>
struct FilledArray {
  T* data = nullptr;
  int64_t length = 0;
  int64_t next = 0;  // the first element that is not written yet

  explicit FilledArray(IndexArray array = {}) : data(static_cast<T*>(array.data)), length(array.length) {}

  // Writes `value` to all elements up to and including `at` that are not written yet.
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
  int64_t capacity = 0;  // number of coordinates that the array can store
  int64_t next = 0;      // first position without a tuple; not used by a singleton, which has its parents' positions

  LevelWriter() = default;
  explicit LevelWriter(const LevelArrays& arrays)
      : pointers(arrays.pointers), starts(arrays.starts), coordinates(static_cast<Index*>(arrays.coordinates.data)),
        capacity(arrays.coordinates.length) {}

  void write_coordinate(int64_t position, int64_t coordinate) {
    if (position < capacity) coordinates[position] = static_cast<Index>(coordinate);
  }
  // Writes coordinate(k) at `position` + k for each k < count, up to the capacity.
  template <class F>
  void write_coordinates(int64_t position, int64_t count, const F& coordinate) {
    Index* const to = coordinates;
    const int64_t fitting = std::min(count, capacity - position);
    for (int64_t k = 0; k < fitting; ++k) to[position + k] = static_cast<Index>(coordinate(k));
  }
  // Writes 0 as the coordinate of each position that is not in use.
  void pad_coordinates(int64_t total) {
    for (int64_t p = total; p < capacity; ++p) coordinates[p] = 0;
  }
  // Writes the remaining pointers. The last one is the true number of positions, even if it has more parents than
  // pointers.
  void finish_pointers(int64_t total) {
    if (pointers.length == 0) return;
    pointers.fill(pointers.length - 1, total);
    pointers.data[pointers.length - 1] = narrowed<Index>(total);
  }
};

// The facts about one tuple that a level needs.
struct Step {
  int64_t parent;    // the tuple's position in the level above
  int64_t last;      // position of the tuple before in this level; undefined for the first tuple
  bool same_parent;  // whether the tuple before has the same parent
  int64_t coordinate;
};

}  // namespace jsparse
