#include <cstddef>
#include <cstdlib>

#include "kernel/abi.h"

namespace jsparse {

void* lend_zeros(Context* ctx, int64_t bytes) {
  void* data = bytes < 0 ? nullptr : std::calloc(bytes > 0 ? static_cast<std::size_t>(bytes) : 1, 1);
  static const char* const message = "no memory for a workspace";
  if (data == nullptr) __atomic_store_n(&ctx->error, message, __ATOMIC_RELAXED);
  return data;
}

void take_back(Context*, void* data) { std::free(data); }

}  // namespace jsparse
