// A short image of a long array: different arrays have different images.
#pragma once

#include <cstdint>

#include "threads/loops.h"

namespace jsparse {

constexpr int64_t kImageBlock = 4096;  // bytes per block
constexpr int64_t kImageBytes = 64;    // bytes of the image of a block

inline int64_t image_blocks(int64_t bytes) { return (bytes + kImageBlock - 1) / kImageBlock; }

// Writes the image of each block of data[0 .. bytes), kImageBytes each. Two different blocks have equal images with
// probability 2**-256, unless somebody chose them knowing the fixed keys. A caller that hashes the images must hash
// the length, too.
void image(Context* ctx, const uint8_t* data, int64_t bytes, uint8_t* out);

}  // namespace jsparse
