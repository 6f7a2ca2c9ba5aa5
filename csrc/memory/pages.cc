#include "memory/pages.h"

#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <mutex>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace jsparse {
namespace {

// Below `kLeast`, the allocator has memory at hand. Pages of small blocks are not offered to the system, since they are
// few and a call of the system takes longer than the work on them.
constexpr size_t kLeast = size_t{1} << 14, kSmall = size_t{1} << 20, kLargest = size_t{1} << 28;

struct Block {
  void* data = nullptr;
  size_t bytes = 0;
};

std::mutex& kept_mutex() {
  static auto* mutex = new std::mutex;  // never destroyed: programs may still run while the process ends
  return *mutex;
}

// The blocks that are kept. Each row but the last has blocks of one size, which is a power of two. The last row has the
// larger ones.
constexpr size_t kKept = 4, kSizes = 7;
Block kept[kSizes + 1][kKept];

Block (&kept_like(size_t bytes))[kKept] {
  size_t row = 0;
  while (row < kSizes && bytes > kLeast << row) ++row;
  return kept[row];
}

// Small blocks have few sizes, so that most requests find one.
size_t with_slack(size_t bytes) {
  if (bytes < kLeast || bytes > kSmall) return bytes;
  size_t found = kLeast;
  while (found < bytes) found *= 2;
  return found;
}

// Allows the system to take the pages and discard their contents until we write to them again.
void offer_pages([[maybe_unused]] const Block& block) {
#if defined(__linux__) && defined(MADV_FREE)
  constexpr uintptr_t kPage = 1 << 12;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(block.data) + kPage - 1) & ~(kPage - 1);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(block.data) + block.bytes) & ~(kPage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_FREE);
#endif
}

}  // namespace

bool exceeds_memory(size_t bytes) {
  constexpr size_t kEveryMachineHas = size_t{1} << 30;
  if (bytes <= kEveryMachineHas) return false;
  static const auto pages = static_cast<double>(sysconf(_SC_PHYS_PAGES));
  static const auto page = static_cast<double>(sysconf(_SC_PAGESIZE));
  return static_cast<double>(bytes) > pages * page;
}

void* borrow_memory(size_t* bytes) {
  *bytes = with_slack(*bytes);
  if (*bytes >= kLeast) {
    std::lock_guard<std::mutex> lock(kept_mutex());
    Block* best = nullptr;
    for (Block& block : kept_like(*bytes)) {
      const bool fits = block.bytes >= *bytes && block.bytes / 4 <= *bytes;
      if (fits && (best == nullptr || block.bytes < best->bytes)) best = &block;
    }
    if (best != nullptr) {
      *bytes = best->bytes;
      return std::exchange(*best, Block{}).data;
    }
  }
  if (exceeds_memory(*bytes)) return nullptr;
  void* data = std::malloc(*bytes > 0 ? *bytes : 1);
  if (data != nullptr) advise_huge_pages(data, *bytes);
  return data;
}

void return_memory(void* data, size_t bytes) {
  Block block{data, bytes};
  if (data != nullptr && bytes >= kLeast && bytes <= kLargest) {
    if (bytes > kSmall) offer_pages(block);
    std::lock_guard<std::mutex> lock(kept_mutex());
    Block* least = &kept_like(bytes)[0];
    for (Block& other : kept_like(bytes)) {
      if (other.bytes < least->bytes) least = &other;
    }
    if (least->bytes <= bytes) std::swap(*least, block);
  }
  std::free(block.data);
}

void advise_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr uintptr_t kPage = uintptr_t{1} << 21;
  constexpr size_t kWorthwhile = size_t{1} << 23;  // smaller results mostly get pages that were used before
  if (bytes < kWorthwhile) return;
  const uintptr_t begin = (reinterpret_cast<uintptr_t>(data) + kPage - 1) & ~(kPage - 1);  // whole pages only
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) & ~(kPage - 1);
  if (begin < end) madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace jsparse
