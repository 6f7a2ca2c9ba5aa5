// Joins the parts of an assembled result, which one chunk each has written, to the index arrays of a format.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "levels/layout.h"

namespace jsparse {

// What one chunk has written: the items of each level, one behind the other in storage order. An item is a coordinate
// and, above the last level, where the items below it end; there is at least one below it. In the outermost level, all
// items of a chunk come behind those of the chunk before.
struct Part {
  const char* coordinates;  // [level][room], int32 or int64
  const int64_t* ends;      // [level][room], but for the last level
  int64_t room;
  int64_t start;  // of the chunk's items, in every level
  int64_t count[kMaxLevels];
};

class Join {
 public:
  // Whether parts can be joined to these levels: chunks write coordinates, and no runs of them.
  static bool suits(const Layout& layout) {
    return std::none_of(layout.levels.begin(), layout.levels.end(), [](const LevelOf& l) { return l.traits().starts; });
  }

  Join(const Layout& layout, bool wide, std::vector<IndexArray> arrays);

  // Where a part is written.
  struct Offsets {
    int64_t items[kMaxLevels];     // before it, of each level
    int64_t pointers[kMaxLevels];  // written before it, of each compressed level
  };

  // Where this part is written. Call it for each part, in order.
  Offsets next(const Part& part);

  // Writes a part. Several threads may write parts at the same time. What an array has no room for is dropped.
  void write(const Part& part, const Offsets& offsets) const;

  // Call it behind all parts. It writes the pointers that are left, the last one of each level being the true count,
  // and pads coordinates by 0.
  void finish() const;

  int64_t total() const { return totals_[layout_.count() - 1]; }

 private:
  template <class Index>
  void write_as(const Part& part, const Offsets& offsets) const;
  template <class Index>
  void finish_as() const;

  const Layout& layout_;
  const bool wide_;
  std::vector<IndexArray> pointers_, coordinates_;  // of each level that has them
  int64_t totals_[kMaxLevels] = {0};    // items of each level
  int64_t pointers_done_[kMaxLevels] = {0};
};

}  // namespace jsparse
