// Finds the permutation that sorts coordinate tuples lexicographically.
#pragma once

#include <cstdint>
#include <vector>

#include "kernel/abi.h"
#include "sort/key.h"

namespace jsparse {

// Writes the stable permutation that sorts n tuples lexicographically. Returns the index of a tuple with a coordinate
// outside its size, if there is one (then `out` is unspecified), else -1.
int64_t lexsort(Context* ctx, const std::vector<Key>& keys, int64_t n, int64_t* out);

}  // namespace jsparse
