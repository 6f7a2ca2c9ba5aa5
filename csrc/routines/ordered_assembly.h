// Finds the pattern and the values of a sum of products whose loops reach the entries in storage order.
#pragma once

#include "kernel/abi.h"

namespace jsparse {

// A routine (see routines/params.h). Its buffers are: the parameters of the new pattern; the table of its one term
// (terms.h); the factors; the index arrays of the input patterns; the index arrays of the result; and the values of the
// result, if there are any.
//
// The symbolic kernel writes counts [64], an upper bound of the number of entries of each chunk. The numeric kernel
// takes offsets [levels, 64], where each chunk begins to write in each level (-1: the chunk is skipped), and replaces
// them by where the chunk ends. It writes the ends [levels - 1, room] and the coordinates [levels, room] of items
// (join.h), and the values [room], if there are any.
int assemble_ordered(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
