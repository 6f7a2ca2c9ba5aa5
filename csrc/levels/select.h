// Selects the entries of segments whose coordinates lie in arithmetic progressions. The index arrays may contain
// anything, which may be a fault: nothing outside the arrays is read or written, and all results lie in their ranges.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "levels/progression.h"
#include "memory/scratch.h"

namespace jsparse {

// The segments of one chain of levels, below some of the positions above.
template <class Index>
struct Segments {
  const Index* pointers = nullptr;               // those of the first level of the chain
  int64_t above = 0;                             // how many segments the pointers delimit
  std::vector<const Index*> coordinates;         // of each level of the chain
  int64_t positions = 0;                         // the length of each of these
  const Index* parents = nullptr;                // the positions above, in any order; null: all of them
  int64_t parent_count = 0;
};

enum class SelectFault { kNone, kParents, kPointers, kCoordinates, kTooMany };

// The work has two parts, because the caller allocates the result in between. Index is int32_t or int64_t.
template <class Index>
class Selecting {
 public:
  // There is a progression for each level of the chain. It fits Index.
  Selecting(Segments<Index> segments, const std::vector<Progression>& wanted);

  // Finds the parts of long segments that lie between the bounds of the first progression, by bisection.
  SelectFault narrow();

  // The number of entries in these parts: the most that can be selected.
  int64_t most() const { return most_; }

  // Writes the selected entries of each segment in the order of their new coordinates: pointers [parent_count + 1], and
  // for each of the `*count` entries its new coordinates and its position. The arrays have room for `most()`.
  SelectFault write(Index* pointers, const std::vector<Index*>& coordinates, Index* positions, int64_t* count) const;

 private:
  const Segments<Index> in_;
  const std::vector<SliceTest<Index>> tests_;
  bool as_stored_;  // the entries are neighbours, and remain in the order in which they are stored
  int64_t most_ = 0;
  Scratch<Index> begins_, ends_;  // [parent_count]: of the parts
};

}  // namespace jsparse
