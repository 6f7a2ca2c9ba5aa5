// Finds the blocks of a matrix, by marking the columns of blocks that the rows of one row of blocks reach.
#pragma once

#include <cstdint>

#include "memory/scratch.h"
#include "threads/loops.h"

namespace jsparse {

// Groups the entries of a matrix into blocks of `height` rows and `width` columns. `pointers` [rows + 1] and `columns`
// are its levels (dense, compressed), with columns in [0, column_count). The blocks are sorted by row, then by column.
template <class Index>
struct Blocking {
  const Index* pointers;
  const Index* columns;
  int64_t rows, column_count, n, height, width;

  int64_t block_rows() const { return (rows + height - 1) / height; }
  int64_t block_columns() const { return (column_count + width - 1) / width; }

  // Writes the pointers of the rows of blocks, [block_rows() + 1]. Returns false if a column is outside its range, or if
  // the pointers do not rise from 0 to n.
  bool count(Context* ctx, Index* block_pointers) const;

  // Writes the columns of the blocks, and for each entry its slot: blocks are dense, and follow one another.
  template <class Slot>
  void write(Context* ctx, const Index* block_pointers, Index* block_columns, Slot* slots) const;

 private:
  int64_t slice_count() const;
  template <class F>
  void for_blocks(Index* marks, int64_t row_of_blocks, const F& f) const;
};

}  // namespace jsparse
