// The part of the extension that generated kernels access. The code generator emits code for this layout, so whoever
// changes the layout changes kAbi as well.
#pragma once

#include <cstdint>

namespace jsparse {

constexpr int64_t kAbi = 3;

// The body of a chunk. No function that a kernel calls or passes on throws: an exception cannot cross generated code, and
// on a thread of XLA's it would end the process.
using Body = void (*)(void* arg, int64_t i) noexcept;

struct Context;
class SpareMemory;

// Allocates memory for a kernel, which is zeroed if `zeros` is not 0. Any thread may call it. If there is no memory, it
// returns null and sets the context's `error`. (workspace.cc)
void* lend(Context* ctx, int64_t bytes, int64_t zeros) noexcept;

// Takes memory back. If `zeros` is not 0, all of it is zero again.
void take_back(Context* ctx, void* data, int64_t bytes, int64_t zeros) noexcept;

struct Context {
  int64_t abi = kAbi;
  // How many threads may work on one parallel_for: a hint for the number of chunks. A kernel that sets it to 1 for the
  // time of a loop has its chunks run one after the other on its own thread.
  int64_t num_threads = 1;
  void (*parallel_for)(Context* ctx, int64_t n, Body body, void* arg) noexcept = nullptr;
  const char* error = nullptr;  // a kernel that fails sets it and returns nonzero; the text outlives the call
  void* (*borrow)(Context* ctx, int64_t bytes, int64_t zeros) noexcept = lend;
  void (*give_back)(Context* ctx, void* data, int64_t bytes, int64_t zeros) noexcept = take_back;
  SpareMemory* spare = nullptr;  // what was given back during the call; without it, memory is freed at once
};

using Kernel = int (*)(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
