// Finds the transposed index of a matrix, by counting.
#pragma once

#include <cstdint>

#include "threads/loops.h"

namespace jsparse {

// Groups n entries by their keys, which lie in [0, size). The entries are sorted by row, and stay sorted within each
// group. `rows` holds the row of each entry. If it is null, `row_pointers` [row_count + 1] are the pointers of a
// compressed level of rows. The results are pointers [size + 1], and the rows and the numbers of the entries in the new
// order. Returns false if a key is outside its range, or if the pointers do not rise from 0 to n.
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
