#include "sort/segments.h"

#include "threads/loops.h"

namespace jsparse {

Shares shares_of(Context* ctx, const Segments& given) {
  Shares found;
  const int64_t least = std::max(kSerial / 2, given.count / slice_count(ctx, given.count));
  int64_t at = 0;
  Share share{0, 0, 0};
  for (int64_t s = 0; s < given.segments; ++s) {
    const int64_t begin = std::max(at, given.start(s)), end = std::max(begin, given.start(s + 1));
    if (end - begin > kLongSegment) {
      found.long_segments.push_back(begin);
      found.long_segments.push_back(end);
    } else {
      found.longest = std::max(found.longest, end - begin);
    }
    at = end;
    if (at - share.begin >= least) {
      found.shares.push_back({share.first, s + 1, share.begin});
      share = {s + 1, s + 1, at};
    }
  }
  if (share.first < given.segments) found.shares.push_back({share.first, given.segments, share.begin});
  found.end = at;
  return found;
}

}  // namespace jsparse
