// Runs kernels on copies of their buffers, for tests. A protected page follows each copy, and each workspace that a kernel
// borrows, so the process crashes if a kernel reads or writes past the end. Bytes before these and bytes that were never
// written are 255 (NaN, -1). The mode is off by default.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernel/abi.h"
#include "kernel/signature.h"

namespace jsparse {

bool guarding();
void set_guard(bool on);

// Runs the kernel on copies, and copies the results back. If `fresh`, the kernel does not see the results' contents
// before the call. Throws std::bad_alloc if there is no memory.
int run_guarded(Kernel kernel, Context* ctx, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                const bool* results, size_t count, bool fresh);

// Memory of a kernel for `lend` while the mode is on, or null. `take_back` returns it with the same size.
void* lend_guarded(int64_t bytes, bool zeros);
void take_back_guarded(void* data, int64_t bytes);

}  // namespace jsparse
