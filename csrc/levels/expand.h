// From index arrays back to coordinates. The arrays may hold anything: they may come from a program whose data nobody
// has checked.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/abi.h"
#include "levels/layout.h"

namespace jsparse {

// rows[dim][q] = the coordinate of slot q for q < nse, of the type of the index arrays; the size of the dimension where
// no parent claims the slot's positions or a coordinate lies outside. Null rows are left out.
void expand(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows);

}  // namespace jsparse
