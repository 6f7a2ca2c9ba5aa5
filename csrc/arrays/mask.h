// Masks of groups of 64 elements.
#pragma once

#include <cstdint>
#include <cstring>

namespace jsparse {

constexpr int64_t kMaskBits = 64;

// Returns a mask of 64 flags, each of which is 0 or 1.
inline uint64_t mask_of(const uint8_t* flags) {
  uint64_t mask = 0;
  for (int byte = 0; byte < 8; ++byte) {  // gathers the lowest bits of eight bytes
    uint64_t eight;
    std::memcpy(&eight, flags + 8 * byte, 8);
    mask |= ((eight * 0x0102040810204080ull) >> 56) << (8 * byte);
  }
  return mask;
}

}  // namespace jsparse
