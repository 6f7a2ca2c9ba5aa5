// Random bits that depend on a key and on the number of the draw, and on nothing else.
#pragma once

#include <cstdint>

namespace jsparse {

// Returns 64 random bits: Threefry-2x32 with 20 rounds, as jax.random has it (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011). The first word of the result is in the high half.
inline uint64_t threefry(const uint32_t key[2], uint32_t a, uint32_t b) {
  const uint32_t keys[3] = {key[0], key[1], 0x1BD11BDAu ^ key[0] ^ key[1]};
  const int rotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  a += keys[0];
  b += keys[1];
  for (uint32_t round = 0; round < 5; ++round) {
    for (const int by : rotations[round % 2]) {
      a += b;
      b = ((b << by) | (b >> (32 - by))) ^ a;
    }
    a += keys[(round + 1) % 3];
    b += keys[(round + 2) % 3] + round + 1;
  }
  return (static_cast<uint64_t>(a) << 32) | b;
}

}  // namespace jsparse
