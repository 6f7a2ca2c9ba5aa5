#include "execution/profile.h"

#include <exception>
#include <map>
#include <mutex>
#include <tuple>
#include <utility>

namespace jsparse {
namespace {

using Key = std::tuple<std::string, std::string, std::vector<int64_t>>;  // as in Counted

struct Total {
  int64_t calls = 0;
  int64_t nanoseconds = 0;
};

// It is never destroyed, because programs may still run while the process exits. The mutex is a leaf: nothing else is
// locked, and no Python code runs, while it is locked.
struct Counts {
  std::mutex mutex;
  std::map<Key, Total> totals;
};

Counts& counts() {
  static Counts* instance = new Counts;
  return *instance;
}

}  // namespace

void open_profile() {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  profile_detail::open.fetch_add(1, std::memory_order_relaxed);
}

void close_profile() {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  if (profile_detail::open.fetch_sub(1, std::memory_order_relaxed) == 1) counts().totals.clear();
}

std::vector<Counted> counted() {
  const std::lock_guard<std::mutex> lock(counts().mutex);
  std::vector<Counted> found;
  for (const auto& [key, total] : counts().totals) {
    const auto& [recipe, bound, buffers] = key;
    found.push_back({recipe, bound, buffers, total.calls, total.nanoseconds});
  }
  return found;
}

void Stopwatch::stop(std::string_view recipe, std::string_view bound, const BufferShape* buffers,
                     size_t count) const noexcept try {
  const int64_t took = now() - start_;
  Key key{std::string(recipe), std::string(bound), std::vector<int64_t>()};
  auto& shapes = std::get<2>(key);
  for (size_t b = 0; b < count; ++b) {
    shapes.push_back(buffers[b].element);
    shapes.push_back(buffers[b].rank);
    shapes.insert(shapes.end(), buffers[b].dims, buffers[b].dims + buffers[b].rank);
  }
  const std::lock_guard<std::mutex> lock(counts().mutex);
  if (!profiling()) return;  // the last profile was closed while the kernel ran
  Total& total = counts().totals[std::move(key)];
  total.calls += 1;
  total.nanoseconds += took;
} catch (const std::exception&) {
}

}  // namespace jsparse
