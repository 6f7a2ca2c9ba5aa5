// Runs kernels on copies of their buffers, for tests. No memory lies behind a copy, so a kernel that reads or writes
// past the end ends the process. In front of a copy, and in elements that nobody wrote, all bytes are 255 (NaN, -1).
// This is off unless somebody asks for it.
#pragma once

#include <cstddef>

#include "kernel/abi.h"
#include "kernel/signature.h"

namespace jsparse {

bool guarding();
void set_guard(bool on);

// Runs the kernel on copies, and copies the results back. If `fresh`, what is in the results before is not copied.
// Throws std::bad_alloc if there is no memory.
int run_guarded(Kernel kernel, Context* ctx, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                const bool* results, size_t count, bool fresh);

}  // namespace jsparse
