// A parallel loop over chunks that cannot deadlock in somebody else's thread pool.
#pragma once

#include <cstdint>

#include "kernel/abi.h"

namespace jsparse {

// Hands task(data) to some thread, now or later, possibly never before the process ends. Returns whether it was taken.
using Launch = bool (*)(void* pool, void (*task)(void* data), void* data);

// Runs body(arg, i) exactly once for every 0 <= i < n, on the caller and at most threads - 1 launched helpers, and
// returns when all have finished.
void parallel_for(int64_t n, int64_t threads, Body body, void* arg, Launch launch, void* pool);

}  // namespace jsparse
