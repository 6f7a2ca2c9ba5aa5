// Running kernels on copies of their buffers behind which no memory is, for tests: what reads or writes past the end of a
// buffer ends the process, and what reads in front of it, or an element that nobody wrote, finds only bytes of 255 (NaN,
// -1). Off unless asked for.
#pragma once

#include <cstddef>

#include "kernel/abi.h"
#include "kernel/signature.h"

namespace jsparse {

bool guarding();
void set_guard(bool on);

// Runs the kernel on copies, and copies back what it wrote to those that are results. Their content before is not copied
// if `fresh`. Throws std::bad_alloc without memory.
int run_guarded(Kernel kernel, Context* ctx, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                const bool* results, size_t count, bool fresh);

}  // namespace jsparse
