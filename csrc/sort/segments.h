// Segments of an array of numbers: the sorted order of each segment, and its largest numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "kernel/abi.h"

namespace jsparse {

enum class NumberKind { kSigned, kFloating, kUnsigned };

// Numbers of 4 or 8 bytes, and the segments into which they are divided. Segment s has the numbers from starts[s] to
// starts[s + 1]. Starts that decrease or exceed the number of numbers do no harm: segments never overlap.
struct Segments {
  const void* numbers;
  int64_t count;  // of numbers
  NumberKind kind;
  bool wide_numbers;  // 8 bytes
  const void* starts;
  bool wide_starts;  // int64, else int32
  int64_t segments;

  int64_t start(int64_t s) const {
    const int64_t at = wide_starts ? static_cast<const int64_t*>(starts)[s] : static_cast<const int32_t*>(starts)[s];
    return std::max<int64_t>(0, std::min(at, count));
  }
};

// Consecutive segments, from `first` up to `last`, that one thread works on. The first one does not begin before `begin`.
struct Share {
  int64_t first, last, begin;
};

struct Shares {
  std::vector<Share> shares;
  std::vector<int64_t> long_segments;  // begin and end of each: all threads work on one after the other
  int64_t longest = 0;                 // the length of the longest of all other segments
  int64_t end = 0;                     // of the last segment
};

constexpr int64_t kLongSegment = 1 << 17;

// Divides the segments into shares of about as many numbers.
Shares shares_of(Context* ctx, const Segments& given);

// Calls f(begin, end) for each segment of a share that is not long, and gap(begin, end) for the numbers between two
// segments.
template <class F, class Gap>
void for_each_segment(const Segments& given, const Share& share, const F& f, const Gap& gap) {
  int64_t at = share.begin;
  for (int64_t s = share.first; s < share.last; ++s) {
    const int64_t begin = std::max(at, given.start(s)), end = std::max(begin, given.start(s + 1));
    if (begin > at) gap(at, begin);
    if (end - begin <= kLongSegment) f(begin, end);
    at = end;
  }
}

// Calls f with a null pointer to the type of the numbers.
template <class F>
void with_number_type(const Segments& given, const F& f) {
  switch (given.kind) {
    case NumberKind::kFloating:
      return given.wide_numbers ? f(static_cast<double*>(nullptr)) : f(static_cast<float*>(nullptr));
    case NumberKind::kSigned:
      return given.wide_numbers ? f(static_cast<int64_t*>(nullptr)) : f(static_cast<int32_t*>(nullptr));
    case NumberKind::kUnsigned:
      return given.wide_numbers ? f(static_cast<uint64_t*>(nullptr)) : f(static_cast<uint32_t*>(nullptr));
  }
}

// Sorts each segment stably, with NaN as the largest number. order[q] is the index of the number that comes to q, and
// sorted[q] is that number. One of the two arrays is null.
//
// Segments are the entries of rows of `size` elements, and all other elements are 0: places[q] is the index of that
// number in its sorted row, where negative entries come first, or last if the order is descending.
//
// Outside of all segments, numbers stay where they are, and places[q] is `size`. Indices are int64 if the starts are,
// else int32.
void sort_segments(Context* ctx, const Segments& given, bool descending, int64_t size, void* order, void* sorted,
                   void* places);

// Sets kept[q] to 1 for the k largest numbers of each segment, by value or by magnitude, and to 0 for all others. Of
// equal numbers, the first ones are kept. NaN is the largest. Only numbers for which `valid` is not 0 count; if it is
// null, all do.
void largest_of_segments(Context* ctx, const Segments& given, bool by_magnitude, const uint8_t* valid, int64_t k,
                         uint8_t* kept);

}  // namespace jsparse
