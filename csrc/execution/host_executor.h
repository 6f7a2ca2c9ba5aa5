// Runs kernels on host arrays, outside any XLA program.
#pragma once

#include <cstdint>
#include <string>

#include "kernel/abi.h"
#include "kernel/signature.h"

namespace jsparse {

// Runs a kernel and returns its code; `error` receives the text of its failure. threads = 0 means as many as the
// hardware has.
int run_on_host(Kernel kernel, void* const* buffers, const int64_t* const* dims, int64_t threads, std::string* error);

// Runs a kernel on guarded copies of the buffers (kernel/guard.h), and copies all of them back.
int run_on_host_guarded(Kernel kernel, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                       size_t count, int64_t threads, std::string* error);

// Runs f(arg, ctx) with a context whose loops start threads of their own. threads = 0 means the same as above.
void with_threads(int64_t threads, void (*f)(void* arg, Context* ctx), void* arg);

template <class F>
void on_host(const F& f) {
  with_threads(0, [](void* arg, Context* ctx) { (*static_cast<const F*>(arg))(ctx); },
               const_cast<void*>(static_cast<const void*>(&f)));
}

// How many threads this process may use; at least 1.
int64_t hardware_threads();

}  // namespace jsparse
