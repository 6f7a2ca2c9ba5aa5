// Feeds the routines garbage, under AddressSanitizer: see test_stress.py. Every buffer is a heap block of its exact size.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "execution/host_executor.h"
#include "levels/select.h"
#include "routines/params.h"

using namespace jsparse;

namespace {

std::mt19937_64 random_bits;

int64_t below(int64_t n) { return static_cast<int64_t>(random_bits() % static_cast<uint64_t>(n)); }

int64_t scale = 1;  // large enough, now and then, for several threads

int64_t garbage() {
  const int64_t extremes[] = {0, -1, INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int64_t{1} << 62, int64_t{1} << 32};
  return below(4) == 0 ? extremes[below(8)] : below(4) == 0 ? static_cast<int64_t>(random_bits()) : below(12 * scale) - 2;
}

struct Buffer {
  std::vector<char> bytes;
  int64_t dims[4];
  void fill(int64_t item) {
    for (size_t at = 0; at + static_cast<size_t>(item) <= bytes.size(); at += static_cast<size_t>(item)) {
      const int64_t value = garbage();
      __builtin_memcpy(bytes.data() + at, &value, static_cast<size_t>(item));
    }
  }
};

Buffer garbage_buffer(int64_t batch, int64_t length, int64_t item) {
  Buffer made;
  made.bytes.resize(static_cast<size_t>(batch * length * item));
  made.dims[0] = batch, made.dims[1] = length;
  made.fill(item);
  return made;
}

Buffer params_buffer(const std::vector<int64_t>& params) {
  Buffer made;
  made.bytes.resize(params.size() * 8);
  __builtin_memcpy(made.bytes.data(), params.data(), params.size() * 8);
  made.dims[0] = static_cast<int64_t>(params.size());
  return made;
}

void run_routine(const char* name, std::vector<Buffer>* buffers, bool may_fail) {
  std::vector<void*> data;
  std::vector<const int64_t*> shapes;
  for (Buffer& b : *buffers) data.push_back(b.bytes.data()), shapes.push_back(b.dims);
  std::string error;
  const int code = run_on_host(find_routine(name), data.data(), shapes.data(), 2, &error);
  if (code != 0 && !may_fail) std::printf("%s: %d %s\n", name, code, error.c_str()), std::exit(1);
}

// What the capacities of the levels are is up to the caller: any are safe, also such as belong to no nse.
void run_one(const char* name) {
  const int64_t levels = below(scale > 1 ? 4 : 5), batch = below(4), nse = below(20 * scale), n = below(30 * scale), wide = below(2), places = below(2);
  const int64_t coordinates = below(2), bytes = int64_t{1} << below(4), kind = below(3);
  std::vector<int64_t> params{1, wide | places << 1 | coordinates << 2 | 8, batch, n, nse, bytes, kind, levels};
  std::vector<int64_t> dims;
  for (int64_t l = 0; l < levels; ++l) dims.insert(dims.begin() + below(l + 1), l);
  std::vector<Buffer> arrays;
  const auto buffer = [&](int64_t length, int64_t item) { return garbage_buffer(batch, length, item); };
  int64_t elements = 1, above = 0;
  const bool dense = name == std::string("nonzero") || name == std::string("swap"), huge = !dense && below(8) == 0;
  for (int64_t l = 0; l < levels; ++l) {
    const int64_t top[] = {kDense, kCompressed, kRange};
    const int64_t level = l == 0 || kKinds[above].gaps ? top[below(3)] : below(kKindCount), size = huge ? int64_t{1} << below(63) : below(6 * (scale > 1 ? 12 : 1));
    params.insert(params.end(), {level, dims[static_cast<size_t>(l)], level == kRange ? 1 : below(2), size});
    elements = huge ? 0 : elements * size;
    for (int a = kKinds[level].arrays(); a > 0; --a) arrays.push_back(buffer(below(25 * scale), wide ? 8 : 4));
    above = level;
  }
  std::vector<Buffer> buffers{params_buffer(params)};
  const int64_t place = places ? 8 : 4, index = wide ? 8 : 4;
  if (name == std::string("assemble")) buffers.push_back(buffer(levels * n, coordinates ? 8 : 4));
  const int64_t whole = elements * bytes * (kind == 2 ? 2 : 1);
  if (dense) buffers.push_back(buffer(whole, 1));
  if (name == std::string("swap")) arrays.clear();
  for (Buffer& array : arrays) buffers.push_back(std::move(array));
  if (name == std::string("assemble")) {
    for (const int64_t length : {n, nse + 1, n}) buffers.push_back(buffer(length, place));
  } else if (name == std::string("swap")) {
    buffers.push_back(buffer(whole, 1));
  } else {
    buffers.push_back(name[0] == 'e' ? buffer(levels * nse, index) : name[0] == 'n' ? buffer(nse, place) : buffer(1, 4));
  }
  run_routine(name, &buffers, huge);
}

// Runs a routine on numbers that lie in segments, or are drawn, numbered or counted.
void run_on_numbers(const std::string& name) {
  const int64_t batch = below(4), inputs = below(30 * scale), nse = below(20 * scale), wide = below(2), wide_numbers = below(2);
  const int64_t item = int64_t{4} << below(2), kinds[] = {0, 1, 3}, kind = kinds[below(3)];
  const int64_t flags = wide | wide_numbers << 2 | 8 | below(2) << 4 | below(2) << 5 | below(2) << 6 | below(2) << 7;
  const int64_t index = wide ? 8 : 4, number = wide_numbers ? 8 : 4, rows = below(6), count = below(12 * scale);
  const int64_t size = below(8) == 0 ? int64_t{1} << below(63) : below(40 * scale);
  std::vector<int64_t> params{1, flags, batch, inputs, nse, item, kind, 1, kDense, 0, 1, size};
  if (name == "draw") params[7] = 2, params[11] = rows, params.insert(params.end(), {kDense, 1, 1, count});
  std::vector<Buffer> buffers{params_buffer(params)};
  const auto add = [&](int64_t length, int64_t bytes) { buffers.push_back(garbage_buffer(batch, length, bytes)); };
  if (name == "draw") {
    add(2, 4), add(rows, number), add(rows * count, number);
  } else if (name == "number") {
    add(below(9), number), add(inputs, number), add(inputs, number), add(nse, number);
  } else if (name == "fit") {
    add(1, index), add(1, 4);
  } else {
    add(inputs, item), add(nse + 1, index);
    if (name == "sort") add(inputs, (flags & 128) != 0 ? item : index), add(inputs, index);
    else add(1, 4);
    if (name == "largest" && (flags & 64) != 0) add(inputs, 1);
    if (name == "largest") add(inputs, 1);
  }
  run_routine(name.c_str(), &buffers, name == "fit");
}

// Selects from garbage, some of it valid for long enough to be walked. Whatever is selected is written to arrays of the
// size that was announced.
template <class Index>
void select_one() {
  const int64_t levels = 1 + below(3), above = below(6), positions = below(below(4) == 0 ? 300 : 20), most = below(8) == 0 ? INT32_MAX : 12;
  const auto garbage_array = [&](int64_t length) {
    std::vector<Index> made(static_cast<size_t>(length));
    for (Index& x : made) x = static_cast<Index>(below(6) == 0 ? garbage() : below(most));
    return made;
  };
  std::vector<Index> pointers = garbage_array(above + 1), parents = garbage_array(below(9));
  if (below(4) != 0) {
    for (Index& x : pointers) x = static_cast<Index>(below(positions + 1));
    for (Index& x : parents) x = static_cast<Index>(below(above + 1));
    std::sort(pointers.begin(), pointers.end());
  }
  std::vector<std::vector<Index>> from, to;
  std::vector<Index*> written;
  Segments<Index> in{pointers.data(), above, {}, positions, nullptr, above};
  if (below(2) == 0) in.parents = parents.data(), in.parent_count = static_cast<int64_t>(parents.size());
  std::vector<Progression> wanted;
  for (int64_t l = 0; l < levels; ++l) {
    from.push_back(garbage_array(positions));
    if (below(2) == 0) std::sort(from.back().begin(), from.back().end());
    const int64_t start = below(most), step = 1 + below(below(2) == 0 ? 1 : most), size = below((most - start) / step + 1);
    wanted.push_back(below(2) == 0 || size == 0 ? Progression{start, step, size} : Progression{start + (size - 1) * step, -step, size});
    if (!wanted.back().fits(INT32_MAX)) std::puts("a progression that does not fit"), std::exit(1);
  }
  for (std::vector<Index>& array : from) in.coordinates.push_back(array.data());
  Selecting<Index> selecting(in, wanted);
  if (selecting.narrow() != SelectFault::kNone) return;
  const auto room = static_cast<size_t>(selecting.most());
  std::vector<Index> ends(static_cast<size_t>(in.parent_count) + 1), places(room);
  for (int64_t l = 0; l < levels; ++l) to.emplace_back(room);
  for (std::vector<Index>& array : to) written.push_back(array.data());
  int64_t count = 0;
  if (selecting.write(ends.data(), written, places.data(), &count) == SelectFault::kNone) {
    for (size_t l = 0; l < to.size(); ++l) {
      for (int64_t i = 0; i < count; ++i) {
        const int64_t c = to[l][static_cast<size_t>(i)];
        if (c < 0 || c >= wanted[l].size) std::puts("select: a coordinate outside"), std::exit(1);
      }
    }
  }
}

}  // namespace

int main(int, char** argv) {
  const int rounds = std::atoi(argv[1]);
  for (int round = 0; round < rounds; ++round) {
    scale = round % 128 == 0 ? 5000 : 1;
    random_bits.seed(static_cast<uint64_t>(round));
    for (const char* name : {"assemble", "expand", "nonzero", "swap", "validate"}) run_one(name);
    for (const char* name : {"draw", "fit", "largest", "number", "sort"}) run_on_numbers(name);
    for (int again = 0; again < 20; ++again) select_one<int32_t>(), select_one<int64_t>();
  }
  std::puts("ok");
}
