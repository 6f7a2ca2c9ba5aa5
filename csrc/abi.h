// What a generated kernel sees. The code generator emits against this layout, so it only changes together with kAbi.
#pragma once

#include <cstdint>

namespace jsparse {

constexpr int64_t kAbi = 1;

using Body = void (*)(void* arg, int64_t i);

struct Context {
  int64_t abi = kAbi;
  int64_t num_threads = 1;  // how many threads may work on one parallel_for: a hint for the number of chunks
  void (*parallel_for)(Context* ctx, int64_t n, Body body, void* arg) = nullptr;
  const char* error = nullptr;  // set by a kernel that returns nonzero; must outlive the call (a constant, usually)
};

using Kernel = int (*)(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
