// The levels of a format with the sizes of what they store.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace jsparse {

using std::size_t;

constexpr int kMaxLevels = 64;  // as many as numpy has dimensions

enum LevelKind : int64_t { kDense = 0, kCompressed = 1, kSingleton = 2 };

struct LevelOf {
  int64_t kind;
  int64_t dim;
  bool unique;
  int64_t size;  // of dimension `dim`
};

struct Layout {
  std::vector<LevelOf> levels;
  std::vector<int> chain_begin;  // per level: the first level of its chain (a dense level is a chain of its own)
  std::vector<int> chain_end;    // per level: behind the last level of its chain

  int count() const { return static_cast<int>(levels.size()); }

  // Behind the last level that is not dense.
  int core() const {
    int end = count();
    while (end > 0 && levels[static_cast<size_t>(end - 1)].kind == kDense) --end;
    return end;
  }

  const LevelOf& at(int level) const { return levels[static_cast<size_t>(level)]; }

  // Null, or what is wrong with these levels. A singleton below a dense level can only be read: entries in general do not
  // have one coordinate in each place.
  const char* prepare(bool only_read) {
    const int n = count();
    if (n > kMaxLevels) return "expected at most 64 levels";
    std::vector<bool> stored(levels.size(), false);
    for (int l = 0; l < n; ++l) {
      const LevelOf& level = at(l);
      if (level.dim < 0 || level.dim >= n || stored[static_cast<size_t>(level.dim)]) return "expected each dimension once";
      stored[static_cast<size_t>(level.dim)] = true;
      if (level.size < 0 || level.size > (int64_t{1} << 62)) return "expected sizes between 0 and 2**62";
      if (level.kind < kDense || level.kind > kSingleton) return "expected levels that are dense, compressed or singleton";
      if (level.kind == kSingleton && (l == 0 || (at(l - 1).kind == kDense && !only_read))) {
        return "expected coordinates above a singleton";
      }
    }
    chain_begin.assign(levels.size(), 0);
    chain_end.assign(levels.size(), 0);
    for (int l = 0; l < n; ++l) {
      chain_begin[static_cast<size_t>(l)] = at(l).kind == kSingleton ? chain_begin[static_cast<size_t>(l - 1)] : l;
    }
    for (int l = n - 1; l >= 0; --l) {
      const bool inner = l + 1 < n && at(l + 1).kind == kSingleton;
      chain_end[static_cast<size_t>(l)] = inner ? chain_end[static_cast<size_t>(l + 1)] : l + 1;
    }
    return nullptr;
  }
};

// An index array of int32 or int64, which nothing reads or writes beyond its length.
struct IndexArray {
  void* data;
  int64_t length;
};

struct IndexArrays {
  bool wide = false;  // int64
  std::vector<IndexArray> arrays;
};

}  // namespace jsparse
