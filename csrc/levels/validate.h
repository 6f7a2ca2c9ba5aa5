// Whether index arrays are well formed. They may hold anything: they may come from a program whose data nobody has
// checked.
#pragma once

#include <cstdint>

#include "kernel/abi.h"
#include "levels/layout.h"

namespace jsparse {

enum Fault : int32_t {
  kFaultPointers = 1,     // they do not start at 0, or decrease, or their length is not what the levels around require
  kFaultCoordinates = 2,  // outside their dimension; or an empty run does not start at 0
  kFaultOrder = 4,        // coordinates do not increase within a parent, or a unique level repeats one
  kFaultOverflow = 8,     // there are more entries than there is room for
};

// The faults found; 0 if there are none. `slots` is how many slots the pattern has, or kUnknown. With `exact`, room
// that no entry takes is a fault of the pointers.
int32_t find_faults(Context* ctx, const Layout& layout, const IndexArrays& given, int64_t slots, bool exact);

}  // namespace jsparse
