// The first pass counts the entries of each group, the second one moves the entries. Every slice of the entries has
// counts of its own. Its share of a group comes after the shares of the slices before it, so the result does not depend
// on the number of slices.
#include "assembly/transpose.h"

#include <atomic>
#include <utility>

#include "memory/scratch.h"

namespace jsparse {

template <class Index>
bool Transposition<Index>::run(Context* ctx) const {
  if (rows == nullptr) {
    if (row_pointers[0] != 0 || row_pointers[row_count] != n) return false;
    for (int64_t r = 0; r < row_count; ++r) {
      if (row_pointers[r] > row_pointers[r + 1]) return false;
    }
  }
  const int64_t threads = n < kSerial ? 1 : std::max<int64_t>(1, std::min<int64_t>(ctx->num_threads, 16));
  const int64_t count = std::max<int64_t>(1, std::min(threads, 2 * n / std::max<int64_t>(size, 1)));
  const Scratch<Index> next(count * size);
  std::atomic<bool> inside{true};
  slices(ctx, n, count, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    Index* mine = next.get() + t * size;
    std::fill(mine, mine + size, Index{0});
    for (int64_t p = begin; p < end; ++p) {
      if (keys[p] < 0 || keys[p] >= size) return inside.store(false, std::memory_order_relaxed);
      ++mine[keys[p]];
    }
  });
  if (!inside.load()) return false;
  Index sum = 0;
  for (int64_t k = 0; k < size; ++k) {
    pointers[k] = sum;
    for (int64_t t = 0; t < count; ++t) sum += std::exchange(next[t * size + k], sum);
  }
  pointers[size] = sum;
  slices(ctx, n, count, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    Index* mine = next.get() + t * size;
    if (rows != nullptr) {
      for (int64_t p = begin; p < end; ++p) {
        const Index to = mine[keys[p]]++;
        out_rows[to] = rows[p];
        numbers[to] = static_cast<Index>(p);
      }
      return;
    }
    int64_t row = std::upper_bound(row_pointers, row_pointers + row_count + 1, begin) - row_pointers - 1;
    for (int64_t p = begin; p < end; ++row) {
      const int64_t stop = std::min<int64_t>(end, row_pointers[row + 1]);
      for (; p < stop; ++p) {
        const Index to = mine[keys[p]]++;
        out_rows[to] = static_cast<Index>(row);
        numbers[to] = static_cast<Index>(p);
      }
    }
  });
  return true;
}

template struct Transposition<int32_t>;
template struct Transposition<int64_t>;

}  // namespace jsparse
