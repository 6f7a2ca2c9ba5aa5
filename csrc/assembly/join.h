// Levels that several chunks wrote, each its part, joined to the index arrays of a format.
#pragma once

#include <cstdint>
#include <vector>

#include "levels/layout.h"

namespace jsparse {

// What one chunk wrote: for each level, in the order of storage, items one behind the other. An item is a coordinate
// and, above the last level, where its items in the next level end; it has at least one. All items of the outermost
// level come after those of the chunk before.
struct Part {
  const char* coordinates;  // [level][room], int32 or int64
  const int64_t* ends;      // [level][room], but for the last level
  int64_t room;
  int64_t start;  // of the chunk's items, in every level
  int64_t count[kMaxLevels];
};

class Join {
 public:
  Join(const Layout& layout, bool wide, std::vector<IndexArray> arrays);

  // Where a part goes.
  struct Place {
    int64_t items[kMaxLevels];     // before it, of each level
    int64_t pointers[kMaxLevels];  // written before it, of each compressed level
  };

  // The place behind all parts so far. To be called part by part, in order.
  Place next(const Part& part);

  // Writes a part. Several may be written at the same time. What exceeds an array is dropped.
  void write(const Part& part, const Place& place) const;

  // Behind all parts: the pointers that are left, the true count in the last of each level; coordinates are padded by 0.
  void finish() const;

  int64_t total() const { return totals_[layout_.count() - 1]; }

 private:
  template <class Index>
  void write_as(const Part& part, const Place& place) const;
  template <class Index>
  void finish_as() const;

  const Layout& layout_;
  const bool wide_;
  std::vector<IndexArray> pointers_, coordinates_;  // of each level that has them
  int64_t totals_[kMaxLevels] = {0};    // items of each level
  int64_t pointers_done_[kMaxLevels] = {0};
};

}  // namespace jsparse
