#include "execution/host_executor.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "kernel/guard.h"
#include "kernel/workspace.h"
#include "threads/parallel_for.h"

namespace jsparse {
namespace {

// Threads live for one call. The symbolic phases and eager calls that come here are either too small to be split, or
// large enough that the cost of a thread (tens of microseconds) does not matter. A pool of our own beside XLA's would
// compete with it for the same cores.
struct HostContext : Context {
  SpareMemory memory;
  std::mutex mutex;  // a chunk may itself open a parallel loop
  std::vector<std::thread> threads;

  HostContext() { spare = &memory; }

  ~HostContext() {
    for (auto& thread : threads) thread.join();
  }
};

bool launch(void* pool, void (*task)(void*), void* data) noexcept {
  auto* ctx = static_cast<HostContext*>(pool);
  try {
    std::lock_guard<std::mutex> lock(ctx->mutex);
    ctx->threads.reserve(ctx->threads.size() + 1);  // so that a thread, once started, is certainly kept
    ctx->threads.emplace_back(task, data);
    return true;
  } catch (const std::exception&) {  // there are no more threads or no memory: the caller does the work itself
    return false;
  }
}

void host_parallel_for(Context* ctx, int64_t n, Body body, void* arg) noexcept {
  parallel_for(n, ctx->num_threads, body, arg, launch, static_cast<HostContext*>(ctx));
}

}  // namespace

int64_t hardware_threads() {
  static const int64_t count = std::max<int64_t>(1, std::thread::hardware_concurrency());
  return count;
}

void with_threads(int64_t threads, void (*f)(void* arg, Context* ctx), void* arg) {
  HostContext ctx;
  ctx.num_threads = threads > 0 ? threads : hardware_threads();
  ctx.parallel_for = host_parallel_for;
  f(arg, &ctx);
}

int run_on_host_guarded(Kernel kernel, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                       size_t count, int64_t threads, std::string* error) {
  HostContext ctx;
  ctx.num_threads = threads > 0 ? threads : hardware_threads();
  ctx.parallel_for = host_parallel_for;
  const auto results = std::make_unique<bool[]>(count);
  std::fill_n(results.get(), count, true);
  const int code = run_guarded(kernel, &ctx, buffers, dims, shapes, results.get(), count, false);
  if (code != 0 && ctx.error != nullptr) *error = ctx.error;
  return code;
}

int run_on_host(Kernel kernel, void* const* buffers, const int64_t* const* dims, int64_t threads, std::string* error) {
  HostContext ctx;
  ctx.num_threads = threads > 0 ? threads : hardware_threads();
  ctx.parallel_for = host_parallel_for;
  const int code = kernel(&ctx, buffers, dims);
  if (code != 0 && ctx.error != nullptr) *error = ctx.error;
  return code;
}

}  // namespace jsparse
