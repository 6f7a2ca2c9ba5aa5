#include "kernel/guard.h"

#include <atomic>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace jsparse {
namespace {

std::atomic<bool> on{false};

#if defined(__linux__)

// Memory between two protected pages. Its last byte is directly before the second one.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    whole_ = inner + 2 * page;
    pages_ = mmap(nullptr, whole_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages_ == MAP_FAILED) throw std::bad_alloc();
    char* const first = static_cast<char*>(pages_) + page;
    if (inner > 0 && mprotect(first, inner, PROT_READ | PROT_WRITE) != 0) {
      munmap(pages_, whole_);
      throw std::bad_alloc();
    }
    if (inner > 0) std::memset(first, 0xff, inner);
    data_ = first + inner - bytes;
  }
  ~Guarded() { munmap(pages_, whole_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_, whole_;
  void* pages_;
  void* data_;
};

#endif

}  // namespace

bool guarding() { return on.load(std::memory_order_relaxed); }

void set_guard(bool wanted) { on.store(wanted); }

int run_guarded(Kernel kernel, Context* ctx, void* const* buffers, const int64_t* const* dims, const BufferShape* shapes,
                const bool* results, size_t count, bool fresh) {
#if defined(__linux__)
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
#else
  (void)shapes, (void)results, (void)count, (void)fresh;
  return kernel(ctx, buffers, dims);
#endif
}

}  // namespace jsparse
