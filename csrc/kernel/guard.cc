#include "kernel/guard.h"

#include <sys/mman.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "memory/pages.h"

namespace jsparse {
namespace {

std::atomic<bool> on{false};

// Memory between two protected pages. Its last byte is directly before the second one.
struct Region {
  size_t page, inner;

  explicit Region(size_t bytes) : page(page_bytes()), inner((bytes + page - 1) / page * page) {}

  size_t whole() const { return inner + 2 * page; }

  // Returns where the `bytes` begin, or null if there is no memory.
  void* map(size_t bytes) const {
    void* const pages = mmap(nullptr, whole(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return nullptr;
    char* const first = static_cast<char*>(pages) + page;
    if (inner > 0 && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
      munmap(pages, whole());
      return nullptr;
    }
    if (inner > 0) std::memset(first, 0xff, inner);
    return first + inner - bytes;
  }

  void unmap(void* data, size_t bytes) const { munmap(static_cast<char*>(data) + bytes - inner - page, whole()); }
};

class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes), data_(Region(bytes).map(bytes)) {
    if (data_ == nullptr) throw std::bad_alloc();
  }
  ~Guarded() { Region(bytes_).unmap(data_, bytes_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
  void* data_;
};

}  // namespace

bool guarding() { return on.load(std::memory_order_relaxed); }

void set_guard(bool wanted) { on.store(wanted); }

int run_guarded(Kernel kernel, Context* ctx, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                const bool* results, size_t count, bool fresh) {
  std::vector<std::unique_ptr<Guarded>> copies;
  std::vector<void*> data;
  for (size_t b = 0; b < count; ++b) {
    copies.push_back(std::make_unique<Guarded>(bytes_of(shapes[b])));
    data.push_back(copies.back()->data());
    if (copies.back()->bytes() > 0 && !(fresh && results[b])) std::memcpy(data[b], buffers[b], copies[b]->bytes());
  }
  const int code = kernel(ctx, data.data(), dims);
  for (size_t b = 0; b < count; ++b) {
    if (results[b] && copies[b]->bytes() > 0) std::memcpy(buffers[b], data[b], copies[b]->bytes());
  }
  return code;
}

void* lend_guarded(int64_t bytes, bool zeros) {
  const auto size = static_cast<size_t>(bytes);
  void* const data = Region(size).map(size);
  if (data != nullptr && zeros) std::memset(data, 0, size);
  return data;
}

void take_back_guarded(void* data, int64_t bytes) {
  const auto size = static_cast<size_t>(bytes);
  Region(size).unmap(data, size);
}

}  // namespace jsparse
