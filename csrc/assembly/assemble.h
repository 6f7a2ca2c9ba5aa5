// Makes the index arrays of a format from tuples in storage order.
#pragma once

#include <cstdint>
#include <vector>

#include "levels/layout.h"
#include "sort/order.h"
#include "threads/loops.h"

namespace jsparse {

// The number of positions of each level, and how many of them come before each unit of the tuples. The number of a
// chain of levels is at the index of its first level. The number of distinct tuples comes after those of the levels.
struct Counts {
  std::vector<int64_t> units;  // [unit][level + 1]: before the unit
  std::vector<int64_t> total;  // [level + 1]: in all
  int stride = 0;
  const int64_t* before(size_t unit) const { return units.data() + unit * static_cast<size_t>(stride); }
};

Counts count_positions(Context* ctx, const Layout& layout, const Ordered& tuples);

// The arrays that an assembly writes. Whatever exceeds the length of an array is dropped.
struct Assembly {
  bool wide = false;               // the index arrays are int64
  std::vector<IndexArray> arrays;  // level by level

  bool wide_slots = false;         // the following arrays are int64 (else int32); each of them may be null
  int64_t slot_count = 0;          // slots from this one on are dropped
  void* order = nullptr;           // [inputs]: the inputs sorted by slot, then those without a slot
  IndexArray starts{nullptr, 0};   // [slots + 1]: where the inputs of each slot begin in `order`
  void* slots = nullptr;           // [inputs]: the slot of each input, or -1

  // These arrays say the same in less memory if few inputs share a slot. `first` and `group_slots` have the first input
  // and the slot of each distinct tuple. `extra` and `extra_group` have the number of each further input, and the
  // number of the distinct tuple that it repeats.
  void* first = nullptr;
  void* group_slots = nullptr;
  void* extra = nullptr;
  void* extra_group = nullptr;
};

void write_assembly(Context* ctx, const Layout& layout, const Ordered& tuples, const Counts& counts, Assembly* out);

}  // namespace jsparse
