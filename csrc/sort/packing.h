// Coordinate tuples packed into words. The order of the words is the lexicographic order of the tuples.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sort/key.h"

namespace jsparse {

constexpr uint64_t kOutside = ~uint64_t{0};  // a tuple that is left out; packed tuples have at most 63 bits
constexpr int64_t kPackedBlock = 512;        // tuples packed at a time, level by level

inline int bits_for(int64_t size) {  // number of bits that distinguish `size` values
  int bits = 0;
  while (bits < 63 && (int64_t{1} << bits) < size) ++bits;
  return bits;
}

struct Packing {
  std::vector<Key> keys;
  std::vector<int> shift;  // lowest bit of each level's coordinate in the word
};

// Packs the inputs [begin, begin + count). An input with a coordinate outside its size becomes kOutside.
void pack(const Packing& packing, int64_t begin, int64_t count, uint64_t* words);

// Calls f(input, tuple) for each input of [begin, end) that is not left out.
template <class F>
void for_each_packed(const Packing& packing, int64_t begin, int64_t end, const F& f) {
  uint64_t words[kPackedBlock];
  for (int64_t b = begin; b < end; b += kPackedBlock) {
    const int64_t stop = std::min(b + kPackedBlock, end);
    pack(packing, b, stop - b, words);
    for (int64_t i = b; i < stop; ++i) {
      if (words[i - b] != kOutside) f(i, words[i - b]);
    }
  }
}

}  // namespace jsparse
