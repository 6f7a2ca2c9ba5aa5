// The index arrays of one level, for functions that must not trust their contents.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "levels/layout.h"
#include "levels/positions.h"

namespace jsparse {

constexpr int64_t kUnknown = -1;

template <class Index>
struct LevelReader {
  LevelOf level{};
  const Index* pointers = nullptr;
  const Index* starts = nullptr;
  const Index* coordinates = nullptr;
  int64_t parents = 0;    // number of parents that the arrays can store
  int64_t positions = 0;  // number of positions that the level can have, or kUnknown
};

// Returns the number of parents that the index arrays of a level can store. A level without arrays can have any number
// of parents; then the result is the number of parents that `positions` positions need.
inline int64_t parents_below(const LevelOf& level, const LevelArrays& arrays, int64_t positions) {
  const KindTraits& traits = level.traits();
  if (traits.pointers) {
    const int64_t parents = std::max<int64_t>(arrays.pointers.length - 1, 0);
    return traits.starts ? std::min(parents, arrays.starts.length) : parents;
  }
  if (traits.coordinates) return arrays.coordinates.length;
  if (positions == kUnknown || level.size == 0) return kUnknown;
  return positions / level.size + (positions % level.size != 0);
}

// Returns the readers of a pattern's levels. A level with coordinates has one position for each of them. Any other
// level has as many positions as the level below has parents. The last level has `slots` positions (kUnknown: any
// number).
template <class Index>
std::vector<LevelReader<Index>> read_levels(const Layout& layout, const IndexArrays& given, int64_t slots) {
  const std::vector<LevelArrays> arrays = layout.by_level(given.arrays);
  std::vector<LevelReader<Index>> found(arrays.size());
  int64_t wanted = slots;  // number of positions of level l that the level below needs
  for (size_t l = arrays.size(); l-- > 0;) {
    LevelReader<Index>& in = found[l];
    in.level = layout.levels[l];
    in.pointers = static_cast<const Index*>(arrays[l].pointers.data);
    in.starts = static_cast<const Index*>(arrays[l].starts.data);
    in.coordinates = static_cast<const Index*>(arrays[l].coordinates.data);
    in.positions = in.level.traits().coordinates ? arrays[l].coordinates.length : wanted;
    wanted = parents_below(in.level, arrays[l], in.positions);
    in.parents = std::max<int64_t>(wanted, 0);
  }
  int64_t above = 1;
  for (LevelReader<Index>& in : found) {
    if (in.level.traits().computed()) {
      const bool unknown = above == kUnknown && in.level.size > 0;
      in.positions = unknown ? kUnknown : multiply_positions(std::max<int64_t>(above, 0), in.level.size);
    }
    if (above != kUnknown) in.parents = std::min(in.parents, above);
    above = in.positions;
  }
  return found;
}

}  // namespace jsparse
