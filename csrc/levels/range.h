// A range level has a run of consecutive coordinates below each parent. It stores pointers to the first position below
// each parent, and the first coordinate of each run; coordinates within a run follow from that. Coordinates between the
// first and the last entry of a run that have no entry are gaps: they have a position, and levels below are empty
// there. A parent without entries has an empty run that starts at 0, so that equal patterns have equal arrays.
#pragma once

#include "levels/block.h"
#include "levels/level_reader.h"
#include "levels/level_writer.h"
#include "levels/validate.h"

namespace jsparse {

// Returns how many positions a tuple adds if the tuple before has the same parent, and the coordinate `before`.
inline int64_t positions_added_to_run(int64_t before, int64_t coordinate) { return coordinate - before; }

// Returns the position of a tuple, which continues the run of the tuple before or begins the run of another parent.
// `before()` is the coordinate of the tuple before.
template <class Index, class Before>
int64_t enter_range(LevelWriter<Index>* out, const Step& step, const Before& before) {
  int64_t position = out->next;
  if (step.same_parent) {
    position = add_positions(step.last, positions_added_to_run(before(), step.coordinate));
  } else {
    out->pointers.fill(step.parent, position);
    out->starts.fill(step.parent - 1, 0);
    out->starts.fill(step.parent, step.coordinate);
  }
  out->next = add_positions(position, 1);
  return position;
}

template <class Index>
int64_t resume_range(LevelWriter<Index>* out, int64_t parent, int64_t before) {
  out->next = before;
  out->pointers.next = parent + 1;
  out->starts.next = parent + 1;
  return before - 1;
}

template <class Index>
void finish_range(LevelWriter<Index>* out, int64_t total) {
  out->finish_pointers(total);
  out->starts.fill(out->starts.length - 1, 0);
}

// Replaces positions by the positions of their parents, `parents[position]`. Writes the coordinates to `row`, unless it
// is null.
template <class Index>
void ascend_range(const LevelReader<Index>& in, const Index* parents, Block* block, Index* row) {
  const int64_t size = in.level.size;
  const Index* const pointers = in.pointers;
  const Index* const starts = in.starts;
  block->replace(in.positions, [&](int64_t i, int64_t position) {
    const int64_t parent = parents[position];
    if (parent < 0) return parent;
    int64_t offset, c;
    const bool wrapped = __builtin_sub_overflow(position, int64_t{pointers[parent]}, &offset) ||
                         __builtin_add_overflow(int64_t{starts[parent]}, offset, &c);
    block->outside[i] |= wrapped || c < 0 || c >= size;
    if (row != nullptr && !block->outside[i]) row[i] = static_cast<Index>(c);
    return parent;
  });
}

// Returns the faults of the runs below the parents [first, last). Only positions less than `room` are checked.
template <class Index>
int32_t faults_of_range(const LevelReader<Index>& in, int64_t first, int64_t last, int64_t room) {
  const int64_t size = in.level.size;
  bool outside = false;
  for (int64_t q = first; q < last; ++q) {
    const int64_t begin = in.pointers[q], end = in.pointers[q + 1], start = in.starts[q];
    if (begin < 0) continue;  // that is a fault of the pointers
    const int64_t length = std::max<int64_t>(std::min(end, room) - begin, 0);
    outside |= start < 0 || length > size || start > size - length || (begin == end && start != 0);
  }
  return outside ? kFaultCoordinates : 0;
}

}  // namespace jsparse
