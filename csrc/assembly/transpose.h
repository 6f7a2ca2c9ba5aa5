// Finds the transposed index of a matrix, by counting.
#pragma once

#include <cstdint>

#include "threads/loops.h"

namespace jsparse {

// n entries with keys in [0, size), sorted by their rows, get grouped by key, in their order within each group.
// The rows are listed in `rows`, or, where that is null, those of a compressed level: `row_pointers`, `row_count` of
// them and one more. Out: pointers [size + 1], the rows and the numbers of the entries in the new order. Returns false
// if a key is outside, or the pointers do not rise from 0 to n.
template <class Index>
struct Transposition {
  const Index* keys;
  int64_t n;
  int64_t size;
  const Index* rows;
  const Index* row_pointers;
  int64_t row_count;
  Index* pointers;
  Index* out_rows;
  Index* numbers;

  bool run(Context* ctx) const;
};

}  // namespace jsparse
