#include "execution/call_table.h"

#include <functional>
#include <mutex>

namespace jsparse {
namespace {

// Open addressing with linear probing, a power of two in size and at most half full.
struct Slots {
  explicit Slots(size_t size) : mask(size - 1), slots(new std::atomic<Entry*>[size]) {
    for (size_t i = 0; i < size; ++i) slots[i].store(nullptr, std::memory_order_relaxed);
  }

  const size_t mask;
  const std::unique_ptr<std::atomic<Entry*>[]> slots;
};

// Marks a slot whose entry was retired: probing goes on past it.
Entry* tombstone() {
  static Entry entry;
  return &entry;
}

// Never destroyed: programs may still run, and handles still die, while the process tears itself down.
struct Table {
  // Freeing what readers may still see. A reader counts itself in, then reads the table; whoever retires an entry first
  // takes it out of the table, then reads the count. All four operations are sequentially consistent, so they have one
  // total order, and a count of 0 seen after the removal means that each reader either counts itself in later, and then
  // finds the slot already empty, or has counted itself out: that decrement is a release which the load of 0 reads from
  // (directly, or through the later increments and decrements, which continue its release sequence), so everything that
  // reader did happens before the freeing. The same holds for a table of slots replaced by a larger one.
  // (A store-release and a load-acquire would not do: the load of the count could then overtake the removal.)
  std::atomic<int64_t> readers{0};
  std::atomic<Slots*> current{new Slots(64)};

  std::mutex mutex;  // guards all below, and writing the slots
  int64_t live = 0;
  size_t used = 0;  // slots that are not null: live entries and tombstones
  std::vector<Entry*> retired;
  std::vector<Slots*> replaced;
  std::atomic<bool> waiting{false};  // something is retired or replaced, not yet freed
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

// With the mutex held, and the key known to be absent.
void insert(Slots* slots, Entry* entry) {
  size_t i = entry->hash & slots->mask;
  while (slots->slots[i].load(std::memory_order_relaxed) != nullptr) i = (i + 1) & slots->mask;
  slots->slots[i].store(entry, std::memory_order_seq_cst);
}

// With the mutex held: room for one more. Readers go on in the old slots until they have finished.
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
  t.replaced.push_back(old);
  t.waiting.store(true, std::memory_order_seq_cst);
}

void remove(Table& t, Entry* entry) {
  Slots* slots = t.current.load(std::memory_order_relaxed);
  for (size_t i = entry->hash & slots->mask;; i = (i + 1) & slots->mask) {
    if (slots->slots[i].load(std::memory_order_relaxed) != entry) continue;
    slots->slots[i].store(tombstone(), std::memory_order_seq_cst);
    break;
  }
  t.live -= 1;
  t.retired.push_back(entry);
  t.waiting.store(true, std::memory_order_seq_cst);
}

// Frees what is retired if no reader is about. With the GIL, without the mutex: dropping references runs arbitrary
// Python code, which may come back here.
void sweep() {
  Table& t = table();
  std::vector<Entry*> entries;
  std::vector<Slots*> slots;
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    if (t.readers.load(std::memory_order_seq_cst) != 0) return;
    entries.swap(t.retired);
    slots.swap(t.replaced);
    t.waiting.store(false, std::memory_order_relaxed);
  }
  for (Entry* entry : entries) delete entry;
  for (Slots* replaced : slots) delete replaced;
}

int sweep_pending(void*) {
  sweep();
  return 0;
}

}  // namespace

Reader::Reader() { table().readers.fetch_add(1, std::memory_order_seq_cst); }

Reader::~Reader() {
  // Whoever retired something while we ran could not free it. The next call to be bound or released would, but that may
  // be long in coming and a bound pattern large, so the interpreter is asked to sweep soon: this thread does not hold
  // the GIL and must not wait for it. (A request that finds the interpreter's queue full is dropped; that is harmless.)
  // `waiting` is read after counting out, as its writer reads the count after setting it: one of the two sees the
  // other.
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

void release(Entry* entry) {
  Table& t = table();
  {
    std::lock_guard<std::mutex> lock(t.mutex);
    entry->handles -= 1;
    if (entry->handles == 0 && !entry->pinned) remove(t, entry);
  }
  sweep();
}

int64_t live_entries() {
  sweep();
  std::lock_guard<std::mutex> lock(table().mutex);
  return table().live;
}

}  // namespace jsparse
