#include "sort/ranks.h"

#include "sort/clones.h"

namespace jsparse {
namespace {

template <class Key>
inline void counted(const Key* keys, int64_t n, int32_t* ranks) {
  for (int64_t i = 0; i < n; ++i) {
    const Key key = keys[i];
    Key less = 0;
    for (int64_t b = 0; b < n; b += kRankBlock) {
      for (int64_t j = b; j < b + kRankBlock; ++j) less += keys[j] < key ? 1 : 0;
    }
    ranks[i] = static_cast<int32_t>(less);
  }
}

}  // namespace

JSPARSE_CLONES void count_less(const int32_t* keys, int64_t n, int32_t* ranks) { counted(keys, n, ranks); }
JSPARSE_CLONES void count_less(const int64_t* keys, int64_t n, int32_t* ranks) { counted(keys, n, ranks); }

}  // namespace jsparse
