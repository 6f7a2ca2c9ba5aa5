// A compressed level stores a coordinate for each position, and pointers to the first position below each parent.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "levels/block.h"
#include "levels/level_reader.h"
#include "levels/level_writer.h"
#include "levels/validate.h"

namespace jsparse {

// Gives a tuple the next position, and returns it.
template <class Index>
int64_t enter_compressed(LevelWriter<Index>* out, const Step& step) {
  const int64_t position = out->next++;
  out->pointers.fill(step.parent, position);
  out->write_coordinate(position, step.coordinate);
  return position;
}

// Continues after `before` positions. The last one of them is below this parent.
template <class Index>
int64_t resume_compressed(LevelWriter<Index>* out, int64_t parent, int64_t before) {
  out->next = before;
  out->pointers.next = parent + 1;
  return before - 1;
}

template <class Index>
void finish_compressed(LevelWriter<Index>* out, int64_t total) {
  out->finish_pointers(total);
  out->pad_coordinates(total);
}

// Replaces positions by the positions of their parents, `parents[position]`. Writes the coordinates to `row`, unless it
// is null.
template <class Index>
void ascend_compressed(const LevelReader<Index>& in, const Index* parents, Block* block, Index* row) {
  const int64_t size = in.level.size;
  const Index* const coordinates = in.coordinates;
  block->replace(in.positions, [&](int64_t i, int64_t position) {
    block->read_coordinate(i, coordinates[position], size, row);
    return int64_t{parents[position]};
  });
}

// Returns the faults of the coordinates below the parents [first, last), whose pointers rise. Coordinates must increase
// below each parent. So there are as many places where they do not as parents begin at such places. Counting both needs
// no branch for each parent, which often has a few entries only.
template <class Index>
int32_t faults_of_coordinates(const LevelReader<Index>& level, int64_t first, int64_t last, int64_t room) {
  const Index* const coordinates = level.coordinates;
  const Index* const pointers = level.pointers;
  const int64_t begin = std::max<int64_t>(pointers[first], 0), end = std::min<int64_t>(pointers[last], room);
  if (begin >= end) return 0;
  using Unsigned = std::make_unsigned_t<Index>;  // as such numbers, negative coordinates are large
  constexpr int64_t kMost = std::numeric_limits<Index>::max();
  const Unsigned size = level.level.size > kMost ? Unsigned{1} << (8 * sizeof(Index) - 1) : static_cast<Unsigned>(level.level.size);
  Index outside = static_cast<Unsigned>(coordinates[begin]) >= size;
  Index falls = 0, expected = 0;
  for (int64_t p = begin + 1; p < end; ++p) {
    outside |= static_cast<Unsigned>(coordinates[p]) >= size;
    falls += coordinates[p] <= coordinates[p - 1];
  }
  for (int64_t q = first; q < last; ++q) {
    const int64_t at = pointers[q];
    if (at <= begin || at >= end) continue;
    expected += (at < pointers[q + 1]) & (coordinates[at] <= coordinates[at - 1]);
  }
  return (outside != 0 ? kFaultCoordinates : 0) | (falls != expected ? kFaultOrder : 0);
}

// Returns the faults of the entries [begin, end) below one parent in a chain of `count` levels. Their tuples must
// increase, and unique levels must not repeat a coordinate.
template <class Index>
int32_t faults_of_chain(const LevelReader<Index>* chain, int count, int64_t begin, int64_t end) {
  bool outside = false, disordered = false;
  int repeatable = 0;  // how many leading coordinates a tuple may share with the one before
  while (repeatable < count - 1 && !chain[repeatable].level.unique) ++repeatable;
  for (int64_t p = begin; p < end; ++p) {
    for (int l = 0; l < count; ++l) {
      const int64_t c = chain[l].coordinates[p];
      outside |= c < 0 || c >= chain[l].level.size;
    }
    if (p == begin) continue;
    int l = 0;
    while (l < repeatable && chain[l].coordinates[p] == chain[l].coordinates[p - 1]) ++l;
    disordered |= chain[l].coordinates[p] <= chain[l].coordinates[p - 1];
  }
  return (outside != 0 ? kFaultCoordinates : 0) | (disordered ? kFaultOrder : 0);
}

// Returns the faults of the entries below the parents [first, last) in a chain of `count` levels.
template <class Index>
int32_t faults_of_compressed(const LevelReader<Index>* chain, int count, int64_t first, int64_t last, int64_t room) {
  if (first == last) return 0;
  if (count == 1) return faults_of_coordinates(*chain, first, last, room);
  int32_t faults = 0;
  for (int64_t q = first; q < last; ++q) {
    const int64_t begin = chain->pointers[q], end = std::min<int64_t>(chain->pointers[q + 1], room);
    if (begin < 0) continue;  // that is a fault of the pointers
    faults |= faults_of_chain(chain, count, begin, end);
  }
  return faults;
}

}  // namespace jsparse
