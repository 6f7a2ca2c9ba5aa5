#include "execution/call_table.h"

#include <functional>
#include <mutex>
#include <utility>

namespace jsparse {
namespace {

// A hash table with open addressing and linear probing. Its size is a power of two, and at most half of it is in use.
struct Slots {
  explicit Slots(size_t size) : mask(size - 1), slots(new std::atomic<Entry*>[size]) {
    for (size_t i = 0; i < size; ++i) slots[i].store(nullptr, std::memory_order_relaxed);
  }

  const size_t mask;
  const std::unique_ptr<std::atomic<Entry*>[]> slots;
  Slots* next = nullptr;  // in the list of those that were replaced
};

// Marks a slot whose entry was retired. Probing continues after it.
Entry* tombstone() {
  static Entry entry;
  return &entry;
}

// The table is never destroyed, because programs may still run and handles may still be released while the process
// exits.
struct Table {
  // This is how entries are freed although readers may still see them. A reader counts itself in, then reads the table.
  // A thread that retires an entry first removes it from the table, then reads the count. All four operations are
  // sequentially consistent, so they have one total order. If the count after the removal is 0, each reader does one of
  // two things. Either it counts itself in later, and then finds the slot empty. Or it has counted itself out: its
  // decrement is a release, and the load of 0 reads from it (directly, or through the later increments and decrements,
  // which continue its release sequence), so all reads of this reader happen before the freeing. The same is true of an
  // array of slots that a larger one has replaced. (A store-release and a load-acquire would not be enough: the load of
  // the count could then overtake the removal.)
  std::atomic<int64_t> readers{0};
  std::atomic<Slots*> current{new Slots(64)};

  std::mutex mutex;  // guards all members below, and writes to the slots
  int64_t live = 0;
  size_t used = 0;  // number of slots with a live entry or a tombstone
  Entry* retired = nullptr;   // heads of lists, so that a destructor that retires an entry needs no memory
  Slots* replaced = nullptr;
  std::atomic<bool> waiting{false};  // something was retired or replaced and is not freed yet
};

Table& table() {
  static Table* instance = new Table;
  return *instance;
}

size_t hash_of(std::string_view key) { return std::hash<std::string_view>{}(key); }

Entry* lookup(std::string_view key, size_t hash) {
  const Slots* slots = table().current.load(std::memory_order_seq_cst);
  for (size_t i = hash & slots->mask;; i = (i + 1) & slots->mask) {
    Entry* entry = slots->slots[i].load(std::memory_order_seq_cst);
    if (entry == nullptr) return nullptr;
    if (entry != tombstone() && entry->hash == hash && entry->key == key) return entry;
  }
}

// The caller has locked the mutex, and the key is not in the table.
void insert(Slots* slots, Entry* entry) {
  size_t i = entry->hash & slots->mask;
  while (slots->slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & slots->mask;
  slots->slots[i].store(entry, std::memory_order_seq_cst);
}

// Enlarges the table if it is too full for one more entry. The caller has locked the mutex. Readers continue with the
// old slots until they have finished.
void make_room(Table& t) {
  Slots* old = t.current.load(std::memory_order_relaxed);
  if (2 * (t.used + 1) <= old->mask + 1) return;
  size_t size = 64;
  while (size < 4 * static_cast<size_t>(t.live + 1)) size *= 2;
  auto* fresh = new Slots(size);
  for (size_t i = 0; i <= old->mask; ++i) {
    Entry* entry = old->slots[i].load(std::memory_order_relaxed);
    if (entry != nullptr && entry != tombstone()) insert(fresh, entry);
  }
  t.used = static_cast<size_t>(t.live);
  t.current.store(fresh, std::memory_order_seq_cst);
  old->next = std::exchange(t.replaced, old);
  t.waiting.store(true, std::memory_order_seq_cst);
}

void remove(Table& t, Entry* entry) noexcept {
  Slots* slots = t.current.load(std::memory_order_relaxed);
  for (size_t i = entry->hash & slots->mask;; i = (i + 1) & slots->mask) {
    if (slots->slots[i].load(std::memory_order_relaxed) != entry) continue;
    slots->slots[i].store(tombstone(), std::memory_order_seq_cst);
    break;
  }
  t.live -= 1;
  entry->next = std::exchange(t.retired, entry);
  t.waiting.store(true, std::memory_order_seq_cst);
}

void drop(Entry* entry) noexcept {
  Table& t = table();
  std::lock_guard<std::mutex> lock(t.mutex);
  entry->handles -= 1;
  if (entry->handles == 0 && !entry->pinned) remove(t, entry);
}

template <class T>
void free_all(T* list) noexcept {
  while (list != nullptr) delete std::exchange(list, list->next);
}

// Frees retired entries if there is no reader. The caller has the GIL but not the mutex, because dropping references
// runs arbitrary Python code, which may call this function again.
void sweep() noexcept {
  Table& t = table();
  Entry* entries;
  Slots* slots;
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    if (t.readers.load(std::memory_order_seq_cst) != 0) return;
    entries = std::exchange(t.retired, nullptr);
    slots = std::exchange(t.replaced, nullptr);
    t.waiting.store(false, std::memory_order_relaxed);
  }
  free_all(entries);
  free_all(slots);
}

int sweep_pending(void*) {
  sweep();
  return 0;
}

}  // namespace

Reader::Reader() { table().readers.fetch_add(1, std::memory_order_seq_cst); }

Reader::~Reader() {
  // An entry that was retired while this reader existed could not be freed. The next bind or release would free it, but
  // that may come much later, and a bound pattern may be large. So we ask the interpreter to sweep soon: this thread
  // does not have the GIL and must not wait for it. (If the interpreter's queue is full, it drops the request; that is
  // harmless.) We read `waiting` after counting out, and its writer reads the count after setting it, so that one of
  // the two sees the other.
  Table& t = table();
  if (t.readers.fetch_sub(1, std::memory_order_seq_cst) == 1 && t.waiting.load(std::memory_order_seq_cst) &&
      Py_IsInitialized()) {
    Py_AddPendingCall(sweep_pending, nullptr);
  }
}

const Entry* Reader::find(std::string_view key) const { return lookup(key, hash_of(key)); }

Entry* bind(std::unique_ptr<Entry> entry, bool pin) {
  Table& t = table();
  entry->hash = hash_of(entry->key);
  Entry* chosen;
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    chosen = lookup(entry->key, entry->hash);
    if (chosen == nullptr) {
      make_room(t);
      chosen = entry.release();
      insert(t.current.load(std::memory_order_relaxed), chosen);
      t.used += 1;
      t.live += 1;
    }
    chosen->handles += 1;
    chosen->pinned |= pin;
  }
  sweep();
  return chosen;  // a duplicate entry is dropped here, outside the mutex
}

Entry* acquire(std::string_view key) {
  std::lock_guard<std::mutex> lock(table().mutex);
  Entry* entry = lookup(key, hash_of(key));
  if (entry != nullptr) entry->handles += 1;
  return entry;
}

void release(Entry* entry) noexcept {
  drop(entry);
  sweep();
}

void release_on_any_thread(Entry* entry) noexcept {
  drop(entry);
  if (Py_IsInitialized()) Py_AddPendingCall(sweep_pending, nullptr);
}

void pin(Entry* entry) noexcept {
  std::lock_guard<std::mutex> lock(table().mutex);
  entry->pinned = true;
}

int64_t live_entries() {
  sweep();
  std::lock_guard<std::mutex> lock(table().mutex);
  return table().live;
}

}  // namespace jsparse
