// From tuples in storage order to the index arrays of a format.
#pragma once

#include <cstdint>
#include <vector>

#include "levels/layout.h"
#include "sort/order.h"
#include "threads/loops.h"

namespace jsparse {

// How many positions each level gets, and where each unit of the tuples starts to count.
struct Counts {
  std::vector<int64_t> units;  // [unit][level + 1]: positions before it, per chain at its first level; last: tuples
  std::vector<int64_t> total;  // [level + 1]: of chains of coordinates; last: distinct tuples
  int stride = 0;
  const int64_t* before(size_t unit) const { return units.data() + unit * static_cast<size_t>(stride); }
};

Counts count_positions(Context* ctx, const Layout& layout, const Ordered& tuples);

// Where an assembly is written. Nothing is written beyond the lengths, and what has no place there is dropped.
struct Assembly {
  bool wide = false;               // the index arrays are int64
  std::vector<IndexArray> arrays;  // in the flat order of the format

  bool wide_places = false;        // so are the following, each of which may be missing
  int64_t slot_count = 0;          // slots from here on are dropped
  void* order = nullptr;           // [inputs]: the inputs by slot, then those without one
  IndexArray starts{nullptr, 0};   // [slots + 1]: the first of a slot's inputs in `order`
  void* slots = nullptr;           // [inputs], or -1

  // Shorter where few inputs share a slot: of each distinct tuple the first input and the slot, and of each other input
  // its number and which of the distinct tuples it repeats.
  void* first = nullptr;
  void* group_slots = nullptr;
  void* extra = nullptr;
  void* extra_group = nullptr;
};

void write_assembly(Context* ctx, const Layout& layout, const Ordered& tuples, const Counts& counts, Assembly* out);

}  // namespace jsparse
