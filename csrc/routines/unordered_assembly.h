// Finds the pattern of a sum of products: the kernels list the coordinates that its terms reach, in any order, and the
// columns are sorted.
#pragma once

#include "kernel/abi.h"

namespace jsparse {

// A routine (see routines/params.h). Its buffers: the parameters of the pattern to be made; the table of terms
// (terms.h), without factors; index arrays of the patterns that each term walks, term by term; the index arrays to be
// written.
//
// The kernel that counts writes counts [64]: how many columns of coordinates each of its chunks reaches. The other
// takes offsets [64], where the columns of each chunk begin (-1: the chunk is left out), which become where they end,
// and the coordinates [ndim, columns].
int assemble_unordered(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
