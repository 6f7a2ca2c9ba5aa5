// NH, the compression function of UMAC and VMAC (Black et al., 1999), on 64-bit words: the sum of (a + k)(b + k') over
// the pairs of a block, modulo 2**128. We take four such sums
// with shifted keys, so the chances of a collision, 2**-64 each, multiply. No step depends on the one before, so the
// function is as fast as memory.
#include "arrays/fingerprint.h"

#include <array>
#include <cstring>

namespace jsparse {
namespace {

constexpr int64_t kWords = kImageBlock / 8;
constexpr int kSums = static_cast<int>(kImageBytes / 16);

__extension__ using Wide = unsigned __int128;

std::array<uint64_t, kWords + 2 * (kSums - 1)> make_keys() {  // splitmix64
  std::array<uint64_t, kWords + 2 * (kSums - 1)> keys{};
  uint64_t state = 0x243f6a8885a308d3;
  for (uint64_t& key : keys) {
    uint64_t z = (state += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    key = z ^ (z >> 31);
  }
  return keys;
}

void image_of_block(const uint64_t* keys, const uint8_t* block, uint8_t* out) {
  Wide sums[kSums] = {0};
  for (int64_t w = 0; w < kWords; w += 2) {
    uint64_t pair[2];
    std::memcpy(pair, block + 8 * w, 16);
    for (int s = 0; s < kSums; ++s) {
      sums[s] += static_cast<Wide>(pair[0] + keys[w + 2 * s]) * (pair[1] + keys[w + 2 * s + 1]);
    }
  }
  std::memcpy(out, sums, kImageBytes);
}

}  // namespace

void image(Context* ctx, const uint8_t* data, int64_t bytes, uint8_t* out) {
  static const auto keys = make_keys();
  constexpr int64_t kPerEntry = 64;  // so many bytes take as long as an entry of other loops
  const int64_t blocks = image_blocks(bytes);
  slices(ctx, blocks, slice_count(ctx, bytes / kPerEntry), [&](int64_t, int64_t begin, int64_t end) noexcept {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t size = std::min(bytes - b * kImageBlock, kImageBlock);
      if (size == kImageBlock) {
        image_of_block(keys.data(), data + b * kImageBlock, out + b * kImageBytes);
        continue;
      }
      uint8_t block[kImageBlock] = {0};
      std::memcpy(block, data + b * kImageBlock, static_cast<size_t>(size));
      image_of_block(keys.data(), block, out + b * kImageBytes);
    }
  });
}

}  // namespace jsparse
