// What a generated kernel sees. The code generator emits against this layout, so it only changes together with kAbi.
#pragma once

#include <cstdint>

namespace jsparse {

constexpr int64_t kAbi = 2;

using Body = void (*)(void* arg, int64_t i);

struct Context;

// Memory of zeros for a kernel to work in, asked for from any thread; null, with the context's `error` set, if there is
// none. (pages.cc)
void* lend_zeros(Context* ctx, int64_t bytes);
void take_back(Context* ctx, void* data);

struct Context {
  int64_t abi = kAbi;
  // How many threads may work on one parallel_for: a hint for the number of chunks. A kernel that sets it to 1 for the
  // time of a loop has its chunks run one after the other on its own thread.
  int64_t num_threads = 1;
  void (*parallel_for)(Context* ctx, int64_t n, Body body, void* arg) = nullptr;
  const char* error = nullptr;  // set where a kernel fails, which then returns nonzero; outlives the call
  void* (*borrow)(Context* ctx, int64_t bytes) = lend_zeros;
  void (*give_back)(Context* ctx, void* data) = take_back;
};

using Kernel = int (*)(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
