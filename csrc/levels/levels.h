// The operations that depend on the kind of a level. Each function calls the one in the header of that kind.
#pragma once

#include "levels/compressed.h"
#include "levels/dense.h"
#include "levels/range.h"
#include "levels/singleton.h"

namespace jsparse {

// ---- Writing tuples in order.

// Returns how many positions a tuple adds to the first level at which it differs from the tuple before. To each level
// below, it adds one.
inline int64_t positions_added(const LevelOf& level, int64_t before, int64_t coordinate) {
  return level.kind == kRange ? positions_added_to_run(before, coordinate) : 1;
}

// Writes a tuple to the index arrays of a level, and returns its position. `before()` is the coordinate of the tuple
// before.
template <class Index, class Before>
inline int64_t enter_level(const LevelOf& level, LevelWriter<Index>* out, const Step& step, const Before& before) {
  switch (level.kind) {
    case kDense: return dense_position(step.parent, level.size, step.coordinate);
    case kCompressed: return enter_compressed(out, step);
    case kSingleton: return enter_singleton(out, step);
    default: return enter_range(out, step, before);
  }
}

// Continues after the tuple that has this parent and coordinate, and returns its position. `before` is the number of
// positions up to and including that tuple.
template <class Index>
int64_t resume_level(const LevelOf& level, LevelWriter<Index>* out, int64_t parent, int64_t coordinate, int64_t before) {
  switch (level.kind) {
    case kDense: return dense_position(parent, level.size, coordinate);
    case kCompressed: return resume_compressed(out, parent, before);
    case kSingleton: return parent;
    default: return resume_range(out, parent, before);
  }
}

// Writes the elements that no tuple has written. `total` is the number of positions of the level, or of its chain.
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

// Replaces positions of a level by the positions of their parents. Writes the coordinates to `row`, unless it is null.
// `parents` has the parent of each position; only levels with pointers need it.
template <class Index>
void ascend(const LevelReader<Index>& in, bool outermost, const Index* parents, Block* block, Index* row) {
  switch (in.level.kind) {
    case kDense: return ascend_dense(in, outermost, block, row);
    case kCompressed: return ascend_compressed(in, parents, block, row);
    case kSingleton: return ascend_singleton(in, block, row);
    default: return ascend_range(in, parents, block, row);
  }
}

// Returns the faults of the entries below the parents [first, last) of the first level of `chain`. The pointers of this
// level rise, and the other `count` - 1 levels of the chain are singletons. Only positions less than `room` are
// checked.
template <class Index>
int32_t faults_below(const LevelReader<Index>* chain, int count, int64_t first, int64_t last, int64_t room) {
  return chain->level.kind == kRange ? faults_of_range(*chain, first, last, room)
                                     : faults_of_compressed(chain, count, first, last, room);
}

}  // namespace jsparse
