// Whether index arrays are well formed. They may hold anything: they may come from a program whose data nobody has
// checked.
#pragma once

#include <cstdint>

#include "kernel/abi.h"
#include "levels/layout.h"

namespace jsparse {

enum Fault : int32_t {
  kFaultPointers = 1,     // do not start at 0 or decrease, or have not the length that follows from the levels above
  kFaultCoordinates = 2,  // outside their dimension
  kFaultOrder = 4,        // not increasing within a parent, or repeated where unique
  kFaultOverflow = 8,     // more entries than there is room for
};

// The faults found; 0 if there are none. With `exact`, coordinates that no pointer covers are a fault of the pointers.
int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, bool exact);

}  // namespace jsparse
