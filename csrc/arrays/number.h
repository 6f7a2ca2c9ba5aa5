// Numbers from a large range become numbers from 0 on.
#pragma once

#include <cstdint>

namespace jsparse {

struct Numbering {
  bool wide;  // all arrays are int64 (else int32)
  int64_t size;
  const void* leading;  // [leading_count]
  int64_t leading_count;
  const void* numbers;  // [count]
  int64_t count;
  void* slots;  // [count]
  void* kept;   // [room]
  int64_t room;
};

// Gives each distinct number in [0, size) a slot, in the order in which they occur. The leading numbers come first and
// keep a slot each, also if they are repeated. A number that is among them has the slot of the first one. `slots` has the
// slot of each further number, -1 if it is out of range or there is no room; `kept` has the number in each slot, `size`
// where there is none.
void number(const Numbering& numbering);

}  // namespace jsparse
