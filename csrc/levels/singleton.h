// A singleton level stores one coordinate for each position of the level above, and has the same positions.
#pragma once

#include "levels/block.h"
#include "levels/level_reader.h"
#include "levels/level_writer.h"

namespace jsparse {

template <class Index>
int64_t enter_singleton(LevelWriter<Index>* out, const Step& step) {
  out->write_coordinate(step.parent, step.coordinate);
  return step.parent;
}

// Writes the coordinates to `row`, unless it is null. The positions do not change, since parents have the same ones.
template <class Index>
void ascend_singleton(const LevelReader<Index>& in, Block* block, Index* row) {
  const int64_t size = in.level.size;
  const Index* const coordinates = in.coordinates;
  block->for_each(in.positions,
                  [&](int64_t i, int64_t position) { block->read_coordinate(i, coordinates[position], size, row); });
}

}  // namespace jsparse
