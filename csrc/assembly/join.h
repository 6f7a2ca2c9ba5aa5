// Joins the parts of an assembled result, which one chunk each has written, to the index arrays of a format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "levels/layout.h"

namespace jsparse {

// The items that one chunk has written, level by level in storage order. An item is a coordinate and, above the last
// level, the end of the items below it; at least one item is below it. In the outermost level, all items of a chunk
// come after those of the chunk before.
struct Part {
  const char* coordinates;  // [level][room], int32 or int64
  const int64_t* ends;      // [level][room], but for the last level
  int64_t room;
  int64_t start;  // where the chunk's items begin in every level
  int64_t count[kMaxLevels];
};

class Join {
 public:
  // Whether parts can be joined to these levels. Range levels are excluded, because chunks write coordinates, not runs.
  static bool suits(const Layout& layout) {
    return std::none_of(layout.levels.begin(), layout.levels.end(), [](const LevelOf& l) { return l.traits().starts; });
  }

  Join(const Layout& layout, bool wide, std::vector<IndexArray> arrays);

  // The offsets at which a part is written.
  struct Offsets {
    int64_t items[kMaxLevels];     // number of items before the part, by level
    int64_t pointers[kMaxLevels];  // number of pointers written before the part, by compressed level
  };

  // Returns the offsets of this part. Call it for each part, in order.
  Offsets next(const Part& part);

  // Writes a part. Several threads may write parts at the same time. Whatever exceeds the capacity of an array is
  // dropped.
  void write(const Part& part, const Offsets& offsets) const noexcept;

  // Call it after all parts. It writes the remaining pointers, and 0 in the padding of the coordinates. The last
  // pointer of each level is the true count.
  void finish() const;

  int64_t total() const { return totals_[layout_.count() - 1]; }

 private:
  template <class Index>
  void write_as(const Part& part, const Offsets& offsets) const;
  template <class Index>
  void finish_as() const;

  const Layout& layout_;
  const bool wide_;
  std::vector<IndexArray> pointers_, coordinates_;  // by level; empty if the level has none
  int64_t totals_[kMaxLevels] = {0};    // number of items, by level
  int64_t pointers_done_[kMaxLevels] = {0};
};

}  // namespace jsparse
