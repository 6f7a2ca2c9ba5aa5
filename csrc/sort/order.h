// Sorts coordinate tuples into storage order.
#pragma once

#include <cstdint>
#include <vector>

#include "memory/scratch.h"
#include "sort/key.h"
#include "threads/loops.h"

namespace jsparse {

// Tuples with a coordinate outside its size are left out. The others are numbered s = 0, 1, … in lexicographic order,
// equal ones in the order of the inputs.
//
// Usually the coordinates of a tuple and the number of its input fit one 64-bit word, `words[s]`. If not, the tuples
// stay in the order of the inputs, and `perm[s]` is the index of tuple s in `left` and in `rows`.
struct Ordered {
  int64_t inputs = 0;
  int64_t count = 0;           // number of tuples that are not left out
  bool in_order = false;       // whether the inputs were sorted already
  std::vector<int64_t> units;  // bounds of parts of about equal length; one thread works on a part

  bool packed = false;
  Scratch<uint64_t> words;
  int index_bits = 0;
  std::vector<int> shift;           // lowest bit of each level's coordinate in a word
  std::vector<uint64_t> mask;       // the bits of that coordinate after the shift
  std::vector<int8_t> level_of_bit;  // the level of each bit of a word without the number of its input

  Scratch<int64_t> perm;              // the permutation that sorts `left`
  Scratch<int64_t> left;              // the inputs that are not left out
  std::vector<Scratch<int64_t>> rows;  // per level: the coordinates of these inputs
};

// Sorts n tuples by `keys`, one key for each level. The last `sorted_suffix` levels need no sorting: inputs that are
// equal in all levels before them are in the order of these levels already.
Ordered order(Context* ctx, const std::vector<Key>& keys, int64_t n, int sorted_suffix);

// Access to the tuples of an Ordered. There are two types, one for each way to store the tuples.
struct PackedTuples {
  const uint64_t* words;
  const int* shift;
  const uint64_t* mask;
  const int8_t* level_of_bit;
  int index_bits;
  int levels;

  explicit PackedTuples(const Ordered& o)
      : words(o.words.get()), shift(o.shift.data()), mask(o.mask.data()), level_of_bit(o.level_of_bit.data()),
        index_bits(o.index_bits), levels(static_cast<int>(o.shift.size())) {}

  // Returns the first level at which tuple s > 0 differs from the one before, or the number of levels.
  int differ(int64_t s) const {
    const uint64_t x = (words[s] ^ words[s - 1]) >> index_bits;
    return x == 0 ? levels : level_of_bit[63 - __builtin_clzll(x)];
  }
  // Returns a function from the number of a tuple to its coordinate in this level.
  auto coordinates(int level) const {
    return [w = words, by = shift[level], m = mask[level]](int64_t s) { return static_cast<int64_t>((w[s] >> by) & m); };
  }
  int64_t coordinate(int64_t s, int level) const { return coordinates(level)(s); }
  int64_t input(int64_t s) const { return static_cast<int64_t>(words[s] & ((uint64_t{1} << index_bits) - 1)); }
};

struct GatheredTuples {
  const Scratch<int64_t>* rows;
  const int64_t* perm;
  const int64_t* left;
  int levels;

  explicit GatheredTuples(const Ordered& o)
      : rows(o.rows.data()), perm(o.perm.get()), left(o.left.get()), levels(static_cast<int>(o.rows.size())) {}

  int differ(int64_t s) const {
    for (int l = 0; l < levels; ++l) {
      if (rows[l][perm[s]] != rows[l][perm[s - 1]]) return l;
    }
    return levels;
  }
  auto coordinates(int level) const {
    return [row = rows[level].get(), by = perm](int64_t s) { return row[by[s]]; };
  }
  int64_t coordinate(int64_t s, int level) const { return coordinates(level)(s); }
  int64_t input(int64_t s) const { return left[perm[s]]; }
};

}  // namespace jsparse
