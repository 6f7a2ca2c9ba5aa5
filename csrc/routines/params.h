// The parameters of the routines: one array of int64, the routine's buffer 0. Version 1:
//
//   [0] version     1
//   [1] flags       1: index arrays are int64 (else int32)
//                   2: order, starts, slots and positions are int64 (else int32)
//                   4: the coordinates given, and what is drawn or numbered, are int64 (else int32)
//                   8: every buffer but this has a leading batch axis
//                   16: the order is descending (sort)
//                   32: numbers are compared by magnitude (largest)
//                   64: there are bools that say which numbers count (largest)
//                   128: the result is the sorted numbers, not their order (sort)
//   [2] batch       number of members of the batch; 1 if there is no batch axis
//   [3] inputs      number of inputs of each member (assemble, number) or of numbers (sort, largest), the capacity in
//                   positions (fit), else 0
//   [4] nse         number of slots, or of segments (sort, largest)
//   [5] bytes       size of a component of an element: 1, 2, 4 or 8 (nonzero, swap, sort, largest), else 0
//   [6] kind        type of the elements: 0 integers or booleans, 1 floating, 2 complex, 3 unsigned integers
//                   (nonzero, swap, sort, largest), else 0
//   [7] levels      number of levels
//   [8 + 4 l ...]   per level in storage order: kind (levels/level.h), dimension, unique, size
//
// The other buffers follow. `arrays` are the index arrays, level by level, padded to their capacity:
//
//   assemble   coords [ndim, inputs]; arrays..., order [inputs], starts [nse + 1], slots [inputs]
//   expand     arrays...; coords [ndim, nse]
//   nonzero    elements [...]; arrays..., positions [nse]
//   draw       key [2] uint32, sizes [rows]; numbers [rows, count]: the dimensions have the sizes rows, count
//   number     leading [...], numbers [inputs]; slots [inputs], kept [nse]: the dimension has the size of the range
//   swap       elements [..., rows, columns]; elements [..., columns, rows]
//   validate   arrays...; faults [] int32
//   sort       numbers [inputs], starts [nse + 1]; order or numbers [inputs], places [inputs] in a row as long as the level
//   largest    numbers [inputs], starts [nse + 1], k [] int32, valid [inputs] or none; kept [inputs], one byte each
//   check      arrays...; faults [] int32, arrays...: fails if there is a fault other than overflow; copies the arrays
//   fit        count []; faults [] int32: fails if a count of positions exceeds the capacity; the faults are 0
//
// A routine takes the lengths of the index arrays from their shapes. It never reads or writes outside the arrays,
// whatever they contain.
#pragma once

#include "arrays/nonzero.h"
#include "kernel/abi.h"
#include "levels/layout.h"

namespace jsparse {

constexpr int64_t kParamsVersion = 1;
constexpr int64_t kParamsHead = 8;

struct Params {
  bool wide, wide_slots, wide_coordinates, batched, descending, by_magnitude, has_valid, gives_numbers;
  int64_t batch, inputs, nse;
  Element element;
  bool is_unsigned;
  Layout layout;

  // Returns null, or the reason why the parameters are invalid. `only_read`: the routine makes no index arrays.
  const char* read(const int64_t* p, int64_t length, bool only_read) {
    if (length < kParamsHead || p[0] != kParamsVersion) return "expected routine parameters of version 1";
    const int64_t flags = p[1];
    wide = (flags & 1) != 0, wide_slots = (flags & 2) != 0, wide_coordinates = (flags & 4) != 0;
    batched = (flags & 8) != 0, descending = (flags & 16) != 0, by_magnitude = (flags & 32) != 0;
    has_valid = (flags & 64) != 0, gives_numbers = (flags & 128) != 0;
    batch = p[2], inputs = p[3], nse = p[4];
    if (batch < 0 || inputs < 0 || nse < 0 || (!batched && batch != 1)) return "expected counts of at least 0";
    if (p[6] < 0 || p[6] > 3) return "expected elements that are integers, floating, complex or unsigned integers";
    element = {p[5], p[6] == 2 ? 2 : 1, p[6] == 1 || p[6] == 2};
    is_unsigned = p[6] == 3;
    if (p[7] < 0 || p[7] > kMaxLevels || length != kParamsHead + 4 * p[7]) return "expected four parameters for each level";
    for (int64_t l = 0; l < p[7]; ++l) {
      const int64_t* level = p + kParamsHead + 4 * l;
      layout.levels.push_back({level[0], level[1], level[2] != 0, level[3]});
    }
    return layout.prepare(only_read);
  }

  // Returns the number of elements of a dense array of this shape, or -1 if it exceeds 64 bits.
  int64_t size() const {
    int64_t size = 1;
    for (const LevelOf& level : layout.levels) {
      if (level.size == 0) return 0;
      if (size >= 0 && __builtin_mul_overflow(size, level.size, &size)) size = -1;
    }
    return size;
  }
};

// Returns the routine of that name, or null.
Kernel find_routine(const char* name);

}  // namespace jsparse
