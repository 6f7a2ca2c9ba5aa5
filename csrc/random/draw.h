// Random samples without replacement.
#pragma once

#include <cstdint>

#include "kernel/abi.h"

namespace jsparse {

struct Draw {
  const uint32_t* key;  // [2]
  bool wide;            // sizes and chosen are int64 (else int32)
  const void* sizes;    // [rows]
  void* chosen;         // [rows][count]
  int64_t rows, count;
};

// Draws `count` distinct numbers below the size of each row, each set with equal probability. A row whose size is at most
// `count` gets 0, 1, ..., count - 1. Draw j of row i uses the bits of (i, j), modulo 2^32.
void draw(Context* ctx, const Draw& draw);

}  // namespace jsparse
