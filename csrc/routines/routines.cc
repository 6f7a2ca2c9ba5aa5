// Conversions inside XLA programs, on index arrays that only exist at run time. params.h lists their buffers.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <vector>

#include "arrays/number.h"
#include "arrays/swap_axes.h"
#include "assembly/assemble.h"
#include "levels/expand.h"
#include "levels/validate.h"
#include "random/draw.h"
#include "routines/batch.h"
#include "routines/ordered_assembly.h"
#include "routines/unordered_assembly.h"
#include "sort/segments.h"

namespace jsparse {
namespace {

void assemble_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  const int64_t n = p.inputs;
  const char* coords = call.at(1, member, p.layout.count() * n * (p.wide_coordinates ? 8 : 4));
  Assembly out;
  size_t b = 2;
  out.wide = p.wide;
  out.arrays = call.arrays(&b, member);
  out.wide_slots = p.wide_slots;
  out.order = call.at(b, member, n * call.slot_bytes());
  out.starts = {call.at(b + 1, member, (p.nse + 1) * call.slot_bytes()), p.nse + 1};
  out.slots = call.at(b + 2, member, n * call.slot_bytes());
  out.slot_count = slots_with_room(p, out.arrays);
  const Ordered tuples = order(ctx, keys_of(p.layout, coords, p.wide_coordinates, n), n, 0);
  write_assembly(ctx, p.layout, tuples, count_positions(ctx, p.layout, tuples), &out);
}

void expand_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  size_t b = 1;
  const IndexArrays given{p.wide, call.arrays(&b, member)};
  const int64_t row = p.nse * call.index_bytes();
  std::vector<void*> rows;
  for (int d = 0; d < p.layout.count(); ++d) rows.push_back(call.at(b, member, p.layout.count() * row) + d * row);
  expand(ctx, p.layout, given, p.nse, rows);
}

// Returns the coordinates [ndim][count] of the elements that are not zero, in row-major order.
template <class T>
Scratch<T> nonzero_coordinates(Context* ctx, const Params& p, const char* data, int64_t* count) {
  const int64_t n = p.size(), parts = slice_count(ctx, n);
  std::vector<int64_t> starts(static_cast<size_t>(parts) + 1, 0);
  slices(ctx, n, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    starts[static_cast<size_t>(t) + 1] = count_nonzero(p.element, data + begin * p.element.size(), end - begin);
  });
  for (size_t t = 1; t < starts.size(); ++t) starts[t] += starts[t - 1];
  const int64_t total = *count = starts.back();
  Scratch<T> rows(p.layout.count() * total);
  int64_t sizes[kMaxLevels];
  for (const LevelOf& level : p.layout.levels) sizes[level.dim] = level.size;
  const int ndim = p.layout.count();
  slices(ctx, n, parts, [&](int64_t t, int64_t begin, int64_t end) noexcept {
    int64_t at = starts[static_cast<size_t>(t)];
    for_nonzero(p.element, data + begin * p.element.size(), end - begin, [&](int64_t first, uint64_t mask) {
      for (; mask != 0; mask &= mask - 1, ++at) {
        int64_t left = begin + first + __builtin_ctzll(mask);
        for (int d = ndim - 1; d > 0; --d) {
          rows[d * total + at] = static_cast<T>(left % sizes[d]);
          left /= sizes[d];
        }
        if (ndim > 0) rows[at] = static_cast<T>(left);
      }
    });
  });
  return rows;
}

// Writes positions[q], the index of slot q in the dense array in row-major order. For padding it writes the number of
// elements.
template <class Index, class Slot>
void write_positions(Context* ctx, const Params& p, const IndexArrays& arrays, Slot* positions) {
  const int ndim = p.layout.count();
  const Scratch<Index> coords(ndim * p.nse);
  std::vector<void*> rows;
  int64_t sizes[kMaxLevels];
  for (const LevelOf& level : p.layout.levels) sizes[level.dim] = level.size;
  for (int d = 0; d < ndim; ++d) rows.push_back(coords.get() + d * p.nse);
  expand(ctx, p.layout, arrays, p.nse, rows);
  const auto elements = static_cast<Slot>(p.size());
  slices(ctx, p.nse, slice_count(ctx, p.nse), [&](int64_t, int64_t begin, int64_t end) noexcept {
    for (int64_t q = begin; q < end; ++q) {
      int64_t position = 0;
      bool outside = ndim == 0 && q > 0;
      for (int d = 0; d < ndim; ++d) {
        const int64_t c = coords[d * p.nse + q];
        outside |= c >= sizes[d];
        position = position * sizes[d] + c;
        if (outside) break;
      }
      positions[q] = outside ? elements : static_cast<Slot>(position);
    }
  });
}

void nonzero_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  const char* data = call.at(1, member, p.size() * p.element.size());
  size_t b = 2;
  IndexArrays arrays{p.wide, call.arrays(&b, member)};
  Assembly out;
  out.wide = p.wide;
  out.arrays = arrays.arrays;
  out.slot_count = slots_with_room(p, out.arrays);
  int64_t n = 0;
  const auto assemble = [&](const auto& rows, bool wide) {
    const auto keys = keys_of(p.layout, reinterpret_cast<const char*>(rows.get()), wide, n);
    const Ordered tuples = order(ctx, keys, n, 0);
    write_assembly(ctx, p.layout, tuples, count_positions(ctx, p.layout, tuples), &out);
  };
  if (p.wide) assemble(nonzero_coordinates<int64_t>(ctx, p, data, &n), true);
  else assemble(nonzero_coordinates<int32_t>(ctx, p, data, &n), false);
  void* positions = call.at(b, member, p.nse * call.slot_bytes());
  if (p.wide && p.wide_slots) write_positions<int64_t>(ctx, p, arrays, static_cast<int64_t*>(positions));
  else if (p.wide) write_positions<int64_t>(ctx, p, arrays, static_cast<int32_t*>(positions));
  else if (p.wide_slots) write_positions<int32_t>(ctx, p, arrays, static_cast<int64_t*>(positions));
  else write_positions<int32_t>(ctx, p, arrays, static_cast<int32_t*>(positions));
}

void validate_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  size_t b = 1;
  const IndexArrays given{p.wide, call.arrays(&b, member)};
  *reinterpret_cast<int32_t*>(call.at(b, member, 4)) = find_faults(ctx, p.layout, given, p.nse, false);
}

// Writes the faults of the index arrays, and copies the arrays.
void check_one(Context* ctx, const Call& call, int64_t member) {
  validate_one(ctx, call, member);
  size_t b = 1;
  const std::vector<IndexArray> given = call.arrays(&b, member);
  ++b;
  const std::vector<IndexArray> copies = call.arrays(&b, member);
  for (size_t n = 0; n < copies.size(); ++n) {
    const auto bytes = static_cast<size_t>(copies[n].length * call.index_bytes());
    if (bytes > 0) std::memcpy(copies[n].data, given[n].data, bytes);
  }
}

// Exchanges the last two dimensions.
void swap_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  int64_t sizes[2] = {1, 1}, batch = 1;  // sizes of the last two dimensions; product of all other sizes
  const int ndim = p.layout.count();
  for (const LevelOf& level : p.layout.levels) {
    if (level.dim >= ndim - 2) sizes[level.dim - (ndim - 2)] = level.size;
    else batch *= level.size;
  }
  const int64_t bytes = p.size() * p.element.size();
  swap_axes(ctx, call.at(1, member, bytes), call.at(2, member, bytes), batch, sizes[0], sizes[1], p.element.size());
}

// Returns the sizes of the first two dimensions, 0 for those that a layout lacks.
std::array<int64_t, 2> first_sizes(const Layout& layout) {
  std::array<int64_t, 2> sizes = {0, 0};
  for (const LevelOf& level : layout.levels) {
    if (level.dim < 2) sizes[static_cast<size_t>(level.dim)] = level.size;
  }
  return sizes;
}

void draw_one(Context* ctx, const Call& call, int64_t member) {
  const bool wide = call.params.wide_coordinates;
  const int64_t bytes = wide ? 8 : 4;
  const auto [rows, count] = first_sizes(call.params.layout);
  const auto* const key = reinterpret_cast<const uint32_t*>(call.at(1, member, 8));
  draw(ctx, {key, wide, call.at(2, member, rows * bytes), call.at(3, member, rows * count * bytes), rows, count});
}

void number_one(Context*, const Call& call, int64_t member) {
  const Params& p = call.params;
  const int64_t bytes = p.wide_coordinates ? 8 : 4, leading = call.length(1), input_bytes = p.inputs * bytes;
  number({p.wide_coordinates, first_sizes(p.layout)[0], call.at(1, member, leading * bytes), leading,
          call.at(2, member, input_bytes), p.inputs, call.at(3, member, input_bytes), call.at(4, member, p.nse * bytes),
          p.nse});
}

Segments segments_of(const Call& call, int64_t member) {
  const Params& p = call.params;
  const NumberKind kind = p.element.signed_zero ? NumberKind::kFloating
                          : p.is_unsigned       ? NumberKind::kUnsigned
                                                : NumberKind::kSigned;
  return {call.at(1, member, p.inputs * p.element.size()), p.inputs, kind, p.element.bytes == 8,
          call.at(2, member, (p.nse + 1) * call.index_bytes()), p.wide, p.nse};
}

void sort_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  const int64_t bytes = p.inputs * call.index_bytes();
  void* order = p.gives_numbers ? nullptr : call.at(3, member, bytes);
  void* sorted = p.gives_numbers ? call.at(3, member, p.inputs * p.element.size()) : nullptr;
  sort_segments(ctx, segments_of(call, member), p.descending, p.size(), order, sorted, call.at(4, member, bytes));
}

void largest_one(Context* ctx, const Call& call, int64_t member) {
  const Params& p = call.params;
  const auto bools = [&](size_t b) { return reinterpret_cast<uint8_t*>(call.at(b, member, p.inputs)); };
  const int32_t k = *reinterpret_cast<const int32_t*>(call.at(3, member, 4));
  largest_of_segments(ctx, segments_of(call, member), p.by_magnitude, p.has_valid ? bools(4) : nullptr, k,
                      bools(p.has_valid ? 5 : 4));
}

using One = void (*)(Context*, const Call&, int64_t member);

template <One one, bool only_read, bool dense_input = false>
int routine(Context* ctx, void* const* buffers, const int64_t* const* dims) {
  try {
    Params params;
    ctx->error = params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0], only_read);
    if (ctx->error == nullptr && dense_input && (!params.element.known() || params.size() < 0)) {
      ctx->error = "expected elements of 1, 2, 4 or 8 bytes, and at most 64 bits that count";
    }
    if (ctx->error != nullptr) return 1;
    const Call call{params, buffers, dims};
    run_batch(ctx, params.batch, [&](Context* inner, int64_t member) { one(inner, call, member); });
    return 0;
  } catch (const std::exception&) {
    ctx->error = "no memory for converting indices";
    return 2;
  }
}

// A routine on segments of numbers.
template <One one>
int of_numbers(Context* ctx, void* const* buffers, const int64_t* const* dims) {
  Params params;
  const char* error = params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0], true);
  if (error == nullptr && (params.element.parts != 1 || params.element.bytes < 4)) {
    ctx->error = "expected real numbers of 4 or 8 bytes";
    return 1;
  }
  return routine<one, true, true>(ctx, buffers, dims);
}

// Returns a description such as "5 x 7 (dense, compressed)", with the levels in storage order.
std::string shown(const Layout& layout) {
  std::string sizes, kinds;
  std::vector<int64_t> by_dim(static_cast<size_t>(layout.count()));
  for (const LevelOf& level : layout.levels) {
    by_dim[static_cast<size_t>(level.dim)] = level.size;
    kinds += kinds.empty() ? "" : ", ";
    kinds += level.traits().name;
  }
  for (const int64_t size : by_dim) sizes += (sizes.empty() ? "" : " x ") + std::to_string(size);
  return sizes + " (" + kinds + ")";
}

const char* named(int32_t faults) {
  if ((faults & kFaultPointers) != 0) return "pointers that do not start at 0, decrease, or have the wrong length";
  if ((faults & kFaultCoordinates) != 0) return "coordinates outside their dimension";
  return "coordinates that do not increase, or are repeated, below one parent";
}

// Does the same as check_one, but fails if there are faults. Overflow is not a failure, since the result is NaN then.
int check(Context* ctx, void* const* buffers, const int64_t* const* dims) try {
  const int code = routine<check_one, true>(ctx, buffers, dims);
  if (code != 0) return code;
  Params params;
  params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0], true);
  const Call call{params, buffers, dims};
  size_t b = 1;
  call.arrays(&b, 0);
  int32_t faults = 0;
  for (int64_t n = 0; n < params.batch; ++n) faults |= *reinterpret_cast<const int32_t*>(call.at(b, n, 4));
  faults &= ~kFaultOverflow;
  if (faults == 0) return 0;
  thread_local std::string message;
  message = "expected index arrays of a pattern " + shown(params.layout) + ", but there are " + named(faults) +
            "; SparseTensor.validate() says where";
  ctx->error = message.c_str();
  return 1;
} catch (const std::exception&) {
  ctx->error = "no memory for converting indices";
  return 2;
}

// Fails if a pattern, or one of a batch, has more entries than its capacity. A program whose values have no NaN runs it.
int fit(Context* ctx, void* const* buffers, const int64_t* const* dims) try {
  Params params;
  ctx->error = params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0], true);
  if (ctx->error != nullptr) return 1;
  const Call call{params, buffers, dims};
  int64_t count = 0;
  for (int64_t n = 0; n < params.batch; ++n) {
    const char* end = call.at(1, n, call.index_bytes());
    count = std::max(count, params.wide ? *reinterpret_cast<const int64_t*>(end) : *reinterpret_cast<const int32_t*>(end));
    *reinterpret_cast<int32_t*>(call.at(2, n, 4)) = 0;
  }
  const int64_t capacity = params.inputs;
  if (count <= capacity) return 0;
  const int64_t slots = capacity > 0 ? params.nse / capacity : 1;  // below each position that is counted
  const std::string needed = std::to_string(count > INT64_MAX / std::max<int64_t>(slots, 1) ? INT64_MAX : count * slots);
  thread_local std::string message;
  message = "expected at most nse=" + std::to_string(params.nse) + " entries in a tensor " + shown(params.layout) +
            ", but there are " + needed + ": pass nse=" + needed + " or more (integers and booleans have no NaN that "
            "could say so; jsparse.config.overflow = 'cut' drops what exceeds the capacity)";
  ctx->error = message.c_str();
  return 1;
} catch (const std::exception&) {
  ctx->error = "no memory for an error message";
  return 2;
}

}  // namespace

Kernel find_routine(const char* name) {
  if (std::strcmp(name, "assemble") == 0) return routine<assemble_one, false>;
  if (std::strcmp(name, "expand") == 0) return routine<expand_one, true>;
  if (std::strcmp(name, "nonzero") == 0) return routine<nonzero_one, false, true>;
  if (std::strcmp(name, "draw") == 0) return routine<draw_one, true>;
  if (std::strcmp(name, "number") == 0) return routine<number_one, true>;
  if (std::strcmp(name, "swap") == 0) return routine<swap_one, true, true>;
  if (std::strcmp(name, "sort") == 0) return of_numbers<sort_one>;
  if (std::strcmp(name, "largest") == 0) return of_numbers<largest_one>;
  if (std::strcmp(name, "check") == 0) return check;
  if (std::strcmp(name, "fit") == 0) return fit;
  if (std::strcmp(name, "validate") == 0) return routine<validate_one, true>;
  if (std::strcmp(name, "unordered") == 0) return assemble_unordered;
  if (std::strcmp(name, "ordered") == 0) return assemble_ordered;
  return nullptr;
}

}  // namespace jsparse
