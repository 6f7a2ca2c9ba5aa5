// Makes index arrays and summed values from unsorted entries. Values are sorted together with their coordinates, so
// that nothing has to be gathered from all over memory afterwards.
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
  int32_t* pointers = nullptr;        // room for parents() + 1
  std::vector<int32_t*> coordinates;  // per level of the chain, each with room for all inputs
  void* values = nullptr;             // with the same room
  int64_t count = 0;                  // of the distinct tuples; coordinates and values are written for these only
};

// It serves dense levels above one chain of coordinates, if 32 bits hold every index. Values of one slot are added in
// the order of the inputs, floats in 64 bits. It refuses other formats, rare distributions, inputs that seem to be
// sorted already, and coordinates outside their sizes. If it refuses, nothing useful is written.
class Accumulation {
 public:
  Accumulation(const Layout& layout, const std::vector<Key>& keys, int64_t n, const void* values, Number number);
  ~Accumulation();

  bool survey(Context* ctx);  // whether it may be run
  int64_t parents() const;    // slots above the chain
  int chain() const;          // levels of the chain
  bool run(Context* ctx, Accumulated* out);

 private:
  struct Plan;
  std::unique_ptr<Plan> plan_;
};

}  // namespace jsparse
