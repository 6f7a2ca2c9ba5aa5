// A check of pointers.
#pragma once

#include <atomic>
#include <cstdint>

#include "threads/loops.h"

namespace jsparse {

// Returns whether no pointer is less than the one before.
template <class Index>
bool rises(Context* ctx, const Index* pointers, int64_t parents) {
  std::atomic<bool> ok{true};
  slices(ctx, parents, slice_count(ctx, parents), [&](int64_t, int64_t begin, int64_t end) noexcept {
    bool mine = true;
    for (int64_t q = begin; q < end; ++q) mine &= pointers[q] <= pointers[q + 1];
    if (!mine) ok.store(false, std::memory_order_relaxed);
  });
  return ok.load();
}

}  // namespace jsparse
