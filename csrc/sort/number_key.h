// Numbers as unsigned integers in the same order.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

namespace jsparse {

template <class T>
using KeyOf = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;

// Returns the key of x: the order of keys is the order of numbers. 0 and -0 have one key, and every NaN has the largest.
// With kMagnitude, keys are in the order of |x|, and the least integer has the magnitude that no integer has.
template <bool kMagnitude, class T>
KeyOf<T> key_of(T x) {
  using Key = KeyOf<T>;
  using Signed = std::make_signed_t<Key>;
  constexpr Key kSign = Key{1} << (8 * sizeof(T) - 1);
  if constexpr (std::is_floating_point_v<T>) {
    constexpr Signed kInf = sizeof(T) == 4 ? Signed{0x7f800000} : static_cast<Signed>(uint64_t{0x7ff} << 52);
    Signed bits;
    std::memcpy(&bits, &x, sizeof x);
    const Signed size = bits & static_cast<Signed>(~kSign), negative = bits >> (8 * sizeof(T) - 1);
    if (kMagnitude) return static_cast<Key>(size > kInf ? kInf + 1 : size);
    const Signed key = (size ^ negative) - negative;
    return static_cast<Key>(size > kInf ? std::numeric_limits<Signed>::max() : key) ^ kSign;
  } else if constexpr (std::is_signed_v<T>) {
    if (kMagnitude) return x < 0 ? Key{0} - static_cast<Key>(x) : static_cast<Key>(x);
    return static_cast<Key>(x) ^ kSign;
  } else {
    return x;
  }
}

}  // namespace jsparse
