// Running a kernel on host buffers, outside any XLA program.
#pragma once

#include <cstdint>
#include <string>

#include "abi.h"

namespace jsparse {

// The kernel's return code; `error` receives its text, if it left one. threads = 0 takes the hardware's concurrency.
int run_direct(Kernel kernel, void* const* buffers, const int64_t* const* dims, int64_t threads, std::string* error);

// How many threads this process may use; at least 1.
int64_t hardware_threads();

}  // namespace jsparse
