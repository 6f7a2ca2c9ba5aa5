// From unsorted entries with their values to the index arrays and summed values of a format, without numbering the
// entries in between: the values travel with the coordinates, so that nothing is gathered from all over memory.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "kernel/abi.h"
#include "levels/layout.h"
#include "sort/key.h"

namespace jsparse {

enum class Number { kFloat, kDouble, kWord, kLong, kComplex };  // of 4, 8, 4, 8 and 8 bytes; integers wrap around

struct Accumulated {
  int32_t* pointers = nullptr;        // room for parents() + 1
  std::vector<int32_t*> coordinates;  // per level of the chain, each with room for all inputs
  void* values = nullptr;             // with the same room
  int64_t count = 0;                  // distinct tuples; of the coordinates and values only these are written
};

// For dense levels above one chain of coordinates, where 32 bits hold every index; values that share a place are added in
// the order of the inputs, floats in 64 bits. Other problems, rare distributions, and inputs that seem to be sorted already are refused,
// as are coordinates outside their sizes: then nothing useful is written.
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
