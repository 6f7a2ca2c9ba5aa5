// The part of the extension that generated kernels access. The code generator emits code for this layout, so whoever
// changes the layout changes kAbi as well.
#pragma once

#include <cstdint>

namespace jsparse {

constexpr int64_t kAbi = 2;

using Body = void (*)(void* arg, int64_t i);

struct Context;

// Allocates zeroed memory for a kernel. Any thread may call it. If there is no memory, it returns null and sets the
// context's `error`. (workspace.cc)
void* lend_zeros(Context* ctx, int64_t bytes);
void take_back(Context* ctx, void* data);

struct Context {
  int64_t abi = kAbi;
  // How many threads may work on one parallel_for: a hint for the number of chunks. A kernel that sets it to 1 for the
  // time of a loop has its chunks run one after the other on its own thread.
  int64_t num_threads = 1;
  void (*parallel_for)(Context* ctx, int64_t n, Body body, void* arg) = nullptr;
  const char* error = nullptr;  // a kernel that fails sets it and returns nonzero; the text outlives the call
  void* (*borrow)(Context* ctx, int64_t bytes) = lend_zeros;
  void (*give_back)(Context* ctx, void* data) = take_back;
};

using Kernel = int (*)(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
