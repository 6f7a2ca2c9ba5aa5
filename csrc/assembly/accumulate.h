// Makes index arrays and summed values from unsorted entries. Values are sorted together with their coordinates, so no
// random access to memory is needed afterwards.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/abi.h"
#include "levels/layout.h"
#include "sort/key.h"

namespace jsparse {

// The types of values. They have 4, 8, 4, 8 and 8 bytes; integers wrap around.
enum class Number { kFloat, kDouble, kWord, kLong, kComplex };

struct Accumulated {
  int32_t* pointers = nullptr;        // capacity: parents() + 1
  std::vector<int32_t*> coordinates;  // one array for each level of the chain, each with the capacity of all inputs
  void* values = nullptr;             // the same capacity
  int64_t count = 0;                  // number of distinct tuples, for which coordinates and values are written
};

// Accumulation handles formats of dense levels above one chain of coordinates, if every index fits 32 bits. It adds the
// values of one slot in the order of the inputs, floats in 64 bits. It refuses other formats, very uneven
// distributions, inputs that seem to be sorted already, and coordinates outside their sizes. The contents of the
// results are unspecified if it refuses.
class Accumulation {
 public:
  Accumulation(const Layout& layout, const std::vector<Key>& keys, int64_t n, const void* values, Number number);
  ~Accumulation();

  bool survey(Context* ctx);  // whether `run` may be called
  int64_t parents() const;    // number of positions above the chain
  int chain() const;          // number of levels in the chain
  bool run(Context* ctx, Accumulated* out);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace jsparse
