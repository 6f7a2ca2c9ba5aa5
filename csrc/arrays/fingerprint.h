// A short image of a long array: different arrays have different images.
#pragma once

#include <cstdint>

#include "threads/loops.h"

namespace jsparse {

constexpr int64_t kImageBlock = 4096;  // bytes per block
constexpr int64_t kImageBytes = 64;    // of its image

inline int64_t image_blocks(int64_t bytes) { return (bytes + kImageBlock - 1) / kImageBlock; }

// The images of the blocks of data[0 .. bytes), kImageBytes each. For blocks that were not chosen against the fixed
// keys, the chance that two different ones agree is 2**-256; whatever hashes the images has to hash the length as well.
void image(Context* ctx, const uint8_t* data, int64_t bytes, uint8_t* out);

}  // namespace jsparse
