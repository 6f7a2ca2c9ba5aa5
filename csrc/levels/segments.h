// Operations on segments: the positions of a compressed level, with sorted and distinct coordinates below each parent.
// Each operation has two parts, because the caller allocates the result in between: one that counts, and writes the
// pointers of the result, and one that writes the positions. Segments whose pointers are faulty count as empty.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/abi.h"

namespace jsparse {

// The segments of one compressed level.
template <class Index>
struct SegmentsOf {
  const Index* pointers = nullptr;
  int64_t parents = 0;
  const Index* coordinates = nullptr;
  int64_t positions = 0;

  int64_t begin(int64_t p) const {
    const int64_t first = pointers[p], last = pointers[p + 1];
    return first < 0 || first > last || last > positions ? 0 : first;
  }
  int64_t end(int64_t p) const {
    const int64_t first = pointers[p], last = pointers[p + 1];
    return first < 0 || first > last || last > positions ? 0 : last;
  }
};

// A table of new coordinates: the old coordinate c becomes items[starts[c]], …, items[starts[c + 1] - 1], in ascending
// order. Without `starts` it becomes items[c], or is left out if that is negative. Without `items` it stays.
template <class Index>
struct NewCoordinates {
  const Index* starts = nullptr;
  const Index* items = nullptr;
  int64_t extent = 0;  // of old coordinates
  int64_t listed = 0;  // the number of items
  int64_t size = 0;    // of new coordinates
  bool increases = true;
};

// Takes the segments below some parents (null: all), in any order, and renumbers their coordinates.
template <class Index>
struct Taking {
  SegmentsOf<Index> from;
  const Index* parents;
  int64_t parent_count;
  NewCoordinates<Index> table;

  // Writes pointers[parent_count + 1]. Returns the number of positions, or -1 if Index does not count them.
  int64_t count(Context* ctx, Index* pointers) const;
  void write(Context* ctx, const Index* pointers, Index* coordinates, Index* positions) const;
};

// Writes below each parent the segments of all parts, one after the other. The coordinates of part k grow by shifts[k],
// and positions are those in the concatenation of all parts.
template <class Index>
struct Joining {
  std::vector<SegmentsOf<Index>> parts;
  std::vector<int64_t> shifts;

  int64_t count(Context* ctx, Index* pointers) const;
  void write(Context* ctx, const Index* pointers, Index* coordinates, Index* positions) const;
};

// Writes for each pair of parents (p, q), in lexicographic order, all pairs of a position below p and one below q.
template <class Index>
struct Pairing {
  SegmentsOf<Index> first, second;

  int64_t count(Context* ctx, Index* pointers) const;
  void write(Context* ctx, const Index* pointers, Index* in_first, Index* in_second) const;
};

}  // namespace jsparse
