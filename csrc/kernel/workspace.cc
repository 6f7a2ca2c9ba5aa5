#include "kernel/workspace.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <exception>

#include "kernel/abi.h"
#include "kernel/guard.h"

namespace jsparse {
namespace {

constexpr int64_t kKeepFrom = 1 << 14;  // bytes: calloc is as fast with less

}  // namespace

SpareMemory::~SpareMemory() {
  for (const Block& block : blocks_) std::free(block.data);
}

void* SpareMemory::take(int64_t bytes, bool zeros) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = std::find_if(blocks_.begin(), blocks_.end(), [&](const Block& block) {
    return block.bytes == bytes && (block.zeros || !zeros);
  });
  if (found == blocks_.end()) return nullptr;
  void* data = found->data;
  blocks_.erase(found);
  return data;
}

bool SpareMemory::keep(void* data, int64_t bytes, bool zeros) {
  try {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.push_back({data, bytes, zeros});
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

void* lend(Context* ctx, int64_t bytes, int64_t zeros) noexcept {
  static const char* const message = "no memory for a workspace";
  void* data = nullptr;
  if (guarding() && bytes >= 0) {
    data = lend_guarded(bytes, zeros != 0);
  } else {
    if (bytes >= kKeepFrom && ctx->spare != nullptr) data = ctx->spare->take(bytes, zeros != 0);
    if (data != nullptr) return data;
    const std::size_t size = bytes > 0 ? static_cast<std::size_t>(bytes) : 1;
    if (bytes >= 0) data = zeros != 0 ? std::calloc(size, 1) : std::malloc(size);
  }
  if (data == nullptr) __atomic_store_n(&ctx->error, message, __ATOMIC_RELAXED);
  return data;
}

void take_back(Context* ctx, void* data, int64_t bytes, int64_t zeros) noexcept {
  if (guarding()) return take_back_guarded(data, bytes);
  if (bytes >= kKeepFrom && ctx->spare != nullptr && ctx->spare->keep(data, bytes, zeros != 0)) return;
  std::free(data);
}

}  // namespace jsparse
