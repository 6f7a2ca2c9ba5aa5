// A parallel loop over chunks that cannot deadlock in somebody else's thread pool.
#pragma once

#include <cstdint>

#include "kernel/abi.h"

namespace jsparse {

// Passes task(data) to a thread pool, and returns whether the pool has accepted it. The thread may run it now, later,
// or not before the process ends. A pool that fails without saying whether it kept the task has accepted it.
using Launch = bool (*)(void* pool, void (*task)(void* data), void* data) noexcept;

// Runs body(arg, i) exactly once for every 0 <= i < n, on the caller and at most threads - 1 launched helpers, and
// returns when all have finished. Without memory for helpers, the caller does all the work.
void parallel_for(int64_t n, int64_t threads, Body body, void* arg, Launch launch, void* pool) noexcept;

}  // namespace jsparse
