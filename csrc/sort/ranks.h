// How many keys are less than each key: a sort of few keys without a branch that depends on them.
#pragma once

#include <cstdint>

namespace jsparse {

constexpr int64_t kRanked = 256;    // more keys are sorted faster digit by digit
constexpr int64_t kRankBlock = 16;  // the number of keys is a multiple of it

// Sets ranks[i] to the number of keys less than keys[i].
void count_less(const int32_t* keys, int64_t n, int32_t* ranks);
void count_less(const int64_t* keys, int64_t n, int32_t* ranks);

}  // namespace jsparse
