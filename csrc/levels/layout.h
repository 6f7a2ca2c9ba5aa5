// The levels of a format with the sizes of the dimensions that they store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "levels/level.h"

namespace jsparse {

using std::size_t;

constexpr int kMaxLevels = 64;  // as many as numpy has dimensions

struct Layout {
  std::vector<LevelOf> levels;
  std::vector<int> chain_begin;  // per level: the first level of its chain; every level but a singleton begins a chain
  std::vector<int> chain_end;    // per level: one past the last level of its chain

  int count() const { return static_cast<int>(levels.size()); }

  // Returns one past the last level that stores anything.
  int core() const {
    int end = count();
    while (end > 0 && at(end - 1).traits().computed()) --end;
    return end;
  }

  const LevelOf& at(int level) const { return levels[static_cast<size_t>(level)]; }

  // Returns null, or the reason why these levels are invalid. A singleton below a level with gaps is only valid for
  // reading: in general, entries do not have exactly one coordinate at each position of such a level.
  const char* prepare(bool only_read) {
    const int n = count();
    if (n > kMaxLevels) return "expected at most 64 levels";
    std::vector<bool> stored(levels.size(), false);
    for (int l = 0; l < n; ++l) {
      const LevelOf& level = at(l);
      if (level.dim < 0 || level.dim >= n || stored[static_cast<size_t>(level.dim)]) return "expected each dimension once";
      stored[static_cast<size_t>(level.dim)] = true;
      if (level.size < 0 || level.size > (int64_t{1} << 62)) return "expected sizes between 0 and 2**62";
      if (level.kind < 0 || level.kind >= kKindCount) {
        return "expected levels that are dense, compressed, singleton or range";
      }
      if (level.kind == kRange && !level.unique) return "expected range levels to be unique";
      if (level.kind == kSingleton && (l == 0 || (at(l - 1).traits().gaps && !only_read))) {
        return "expected coordinates above a singleton";
      }
    }
    chain_begin.assign(levels.size(), 0);
    chain_end.assign(levels.size(), 0);
    for (int l = 0; l < n; ++l) {
      chain_begin[static_cast<size_t>(l)] = at(l).kind == kSingleton ? chain_begin[static_cast<size_t>(l - 1)] : l;
    }
    for (int l = n - 1; l >= 0; --l) {
      const bool inner = l + 1 < n && at(l + 1).kind == kSingleton;
      chain_end[static_cast<size_t>(l)] = inner ? chain_end[static_cast<size_t>(l + 1)] : l + 1;
    }
    return nullptr;
  }

  // Returns how many index arrays a pattern of these levels has.
  size_t array_count() const {
    size_t count = 0;
    for (const LevelOf& level : levels) count += static_cast<size_t>(level.traits().arrays());
    return count;
  }

  // Returns the index arrays of each level, given those of the pattern.
  std::vector<LevelArrays> by_level(const std::vector<IndexArray>& arrays) const {
    std::vector<LevelArrays> found(levels.size());
    size_t next = 0;
    for (size_t l = 0; l < levels.size(); ++l) {
      const KindTraits& traits = levels[l].traits();
      if (traits.pointers) found[l].pointers = arrays[next++];
      if (traits.starts) found[l].starts = arrays[next++];
      if (traits.coordinates) found[l].coordinates = arrays[next++];
    }
    return found;
  }
};

}  // namespace jsparse
