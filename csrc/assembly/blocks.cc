// The first pass counts the blocks of each row of blocks, the second one numbers them. A slice has one mark for each
// column of blocks: the last row of blocks that reached it, then the number of its block. The columns of a row mostly
// rise, so an entry is compared with the block of the entry before it first.
#include "assembly/blocks.h"

#include <algorithm>
#include <atomic>

namespace jsparse {

template <class Index>
int64_t Blocking<Index>::slice_count() const {
  if (n < kSerial) return 1;
  return std::max<int64_t>(1, std::min<int64_t>({16, block_rows(), 2 * n / std::max<int64_t>(block_columns(), 1)}));
}

// Calls f with the column of each block of a row of blocks, once.
template <class Index>
template <class F>
void Blocking<Index>::for_blocks(Index* marks, int64_t row_of_blocks, const F& f) const {
  const int64_t last_row = std::min(rows, (row_of_blocks + 1) * height);
  const auto mark = static_cast<Index>(row_of_blocks + 1);
  int64_t first = 0;
  int64_t room = 0;
  for (int64_t p = pointers[row_of_blocks * height]; p < pointers[last_row]; ++p) {
    if (static_cast<uint64_t>(columns[p] - first) < static_cast<uint64_t>(room)) continue;
    const int64_t block = columns[p] / width;
    first = block * width;
    room = width;
    if (marks[block] != mark) {
      marks[block] = mark;
      f(static_cast<Index>(block));
    }
  }
}

template <class Index>
bool Blocking<Index>::count(Context* ctx, Index* block_pointers) const {
  if (pointers[0] != 0 || pointers[rows] != n) return false;
  for (int64_t r = 0; r < rows; ++r) {
    if (pointers[r] > pointers[r + 1]) return false;
  }
  const int64_t across = block_columns(), count = slice_count();
  const Scratch<Index> marks(count * across);
  std::atomic<bool> inside{true};
  slices(ctx, block_rows(), count, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    Index* mine = marks.get() + t * across;
    std::fill(mine, mine + across, Index{0});
    bool valid = true;
    for (int64_t p = pointers[begin * height]; p < pointers[std::min(rows, end * height)]; ++p) {
      valid &= columns[p] >= 0 && columns[p] < column_count;
    }
    if (!valid) return inside.store(false, std::memory_order_relaxed);
    for (int64_t b = begin; b < end; ++b) {
      Index blocks = 0;
      for_blocks(mine, b, [&](Index) { ++blocks; });
      block_pointers[b + 1] = blocks;
    }
  });
  if (!inside.load()) return false;
  block_pointers[0] = 0;
  for (int64_t b = 0; b < block_rows(); ++b) block_pointers[b + 1] += block_pointers[b];
  return true;
}

template <class Index>
template <class Slot>
void Blocking<Index>::write(Context* ctx, const Index* block_pointers, Index* block_columns, Slot* slots) const {
  const int64_t across = this->block_columns(), count = slice_count();
  const Scratch<Index> marks(count * across);
  slices(ctx, block_rows(), count, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    Index* mine = marks.get() + t * across;
    std::fill(mine, mine + across, Index{0});
    for (int64_t b = begin; b < end; ++b) {
      Index* const found = block_columns + block_pointers[b];
      Index* const found_end = block_columns + block_pointers[b + 1];
      Index* next = found;
      for_blocks(mine, b, [&](Index block) { *next++ = block; });
      std::sort(found, found_end);
      for (const Index* at = found; at != found_end; ++at) mine[*at] = static_cast<Index>(at - block_columns);
      for (int64_t r = b * height; r < std::min(rows, (b + 1) * height); ++r) {
        int64_t first = 0, room = 0, slot = 0;
        for (int64_t p = pointers[r]; p < pointers[r + 1]; ++p) {
          if (static_cast<uint64_t>(columns[p] - first) >= static_cast<uint64_t>(room)) {
            const int64_t block = columns[p] / width;
            first = block * width;
            room = width;
            slot = (mine[block] * height + r - b * height) * width;
          }
          slots[p] = static_cast<Slot>(slot + columns[p] - first);
        }
      }
      for (const Index* at = found; at != found_end; ++at) mine[*at] = 0;
    }
  });
}

template struct Blocking<int32_t>;
template struct Blocking<int64_t>;
template void Blocking<int32_t>::write(Context*, const int32_t*, int32_t*, int32_t*) const;
template void Blocking<int32_t>::write(Context*, const int32_t*, int32_t*, int64_t*) const;
template void Blocking<int64_t>::write(Context*, const int64_t*, int64_t*, int64_t*) const;

}  // namespace jsparse
