// Checks whether index arrays are well formed. They may contain anything, because they may come from a program whose
// data nobody has checked.
#pragma once

#include <cstdint>

#include "kernel/abi.h"
#include "levels/layout.h"

namespace jsparse {

enum Fault : int32_t {
  kFaultPointers = 1,     // they do not start at 0, decrease, or have a length that does not fit the other levels
  kFaultCoordinates = 2,  // a coordinate is outside its dimension, or an empty run does not start at 0
  kFaultOrder = 4,        // coordinates do not increase within a parent, or a unique level repeats one
  kFaultOverflow = 8,     // there are more entries than the capacity
};

// Returns the sum of the faults, or 0. `slots` is the number of slots of the pattern, or kUnknown. If `exact`, capacity
// that is not in use is a fault of the pointers.
int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t slots, bool exact);

}  // namespace jsparse
