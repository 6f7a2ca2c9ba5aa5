// A dense level has all coordinates below each parent: the position is parent * size + coordinate, and nothing is
// stored.
#pragma once

#include "levels/block.h"
#include "levels/level_reader.h"
#include "levels/positions.h"

namespace jsparse {

// Returns the position, or kFar if 64 bits cannot represent it.
inline int64_t dense_position(int64_t parent, int64_t size, int64_t coordinate) {
  return add_positions(multiply_positions(parent, size), coordinate);
}

// Replaces positions by the positions of their parents. Writes the coordinates to `row`, unless it is null.
template <class Index>
void ascend_dense(const LevelReader<Index>& in, bool outermost, Block* block, Index* row) {
  const int64_t size = in.level.size;  // if it is 0, the level has no positions and nothing is divided
  block->replace(in.positions, [&](int64_t i, int64_t position) {
    const int64_t parent = outermost ? 0 : position / size;
    if (row != nullptr) row[i] = static_cast<Index>(position - parent * size);
    return parent;
  });
}

}  // namespace jsparse
