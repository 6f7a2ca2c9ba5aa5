// Computes coordinates from index arrays. The arrays may contain anything, because they may come from a program whose
// data nobody has checked.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/abi.h"
#include "levels/layout.h"

namespace jsparse {

// Writes the coordinate of each slot q < nse to rows[dim][q], in the type of the index arrays. If a position of the
// slot has no parent, or a coordinate is outside its dimension, it writes the size of the dimension. Null rows are
// skipped.
void expand(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows);

}  // namespace jsparse
