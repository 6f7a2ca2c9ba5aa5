#include "python/conversions.h"

#include <pybind11/numpy.h>
#include <pybind11/stl.h>

#include <array>
#include <cstring>
#include <limits>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "assembly/accumulate.h"
#include "assembly/assemble.h"
#include "assembly/blocks.h"
#include "assembly/transpose.h"
#include "execution/host_executor.h"
#include "levels/expand.h"
#include "levels/level_reader.h"
#include "levels/locate.h"
#include "levels/positions.h"
#include "levels/validate.h"
#include "python/host_arrays.h"
#include "routines/params.h"
#include "routines/terms.h"

namespace py = pybind11;

namespace jsparse {
namespace {

constexpr int64_t kNarrow = std::numeric_limits<int32_t>::max();

using LevelTuple = std::array<int64_t, 4>;  // kind, dimension, unique, size

Layout layout_of(const std::vector<LevelTuple>& levels, bool only_read = false) {
  Layout layout;
  for (const LevelTuple& level : levels) layout.levels.push_back({level[0], level[1], level[2] != 0, level[3]});
  if (const char* wrong = layout.prepare(only_read)) throw py::value_error(wrong);
  return layout;
}

std::vector<Key> keys_of(const std::vector<py::array>& rows, const Layout& layout) {
  if (rows.empty() || rows.size() != layout.levels.size()) throw py::value_error("Expected one row for each of the levels");
  std::vector<Key> keys;
  for (const LevelOf& level : layout.levels) {
    const py::array& row = rows[static_cast<size_t>(level.dim)];
    keys.push_back({row.data(), is_wide(row), level.size});
    if (row.shape(0) != rows[0].shape(0)) throw py::value_error("Expected rows of one length");
  }
  return keys;
}

// The lengths of the index arrays of an exact assembly, and its number of slots.
struct Sizes {
  std::vector<int64_t> lengths;
  int64_t slots = 1;
  bool wide = false;
};

[[noreturn]] void too_many(double positions) {
  PyErr_SetString(PyExc_OverflowError, std::to_string(positions).c_str());
  throw py::error_already_set();
}

Sizes sizes_of(const Layout& layout, const Counts& counts) {
  Sizes out;
  double real = 1;  // number of slots, also if it exceeds 64 bits and `out.slots` is -1
  for (int l = 0; l < layout.count(); ++l) {
    const LevelOf& level = layout.at(l);
    out.wide |= level.size > kNarrow;
    const KindTraits& traits = level.traits();
    if (traits.computed()) {
      real *= static_cast<double>(level.size);
      if (real == 0) out.slots = 0;
      else if (out.slots < 0 || __builtin_mul_overflow(out.slots, level.size, &out.slots)) out.slots = -1;
      continue;
    }
    const int64_t count = counts.total[static_cast<size_t>(layout.chain_begin[static_cast<size_t>(l)])];
    if (traits.pointers) {
      if (out.slots < 0) too_many(real);
      if (out.slots > (int64_t{1} << 48)) throw std::bad_alloc();
      out.lengths.push_back(out.slots + 1);
    }
    if (traits.starts) out.lengths.push_back(out.slots);
    if (traits.coordinates) out.lengths.push_back(count);
    if (count >= kFar) too_many(static_cast<double>(count));
    out.wide |= count > kNarrow;
    out.slots = count;
    real = static_cast<double>(count);
  }
  if (out.slots < 0) too_many(real);
  out.wide |= out.slots > kNarrow;
  for (const int64_t length : out.lengths) out.wide |= length > kNarrow;
  return out;
}

py::object assemble(const std::vector<py::array>& rows, const std::vector<LevelTuple>& levels, int sorted_suffix) {
  const Layout layout = layout_of(levels);
  const std::vector<Key> keys = keys_of(rows, layout);
  const int64_t n = rows[0].shape(0);
  Ordered tuples;
  Counts counts;
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) {
      tuples = order(ctx, keys, n, sorted_suffix);
      counts = count_positions(ctx, layout, tuples);
    });
  }
  if (tuples.count < n) return py::none();
  const Sizes sizes = sizes_of(layout, counts);
  const int64_t groups = counts.total.back();
  Assembly out;
  out.wide = sizes.wide;
  py::list arrays;
  for (const int64_t length : sizes.lengths) {
    const py::array array = make_array(index_type(sizes.wide), length);
    out.arrays.push_back({const_cast<void*>(array.data()), length});
    arrays.append(array);
  }
  out.wide_slots = std::max(n, sizes.slots) > kNarrow;
  out.slot_count = sizes.slots;
  const auto optional_array = [&](bool needed, int64_t length, void** data) -> py::object {
    if (!needed) return py::none();
    const py::array array = make_array(index_type(out.wide_slots), length);
    *data = const_cast<void*>(array.data());
    return array;
  };
  const bool repeats = groups < n;
  const py::object first = optional_array(!tuples.in_order || repeats, groups, &out.first);
  const py::object group_slots = optional_array(groups < sizes.slots, groups, &out.group_slots);
  const py::object extra = optional_array(repeats, n - groups, &out.extra);
  const py::object extra_group = optional_array(repeats, n - groups, &out.extra_group);
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { write_assembly(ctx, layout, tuples, counts, &out); });
  }
  return py::make_tuple(py::tuple(arrays), sizes.slots, first, group_slots, extra, extra_group);
}

bool number_of(const py::array& values, Number* number) {
  const char kind = values.dtype().kind();
  const auto bytes = values.itemsize();
  const bool integer = kind == 'i' || kind == 'u';
  if (kind == 'f' && bytes == 4) *number = Number::kFloat;
  else if (kind == 'f' && bytes == 8) *number = Number::kDouble;
  else if (integer && bytes == 4) *number = Number::kWord;
  else if (integer && bytes == 8) *number = Number::kLong;
  else if (kind == 'c' && bytes == 8) *number = Number::kComplex;
  else return false;
  const bool aligned = reinterpret_cast<uintptr_t>(values.data()) % static_cast<size_t>(bytes) == 0;
  return contiguous(values) && aligned && values.dtype().attr("isnative").cast<bool>();
}

// Returns the first `count` elements of a vector of `room` elements. If nearly all are in use, the result is a view,
// and the unused memory stays allocated.
py::object trimmed(const py::array& array, int64_t room, int64_t count) {
  if (count == room) return array;
  if (count >= room - room / 8) return array[py::slice(0, count, 1)];
  const py::array copy = make_array(array.dtype(), count);
  std::memcpy(const_cast<void*>(copy.data()), array.data(), static_cast<size_t>(count * array.itemsize()));
  return copy;
}

py::object accumulate(const std::vector<py::array>& rows, const std::vector<LevelTuple>& levels, const py::array& values) {
  const Layout layout = layout_of(levels);
  const std::vector<Key> keys = keys_of(rows, layout);
  const int64_t n = rows[0].shape(0);
  Number number{};
  if (values.ndim() != 1 || values.shape(0) != n) throw py::value_error("Expected one value for each entry");
  if (!number_of(values, &number)) return py::none();
  Accumulation work(layout, keys, n, values.data(), number);
  bool ok = false;
  const auto without_gil = [&](const auto& f) {
    py::gil_scoped_release nogil;
    on_host(f);
  };
  without_gil([&](Context* ctx) { ok = work.survey(ctx); });
  if (!ok) return py::none();
  Accumulated out;
  const auto data = [](const py::array& array) { return const_cast<void*>(array.data()); };
  const py::array pointers = make_array(index_type(false), work.parents() + 1), sums = make_array(values.dtype(), n);
  std::vector<py::array> coordinates;
  for (int l = 0; l < work.chain(); ++l) {
    coordinates.push_back(make_array(index_type(false), n));
    out.coordinates.push_back(static_cast<int32_t*>(data(coordinates.back())));
  }
  out.pointers = static_cast<int32_t*>(data(pointers));
  out.values = data(sums);
  without_gil([&](Context* ctx) { ok = work.run(ctx, &out); });
  if (!ok) return py::none();
  py::list arrays;
  arrays.append(pointers);
  for (const py::array& row : coordinates) arrays.append(trimmed(row, n, out.count));
  return py::make_tuple(py::tuple(arrays), out.count, trimmed(sums, n, out.count));
}

template <class Index>
py::object transpose_typed(const py::array& keys, int64_t size, const py::array& rows, bool pointers) {
  const auto read = [](const py::array& a) { return static_cast<const Index*>(a.data()); };
  const int64_t n = keys.shape(0);
  const py::dtype type = py::dtype::of<Index>();
  const py::array out[] = {make_array(type, size + 1), make_array(type, n), make_array(type, n)};
  const auto write = [&](int a) { return static_cast<Index*>(const_cast<void*>(out[a].data())); };
  const Transposition<Index> work{read(keys), n, size, pointers ? nullptr : read(rows), read(rows), rows.shape(0) - 1,
                                  write(0), write(1), write(2)};
  bool ok = true;
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { ok = work.run(ctx); });
  }
  if (!ok) throw py::value_error("Expected keys in [0, " + std::to_string(size) + ") and pointers that rise to their number");
  return py::make_tuple(out[0], out[1], out[2]);
}

py::object transpose(const py::array& keys, int64_t size, const py::array& rows, bool pointers) {
  const bool wide = is_wide(keys);
  if (is_wide(rows) != wide || size < 0 || (pointers ? rows.shape(0) < 1 : rows.shape(0) != keys.shape(0))) {
    throw py::value_error("Expected keys and rows of one type and length, or pointers");
  }
  return wide ? transpose_typed<int64_t>(keys, size, rows, pointers) : transpose_typed<int32_t>(keys, size, rows, pointers);
}

template <class Index>
py::object block_typed(const py::array& pointers, const py::array& columns, int64_t column_count, int64_t height, int64_t width) {
  const Blocking<Index> work{static_cast<const Index*>(pointers.data()), static_cast<const Index*>(columns.data()),
                             pointers.shape(0) - 1, column_count, columns.shape(0), height, width};
  const auto data = [](const py::array& array) { return static_cast<Index*>(const_cast<void*>(array.data())); };
  const py::dtype type = py::dtype::of<Index>();
  const py::array starts = make_array(type, work.block_rows() + 1);
  bool ok = true;
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { ok = work.count(ctx, data(starts)); });
  }
  if (!ok) throw py::value_error("Expected columns in [0, " + std::to_string(column_count) + ") and pointers that rise to their number");
  const int64_t blocks = data(starts)[work.block_rows()];
  int64_t slot_count;
  if (__builtin_mul_overflow(height, width, &slot_count) || __builtin_mul_overflow(slot_count, blocks, &slot_count)) throw std::bad_alloc();
  const bool wide = sizeof(Index) == 8 || slot_count > kNarrow;
  const py::array block_columns = make_array(type, blocks), slots = make_array(index_type(wide), work.n);
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) {
      void* to = const_cast<void*>(slots.data());
      if (wide) work.write(ctx, data(starts), data(block_columns), static_cast<int64_t*>(to));
      else work.write(ctx, data(starts), data(block_columns), static_cast<Index*>(to));
    });
  }
  return py::make_tuple(starts, block_columns, slots);
}

py::object block(const py::array& pointers, const py::array& columns, int64_t column_count, int64_t height, int64_t width) {
  const bool wide = is_wide(columns);
  if (is_wide(pointers) != wide || pointers.shape(0) < 1 || column_count < 0 || height < 1 || width < 1) {
    throw py::value_error("Expected pointers and columns of one type, and blocks with at least one row and one column");
  }
  return wide ? block_typed<int64_t>(pointers, columns, column_count, height, width)
              : block_typed<int32_t>(pointers, columns, column_count, height, width);
}

IndexArrays given_arrays(const Layout& layout, const std::vector<py::array>& arrays) {
  IndexArrays given;
  const size_t expected = layout.array_count();
  if (arrays.size() != expected) throw py::value_error("Expected " + std::to_string(expected) + " index arrays");
  for (size_t a = 0; a < arrays.size(); ++a) {
    const bool wide = is_wide(arrays[a]);
    if (a > 0 && wide != given.wide) throw py::type_error("Expected index arrays of one type");
    given.wide = wide;
    given.arrays.push_back({const_cast<void*>(arrays[a].data()), arrays[a].shape(0)});
  }
  return given;
}

py::list expand_arrays(const std::vector<py::array>& arrays, const std::vector<LevelTuple>& levels, int64_t nse,
                       const std::vector<bool>& wanted, bool wide) {
  const Layout layout = layout_of(levels, true);
  IndexArrays given = given_arrays(layout, arrays);
  if (arrays.empty()) given.wide = wide;
  if (wanted.size() != levels.size() || nse < 0) throw py::value_error("Expected a bool for each dimension");
  py::list out;
  std::vector<void*> rows;
  for (const bool wish : wanted) {
    out.append(wish ? py::object(make_array(index_type(given.wide), nse)) : py::none());
    rows.push_back(wish ? const_cast<void*>(py::cast<py::array>(out[out.size() - 1]).data()) : nullptr);
  }
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { expand(ctx, layout, given, nse, rows); });
  }
  return out;
}

// Returns the slot of each point as int64 if there are too many slots for int32.
py::array locate_points(const std::vector<py::array>& arrays, const std::vector<LevelTuple>& levels, int64_t nse,
                        const std::vector<py::array>& points) {
  const Layout layout = layout_of(levels, true);
  const IndexArrays given = given_arrays(layout, arrays);
  std::vector<Key> by_dim(points.size());
  const std::vector<Key> by_level = keys_of(points, layout);
  for (size_t l = 0; l < by_level.size(); ++l) by_dim[static_cast<size_t>(layout.levels[l].dim)] = by_level[l];
  const int64_t count = points[0].shape(0);
  const bool wide = nse > kNarrow;
  const py::array slots = make_array(index_type(wide), count);
  void* to = const_cast<void*>(slots.data());
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { locate(ctx, layout, given, nse, by_dim, count, to, wide); });
  }
  return slots;
}

int32_t faults(const std::vector<py::array>& arrays, const std::vector<LevelTuple>& levels, int64_t slots) {
  const Layout layout = layout_of(levels, true);
  const IndexArrays given = given_arrays(layout, arrays);
  int32_t found = 0;
  {
    py::gil_scoped_release nogil;
    on_host([&](Context* ctx) { found = find_faults(ctx, layout, given, slots, true); });
  }
  return found;
}

uintptr_t routine(const std::string& name) {
  const Kernel found = find_routine(name.c_str());
  if (found == nullptr) {
    throw py::key_error("Expected one of assemble, check, draw, expand, fit, largest, nonzero, number, sort, swap, "
                        "validate, but got " + name);
  }
  return reinterpret_cast<uintptr_t>(found);
}

}  // namespace

void define_conversions(py::module_& m) {
  m.def("assemble", &assemble, py::arg("rows"), py::arg("levels"), py::arg("sorted_suffix") = 0);
  m.def("accumulate", &accumulate, py::arg("rows"), py::arg("levels"), py::arg("values"));
  m.def("expand", &expand_arrays, py::arg("arrays"), py::arg("levels"), py::arg("nse"), py::arg("wanted"), py::arg("wide"));
  m.def("locate", &locate_points, py::arg("arrays"), py::arg("levels"), py::arg("nse"), py::arg("points"));
  m.def("faults", &faults, py::arg("arrays"), py::arg("levels"), py::arg("slots") = kUnknown);
  m.def("transpose", &transpose, py::arg("keys"), py::arg("size"), py::arg("rows"), py::arg("pointers"));
  m.def("block", &block, py::arg("pointers"), py::arg("columns"), py::arg("column_count"), py::arg("height"), py::arg("width"));
  m.def("routine", &routine, py::arg("name"));
  m.attr("PARAMS_VERSION") = kParamsVersion;
  m.attr("MAX_CHUNKS") = kChunks;
  py::dict kinds;
  for (int64_t kind = 0; kind < kKindCount; ++kind) kinds[kKinds[kind].name] = kind;
  m.attr("LEVEL_KINDS") = kinds;
}

}  // namespace jsparse
