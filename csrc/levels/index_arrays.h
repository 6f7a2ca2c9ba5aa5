// The index arrays of a pattern as functions read that trust nothing in them.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "levels/layout.h"
#include "threads/loops.h"

namespace jsparse {

// The index arrays by level, with the number of positions there is room for.
template <class Index>
struct Levels {
  const Index* pointers[kMaxLevels] = {nullptr};
  int64_t parents[kMaxLevels] = {0};  // that the pointers have room for
  const Index* coordinates[kMaxLevels] = {nullptr};
  int64_t positions[kMaxLevels] = {0};

  Levels(const Layout& layout, const IndexArrays& given) {
    size_t a = 0;
    int64_t above = 1;
    for (int l = 0; l < layout.count(); ++l) {
      if (layout.at(l).kind == kDense) {
        if (__builtin_mul_overflow(above, layout.at(l).size, &positions[l])) positions[l] = int64_t{1} << 62;
      } else {
        if (layout.at(l).kind == kCompressed) {
          pointers[l] = static_cast<const Index*>(given.arrays[a].data);
          parents[l] = std::max<int64_t>(0, std::min(given.arrays[a++].length - 1, above));
        }
        coordinates[l] = static_cast<const Index*>(given.arrays[a].data);
        positions[l] = given.arrays[a++].length;
      }
      above = positions[l];
    }
  }
};

template <class Index>
bool rises(Context* ctx, const Index* pointers, int64_t parents) {
  std::atomic<bool> ok{true};
  slices(ctx, parents, slice_count(ctx, parents), [&](int64_t, int64_t begin, int64_t end) {
    bool mine = true;
    for (int64_t q = begin; q < end; ++q) mine &= pointers[q] <= pointers[q + 1];
    if (!mine) ok.store(false, std::memory_order_relaxed);
  });
  return ok.load();
}

}  // namespace jsparse
