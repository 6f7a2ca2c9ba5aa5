// Finds the pattern and the values of a sum of products whose loops reach the entries in storage order.
#pragma once

#include "kernel/abi.h"

namespace jsparse {

// A routine (see routines/params.h). Its buffers: the parameters of the pattern to be made; the table of its one term
// (terms.h); factors; index arrays of the patterns that are walked; the index arrays to be written; values, if there
// are any.
//
// The kernel that counts writes counts [64]: how many entries each of its chunks may have at most. The other takes
// offsets [levels, 64], where each chunk begins to write in each level (-1: it is left out), which become where it
// ends; the ends [levels - 1, room] and coordinates [levels, room] of items (join.h); and, if there are any, values
// [room].
int assemble_ordered(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
