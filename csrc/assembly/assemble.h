// From tuples in storage order to the index arrays of a format.
#pragma once

#include <cstdint>
#include <vector>

#include "levels/layout.h"
#include "sort/order.h"
#include "threads/loops.h"

namespace jsparse {

// How many positions each level gets, and how many of them come before each unit of the tuples.
struct Counts {
  std::vector<int64_t> units;  // [unit][level + 1]: positions before the unit, of a chain at its first level, and tuples
  std::vector<int64_t> total;  // [level + 1]: positions in all, of a chain at its first level, and distinct tuples
  int stride = 0;
  const int64_t* before(size_t unit) const { return units.data() + unit * static_cast<size_t>(stride); }
};

Counts count_positions(Context* ctx, const Layout& layout, const Ordered& tuples);

// Where an assembly is written. Nothing is written beyond the lengths: what does not fit is dropped.
struct Assembly {
  bool wide = false;               // the index arrays are int64
  std::vector<IndexArray> arrays;  // level by level

  bool wide_slots = false;         // the following arrays are int64; each of them may be null
  int64_t slot_count = 0;          // slots from this one on are dropped
  void* order = nullptr;           // [inputs]: the inputs by slot, then those without one
  IndexArray starts{nullptr, 0};   // [slots + 1]: the first of a slot's inputs in `order`
  void* slots = nullptr;           // [inputs], or -1

  // A shorter form, if few inputs share a slot: the first input and the slot of each distinct tuple; and for each
  // further input, its number and that of the distinct tuple which it repeats.
  void* first = nullptr;
  void* group_slots = nullptr;
  void* extra = nullptr;
  void* extra_group = nullptr;
};

void write_assembly(Context* ctx, const Layout& layout, const Ordered& tuples, const Counts& counts, Assembly* out);

}  // namespace jsparse
