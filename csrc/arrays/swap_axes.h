// Exchanges two axes of dense arrays.
#pragma once

#include <cstdint>

#include "kernel/abi.h"

namespace jsparse {

// Copies from[batch][rows][columns] to to[batch][columns][rows]. An element has 1, 2, 4, 8 or 16 bytes.
void swap_axes(Context* ctx, const char* from, char* to, int64_t batch, int64_t rows, int64_t columns, int64_t bytes);

}  // namespace jsparse
