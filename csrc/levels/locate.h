// Finds entries by their coordinates. The index arrays may contain anything, as for expand.h.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/abi.h"
#include "levels/layout.h"
#include "sort/key.h"

namespace jsparse {

// Writes to slots[n] the slot of the entry at the n-th of `count` points. It writes -1 where no entry is stored, and
// where a coordinate is outside its dimension. `points` has the coordinates for each dimension, and the size of the
// dimension as the key's size. `slots` is int64 if `wide`, else int32.
void locate(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<Key>& points,
            int64_t count, void* slots, bool wide);

}  // namespace jsparse
