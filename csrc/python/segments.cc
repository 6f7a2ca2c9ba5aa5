// The functions of the module that take, join, merge and pair the segments of compressed levels.
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <optional>
#include <utility>
#include <vector>

#include "execution/host_executor.h"
#include "levels/segments.h"
#include "python/conversions.h"
#include "python/host_arrays.h"

namespace jsparse {
namespace {

using Pair = std::pair<py::array, py::array>;  // pointers and coordinates

template <class Index>
Index* data_of(const py::array& array) {
  return static_cast<Index*>(const_cast<void*>(array.data()));
}

void check_type(const py::array& array, bool wide) {
  if (is_wide(array) != wide) throw py::type_error("Expected index arrays of one type");
}

bool type_of(const std::vector<Pair>& parts) {
  if (parts.empty()) throw py::value_error("Expected at least one part");
  const bool wide = is_wide(parts[0].first);
  for (const auto& [pointers, coordinates] : parts) {
    check_type(pointers, wide);
    check_type(coordinates, wide);
    if (pointers.shape(0) == 0) throw py::value_error("Expected at least one pointer");
  }
  return wide;
}

template <class Index>
SegmentsOf<Index> segments_of(const Pair& part) {
  return {data_of<Index>(part.first), part.first.shape(0) - 1, data_of<Index>(part.second), part.second.shape(0)};
}

// Runs an operation. Returns the pointers and `outputs` further arrays of one element for each position.
template <class Index, class Operation, class Write>
py::tuple run(const Operation& operation, int64_t parents, int outputs, const Write& write) {
  const py::dtype type = index_type(sizeof(Index) == 8);
  const py::array pointers = make_array(type, parents + 1);
  int64_t count = 0;
  const auto without_lock = [](const auto& work) {
    py::gil_scoped_release nogil;
    on_host(work);
  };
  without_lock([&](Context* ctx) { count = operation.count(ctx, data_of<Index>(pointers)); });
  if (count < 0) throw py::value_error("Expected at most as many entries as the type of the index arrays can count");
  py::tuple found(outputs + 1);
  found[0] = pointers;
  std::vector<Index*> to;
  for (int n = 0; n < outputs; ++n) {
    const py::array made = make_array(type, count);
    to.push_back(data_of<Index>(made));
    found[static_cast<size_t>(n) + 1] = made;
  }
  without_lock([&](Context* ctx) { write(ctx, data_of<Index>(pointers), to.data()); });
  return found;
}

template <class Index>
py::tuple take_as(const Pair& part, const std::optional<py::array>& parents, const std::optional<py::array>& starts,
                  const std::optional<py::array>& items, int64_t size, bool increases) {
  Taking<Index> work{segments_of<Index>(part), parents ? data_of<Index>(*parents) : nullptr,
                     parents ? parents->shape(0) : part.first.shape(0) - 1, {}};
  if (items) {
    work.table.items = data_of<Index>(*items);
    work.table.listed = items->shape(0);
    work.table.starts = starts ? data_of<Index>(*starts) : nullptr;
    work.table.extent = starts ? starts->shape(0) - 1 : items->shape(0);
    work.table.size = size;
    work.table.increases = increases;
  }
  return run<Index>(work, work.parent_count, 2,
                    [&](Context* ctx, const Index* pointers, Index** to) { work.write(ctx, pointers, to[0], to[1]); });
}

py::tuple take_segments(const py::array& pointers, const py::array& coordinates, const std::optional<py::array>& parents,
                        const std::optional<py::array>& starts, const std::optional<py::array>& items, int64_t size,
                        bool increases) {
  const Pair part{pointers, coordinates};
  const bool wide = type_of({part});
  for (const auto* array : {&parents, &starts, &items}) {
    if (*array) check_type(**array, wide);
  }
  if (starts && (!items || starts->shape(0) == 0)) throw py::value_error("Expected items for at least one start");
  return wide ? take_as<int64_t>(part, parents, starts, items, size, increases)
              : take_as<int32_t>(part, parents, starts, items, size, increases);
}

template <class Index>
py::tuple join_as(const std::vector<Pair>& parts, const std::vector<int64_t>& shifts) {
  Joining<Index> work;
  for (const Pair& part : parts) work.parts.push_back(segments_of<Index>(part));
  work.shifts = shifts;
  return run<Index>(work, work.parts[0].parents, 2,
                    [&](Context* ctx, const Index* pointers, Index** to) { work.write(ctx, pointers, to[0], to[1]); });
}

py::tuple join_segments(const std::vector<Pair>& parts, const std::vector<int64_t>& shifts) {
  const bool wide = type_of(parts);
  if (shifts.size() != parts.size()) throw py::value_error("Expected a shift for each part");
  for (const Pair& part : parts) {
    if (part.first.shape(0) != parts[0].first.shape(0)) throw py::value_error("Expected the same parents in all parts");
  }
  return wide ? join_as<int64_t>(parts, shifts) : join_as<int32_t>(parts, shifts);
}

template <class Index>
py::tuple pair_as(const Pair& first, const Pair& second) {
  const Pairing<Index> work{segments_of<Index>(first), segments_of<Index>(second)};
  return run<Index>(work, work.first.parents * work.second.parents, 2,
                    [&](Context* ctx, const Index* pointers, Index** to) { work.write(ctx, pointers, to[0], to[1]); });
}

py::tuple pair_segments(const Pair& first, const Pair& second) {
  const bool wide = type_of({first, second});
  int64_t parents;
  if (__builtin_mul_overflow(first.first.shape(0), second.first.shape(0), &parents)) throw std::bad_alloc();
  return wide ? pair_as<int64_t>(first, second) : pair_as<int32_t>(first, second);
}

}  // namespace

void define_segments(py::module_& m) {
  m.def("take_segments", &take_segments, py::arg("pointers"), py::arg("coordinates"), py::arg("parents") = py::none(),
        py::arg("starts") = py::none(), py::arg("items") = py::none(), py::arg("size") = 0, py::arg("increases") = true);
  m.def("join_segments", &join_segments, py::arg("parts"), py::arg("shifts"));
  m.def("pair_segments", &pair_segments, py::arg("first"), py::arg("second"));
}

}  // namespace jsparse
