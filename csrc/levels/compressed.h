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

// Takes up the writing where `before` positions have been reached, and the last tuple before has this parent.
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

// From positions to those of the parents, `parents[position]`, with the coordinates in `row`, unless it is null.
template <class Index>
void ascend_compressed(const LevelReader<Index>& in, const Index* parents, Block* block, Index* row) {
  const int64_t size = in.level.size;
  const Index* const coordinates = in.coordinates;
  block->for_each(in.positions, [&](int64_t i, int64_t position) {
    block->read_coordinate(i, coordinates[position], size, row);
    block->position[i] = parents[position];
  });
}

// The faults of the entries [begin, end) of one parent in a chain of `count` levels: their tuples have to increase, and
// the coordinates of unique levels must not repeat.
template <class Index>
int32_t faults_of_chain(const LevelReader<Index>* chain, int count, int64_t begin, int64_t end) {
  int32_t faults = 0;
  for (int64_t p = begin; p < end; ++p) {
    for (int l = 0; l < count; ++l) {
      const int64_t c = chain[l].coordinates[p];
      if (c < 0 || c >= chain[l].level.size) faults |= kFaultCoordinates;
    }
    if (p == begin) continue;
    int l = 0;
    while (l < count && chain[l].coordinates[p] == chain[l].coordinates[p - 1]) ++l;
    if (l == count || chain[l].coordinates[p] < chain[l].coordinates[p - 1]) faults |= kFaultOrder;
    for (int above = 0; above < l && above < count - 1; ++above) {
      if (chain[above].level.unique) faults |= kFaultOrder;
    }
  }
  return faults;
}

}  // namespace jsparse
