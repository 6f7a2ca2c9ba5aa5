// What depends on the kind of a level, whatever that is: each function asks the kind's own header.
#pragma once

#include "levels/compressed.h"
#include "levels/dense.h"
#include "levels/range.h"
#include "levels/singleton.h"

namespace jsparse {

// ---- Writing tuples in order.

// How many positions of its own the tuple takes in the level at which it first differs from the tuple before. Where the
// two differ in a level above, it takes one.
inline int64_t positions_added(const LevelOf& level, int64_t before, int64_t coordinate) {
  return level.kind == kRange ? positions_added_to_run(before, coordinate) : 1;
}

// The position of a tuple in a level, whose index arrays receive it. `before()`: the coordinate of the tuple before.
template <class Index, class Before>
inline int64_t enter_level(const LevelOf& level, LevelWriter<Index>* out, const Step& step, const Before& before) {
  switch (level.kind) {
    case kDense: return dense_position(step.parent, level.size, step.coordinate);
    case kCompressed: return enter_compressed(out, step);
    case kSingleton: return enter_singleton(out, step);
    default: return enter_range(out, step, before);
  }
}

// The position of the tuple before those that are going to be entered, at its parent's position and coordinate, where
// all tuples before have taken `before` positions.
template <class Index>
int64_t resume_level(const LevelOf& level, LevelWriter<Index>* out, int64_t parent, int64_t coordinate, int64_t before) {
  switch (level.kind) {
    case kDense: return dense_position(parent, level.size, coordinate);
    case kCompressed: return resume_compressed(out, parent, before);
    case kSingleton: return parent;
    default: return resume_range(out, parent, before);
  }
}

// Writes what no tuple reaches. `total`: positions of the level in all; of its chain, if it is in one.
template <class Index>
void finish_level(const LevelOf& level, LevelWriter<Index>* out, int64_t total) {
  switch (level.kind) {
    case kDense: return;
    case kCompressed: return finish_compressed(out, total);
    case kSingleton: return out->pad_coordinates(total);
    default: return finish_range(out, total);
  }
}

// ---- Reading.

// From positions of a level to those of its parents, with the coordinates in `row`, unless it is null.
// `parents`: of each position, in levels with pointers.
template <class Index>
void ascend(const LevelReader<Index>& in, bool outermost, const Index* parents, Block* block, Index* row) {
  switch (in.level.kind) {
    case kDense: return ascend_dense(in, outermost, block, row);
    case kCompressed: return ascend_compressed(in, parents, block, row);
    case kSingleton: return ascend_singleton(in, block, row);
    default: return ascend_range(in, parents, block, row);
  }
}

// The faults of what lies below the parents [first, last) of the first level of `chain`, which has pointers that rise;
// the other `count` - 1 levels of the chain are singletons. Positions from `room` on are not looked at.
template <class Index>
int32_t faults_below(const LevelReader<Index>* chain, int count, int64_t first, int64_t last, int64_t room) {
  return chain->level.kind == kRange ? faults_of_range(*chain, first, last, room)
                                     : faults_of_compressed(chain, count, first, last, room);
}

}  // namespace jsparse
