// One level of a format, and the table of the kinds of levels.
#pragma once

#include <cstdint>
#include <vector>

namespace jsparse {

// The codes of the kinds. Python uses the same ones.
enum LevelKind : int64_t { kDense = 0, kCompressed = 1, kSingleton = 2, kRange = 3 };

// The properties of a kind: which arrays its levels store, in this order, and whether they may have gaps.
struct KindTraits {
  const char* name;
  bool pointers;     // for each parent the first position below it, and at last the number of positions
  bool starts;       // for each parent the first coordinate below it
  bool coordinates;  // a coordinate for each position
  bool gaps;         // a position may have no entry below it

  int arrays() const { return pointers + starts + coordinates; }
  bool computed() const { return arrays() == 0; }  // nothing is stored: positions are computed from those above
};

inline constexpr KindTraits kKinds[] = {
    //            pointers  starts  coordinates  gaps
    {"dense",      false,    false,  false,       true},
    {"compressed", true,     false,  true,        false},
    {"singleton",  false,    false,  true,        false},
    {"range",      true,     true,   false,       true},
};
constexpr int64_t kKindCount = sizeof kKinds / sizeof *kKinds;

struct LevelOf {
  int64_t kind;
  int64_t dim;
  bool unique;
  int64_t size;  // size of dimension `dim`

  const KindTraits& traits() const { return kKinds[kind]; }
};

// An index array of int32 or int64. Nothing reads or writes beyond its length.
struct IndexArray {
  void* data = nullptr;
  int64_t length = 0;
};

// The index arrays of a pattern, level by level in the order of the table.
struct IndexArrays {
  bool wide = false;  // int64
  std::vector<IndexArray> arrays;
};

// The index arrays of one level; those that its kind lacks are empty.
struct LevelArrays {
  IndexArray pointers, starts, coordinates;
};

}  // namespace jsparse
