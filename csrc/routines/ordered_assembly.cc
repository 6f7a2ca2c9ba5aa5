// Each chunk writes its items to a slab, and there are only a few slabs. As soon as a chunk and all chunks before it
// are done, its items are moved to the result, mostly from the cache, and another chunk reuses the slab.
#include "routines/ordered_assembly.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <initializer_list>
#include <mutex>
#include <utility>
#include <vector>

#include "assembly/join.h"
#include "routines/terms.h"
#include "threads/wait.h"

namespace jsparse {
namespace {

constexpr int64_t kSlabsPerThread = 4;
constexpr int64_t kMost = int64_t{1} << 48;  // entries of a chunk; their bytes in all levels are counted by 64 bits

// The context of the kernel that writes. It finds a slab before each chunk, and moves the items afterwards.
class Chunks : public Context {
 public:
  Chunks(Context* outer, const Call& call, const Table& table, int64_t member, size_t results)
      : Context(*outer), outer_(outer), call_(call), term_(table.terms.front()), overflow_(table.overflow),
        value_bytes_(table.value_bytes), member_(member), levels_(call.params.layout.count()),
        offsets_(static_cast<size_t>(levels_ * kChunks), -1), bounds_(kChunks), arrays_(call.arrays(&results, member)),
        join_(call.params.layout, call.params.wide, arrays_),
        values_(value_bytes_ > 0 ? static_cast<char*>(call.buffers[results]) : nullptr) {
    parallel_for = run_chunks;
  }

  void run() {
    term_.run_count(outer_, call_, member_, bounds_.data());
    const int64_t largest = *std::max_element(bounds_.begin(), bounds_.end());
    if (largest > kMost) throw std::bad_alloc();
    slab_ = std::max<int64_t>(largest, 1);
    slabs_ = std::clamp<int64_t>(kRoom / slab_, 1, std::min(kChunks, kSlabsPerThread * std::max<int64_t>(num_threads, 1)));
    const int64_t room = slab_ * slabs_;
    coordinates_ = Scratch<char>(levels_ * room * call_.index_bytes());
    ends_ = Scratch<int64_t>(std::max<int64_t>((levels_ - 1) * room, 1));
    slab_values_ = Scratch<char>(std::max<int64_t>(room * value_bytes_, 1));
    begin(0);  // a kernel without a parallel loop has only chunk 0, and does not call run_chunks
    const int64_t offset_dims[2] = {levels_, kChunks}, end_dims[2] = {levels_ - 1, room}, dims[2] = {levels_, room};
    const auto write = [&](std::initializer_list<std::pair<void*, const int64_t*>> buffers) {
      term_.run(term_.write, this, call_, member_, buffers);
    };
    if (value_bytes_ > 0) {
      write({{offsets_.data(), offset_dims}, {ends_.get(), end_dims}, {coordinates_.get(), dims},
             {slab_values_.get(), dims + 1}});
    } else {
      write({{offsets_.data(), offset_dims}, {ends_.get(), end_dims}, {coordinates_.get(), dims}});
    }
    if (done_ == 0) finish(0);
    join_.finish();
    pad_values();
    if (overflow_.mark(call_, arrays_, member_)) overflow_.poison(values_, call_.params.nse, value_bytes_);
  }

 private:
  struct Ready {
    int64_t chunk;
    Part part;
    Join::Offsets offsets;
  };

  static void run_chunks(Context* context, int64_t n, Body body, void* arg) noexcept {
    auto* const self = static_cast<Chunks*>(context);
    // The kernel may have changed num_threads.
    const int64_t threads = std::exchange(self->outer_->num_threads, self->num_threads);
    each(self->outer_, n, [&](int64_t chunk) noexcept {
      self->begin(chunk);
      body(arg, chunk);
      self->finish(chunk);
    });
    self->outer_->num_threads = threads;
  }

  // Threads claim chunks in ascending order, so the chunk that this one waits for is running or done.
  void begin(int64_t chunk) noexcept {
    if (bounds_[static_cast<size_t>(chunk)] == 0) return;
    if (chunk >= slabs_) {
      std::unique_lock<std::mutex> lock(mutex_);
      wait_until(free_, lock, [&] { return moved_[chunk - slabs_]; });
    }
    for (int64_t l = 0; l < levels_; ++l) offsets_[static_cast<size_t>(l * kChunks + chunk)] = chunk % slabs_ * slab_;
  }

  // A chunk without memory for a workspace leaves items that may be incomplete. The kernel fails then, and from the first
  // such chunk on, none is moved.
  void finish(int64_t chunk) noexcept {
    Ready ready[kChunks];
    int64_t count = 0;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      failed_ |= __atomic_load_n(&error, __ATOMIC_RELAXED) != nullptr;
      finished_[chunk] = true;
      for (; done_ < kChunks && finished_[done_]; ++done_) {
        const Part part = failed_ ? Part{} : part_of(done_);
        ready[count++] = {done_, part, join_.next(part)};
      }
    }
    for (int64_t n = 0; n < count; ++n) {
      move(ready[n]);
      std::lock_guard<std::mutex> lock(mutex_);
      moved_[ready[n].chunk] = true;
      free_.notify_all();
    }
  }

  Part part_of(int64_t chunk) const {
    Part part{coordinates_.get(), ends_.get(), slab_ * slabs_, chunk % slabs_ * slab_, {0}};
    if (bounds_[static_cast<size_t>(chunk)] == 0) return part;
    for (int64_t l = 0; l < levels_; ++l) part.count[l] = offsets_[static_cast<size_t>(l * kChunks + chunk)] - part.start;
    return part;
  }

  void move(const Ready& ready) const noexcept {
    join_.write(ready.part, ready.offsets);
    const int64_t to = ready.offsets.items[levels_ - 1], kept = std::min(ready.part.count[levels_ - 1], call_.params.nse - to);
    if (value_bytes_ > 0 && kept > 0) {
      std::memcpy(values_ + to * value_bytes_, slab_values_.get() + ready.part.start * value_bytes_,
                  static_cast<size_t>(kept * value_bytes_));
    }
  }

  void pad_values() const {
    const int64_t left = call_.params.nse - join_.total();
    if (value_bytes_ > 0 && left > 0) {
      std::memset(values_ + join_.total() * value_bytes_, 0, static_cast<size_t>(left * value_bytes_));
    }
  }

  Context* const outer_;
  const Call& call_;
  const Term& term_;
  const Overflow& overflow_;
  const int64_t value_bytes_, member_, levels_;
  std::vector<int64_t> offsets_, bounds_;  // [level][chunk] and [chunk]
  int64_t slab_ = 0, slabs_ = 0;          // capacity of a slab in each level, and number of slabs
  Scratch<char> coordinates_, slab_values_;
  Scratch<int64_t> ends_;
  const std::vector<IndexArray> arrays_;
  Join join_;
  char* const values_;

  std::mutex mutex_;  // guards the members below, and the order of parts in `join_`
  std::condition_variable free_;
  bool finished_[kChunks] = {false}, moved_[kChunks] = {false};
  int64_t done_ = 0;  // all chunks before this one have offsets in the result
  bool failed_ = false;
};

const char* refusal(const Layout& layout) {
  return Join::suits(layout) ? nullptr : "expected levels without ranges, which are only assembled by sorting";
}

}  // namespace

int assemble_ordered(Context* ctx, void* const* buffers, const int64_t* const* dims) {
  return run_terms(ctx, buffers, dims, "no memory for the entries of a sparse result", refusal,
                   [](Context* inner, const Call& call, const Table& table, int64_t member) {
                     Chunks(inner, call, table, member, table.results).run();
                   });
}

}  // namespace jsparse
