// A parallel loop over chunks that cannot deadlock in somebody else's thread pool.
#pragma once

#include <cstdint>

#include "kernel/abi.h"

namespace jsparse {

// Passes task(data) to a thread pool, and returns whether the pool has accepted it. The thread may run it now, later,
// or not before the process ends.
using Launch = bool (*)(void* pool, void (*task)(void* data), void* data);

// Runs body(arg, i) exactly once for every 0 <= i < n, on the caller and at most threads - 1 launched helpers, and
// returns when all have finished.
void parallel_for(int64_t n, int64_t threads, Body body, void* arg, Launch launch, void* pool);

}  // namespace jsparse
