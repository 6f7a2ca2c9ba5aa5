// From index arrays back to coordinates, and whether index arrays are well formed. Both take any content: an index array
// may come from a program whose data nobody has checked.
#pragma once

#include <cstdint>
#include <vector>

#include "layout.h"
#include "workers.h"

namespace jsparse {

struct IndexArrays {
  bool wide = false;  // int64
  std::vector<IndexArray> arrays;
};

// rows[dim][q] = the coordinate of slot q for q < nse, of the type of the index arrays; the size of the dimension where no
// parent claims the slot's positions or a coordinate lies outside. Null rows are left out.
void expand(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t nse, const std::vector<void*>& rows);

enum Fault : int32_t {
  kFaultPointers = 1,     // do not start at 0 or decrease, or have not the length that follows from the levels above
  kFaultCoordinates = 2,  // outside their dimension
  kFaultOrder = 4,        // not increasing within a parent, or repeated where unique
  kFaultOverflow = 8,     // more entries than there is room for
};

// The faults found; 0 if there are none. With `exact`, coordinates that no pointer covers are a fault of the pointers.
int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, bool exact);

}  // namespace jsparse
