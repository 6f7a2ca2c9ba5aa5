// A compressed level stores a coordinate for each position, and pointers to the first position below each parent.
#pragma once

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

// Replaces positions by those of their parents, `parents[position]`. Writes the coordinates to `row`, unless it is
// null.
template <class Index>
void ascend_compressed(const LevelReader<Index>& in, const Index* parents, Block* block, Index* row) {
  const int64_t size = in.level.size;
  const Index* const coordinates = in.coordinates;
  block->replace(in.positions, [&](int64_t i, int64_t position) {
    block->read_coordinate(i, coordinates[position], size, row);
    return int64_t{parents[position]};
  });
}

template <class Index>
bool any_outside(const Index* coordinates, int64_t begin, int64_t end, int64_t size) {
  bool found = false;
  for (int64_t p = begin; p < end; ++p) found |= coordinates[p] < 0 || coordinates[p] >= size;
  return found;
}

// Returns the faults of the coordinates [begin, end) below one parent, which must increase. If they increase, only the
// first and the last one can be outside their dimension.
template <class Index>
int32_t faults_of_coordinates(const Index* coordinates, int64_t begin, int64_t end, int64_t size) {
  if (begin >= end) return 0;
  bool falls = false;
  for (int64_t p = begin + 1; p < end; ++p) falls |= coordinates[p] <= coordinates[p - 1];
  if (falls) return kFaultOrder | (any_outside(coordinates, begin, end, size) ? kFaultCoordinates : 0);
  return coordinates[begin] < 0 || coordinates[end - 1] >= size ? kFaultCoordinates : 0;
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
  return (outside ? kFaultCoordinates : 0) | (disordered ? kFaultOrder : 0);
}

// Returns the faults of the entries below the parents [first, last) in a chain of `count` levels.
template <class Index>
int32_t faults_of_compressed(const LevelReader<Index>* chain, int count, int64_t first, int64_t last, int64_t room) {
  int32_t faults = 0;
  for (int64_t q = first; q < last; ++q) {
    const int64_t begin = chain->pointers[q], end = std::min<int64_t>(chain->pointers[q + 1], room);
    if (begin < 0) continue;  // that is a fault of the pointers
    faults |= count == 1 ? faults_of_coordinates(chain->coordinates, begin, end, chain->level.size)
                         : faults_of_chain(chain, count, begin, end);
  }
  return faults;
}

}  // namespace jsparse
