#include "sort/packing.h"

#include "sort/clones.h"

namespace jsparse {
namespace {

// Computes words[i] |= data[i] << shift, or sets all bits if data[i] is outside [0, size). As an unsigned number, a
// negative one is greater than every size.
template <class Unsigned, class T>
inline void append(const T* data, int64_t count, int64_t size, int shift, uint64_t* words) {
  const auto limit = static_cast<Unsigned>(size);
  for (int64_t i = 0; i < count; ++i) {
    const auto x = static_cast<Unsigned>(data[i]);
    const uint64_t outside = x < limit ? 0 : kOutside;
    words[i] |= (static_cast<uint64_t>(x) << shift) | outside;
  }
}

}  // namespace

JSPARSE_CLONES void pack(const Packing& packing, int64_t begin, int64_t count, uint64_t* words) {
  for (int64_t i = 0; i < count; ++i) words[i] = 0;
  for (size_t l = 0; l < packing.keys.size(); ++l) {
    const Key& key = packing.keys[l];
    const int shift = packing.shift[l];
    if (key.wide) {
      append<uint64_t>(static_cast<const int64_t*>(key.data) + begin, count, key.size, shift, words);
    } else if (key.size > INT32_MAX) {  // then only negative numbers are outside
      append<uint32_t>(static_cast<const int32_t*>(key.data) + begin, count, int64_t{1} << 31, shift, words);
    } else {
      append<uint32_t>(static_cast<const int32_t*>(key.data) + begin, count, key.size, shift, words);
    }
  }
}

}  // namespace jsparse
