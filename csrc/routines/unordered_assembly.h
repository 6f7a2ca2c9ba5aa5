// Finds the pattern of a sum of products: the kernels list the coordinates that its terms reach, in any order, and the
// columns are sorted.
#pragma once

#include "kernel/abi.h"

namespace jsparse {

// A routine (see routines/params.h). Its buffers are: the parameters of the new pattern; the table of terms (terms.h),
// without factors; the index arrays of the input patterns, term by term; and the index arrays of the result.
//
// The symbolic kernel writes counts [64], the number of columns of coordinates of each chunk. The other kernel takes
// offsets [64], where the columns of each chunk begin (-1: the chunk is skipped), and replaces them by where they end.
// It writes the coordinates [ndim, columns].
int assemble_unordered(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
