#include "lists.h"

#include <cstring>
#include <exception>
#include <initializer_list>
#include <utility>
#include <vector>

#include "problems.h"

namespace jsparse {
namespace {

constexpr int64_t kChunks = 64;  // MAX_CHUNKS of compiler/lower/chunks.py

struct Term {
  Kernel count, write;
  size_t factors, factor_count;  // buffers of values, for the kernel that writes
  size_t first;                 // buffer of its first array
  std::vector<int64_t> widths;  // of batched arrays

  // The kernel on this problem's arrays and two further buffers.
  int run(Kernel kernel, Context* ctx, const Call& call, int64_t problem,
          std::initializer_list<std::pair<void*, const int64_t*>> more) const {
    std::vector<void*> buffers;
    std::vector<const int64_t*> dims;
    for (size_t n = 0; kernel == write && n < factor_count; ++n) {
      buffers.push_back(call.buffers[factors + n]);
      dims.push_back(call.dims[factors + n]);
    }
    for (size_t n = 0; n < widths.size(); ++n) {
      const bool batched = call.params.batched && widths[n] > 0;
      const int64_t* shape = call.dims[first + n];
      buffers.push_back(call.at(first + n, problem, batched ? shape[1] * widths[n] : 0));
      dims.push_back(shape + (batched ? 1 : 0));
    }
    for (const auto& [data, shape] : more) {
      buffers.push_back(data);
      dims.push_back(shape);
    }
    return kernel(ctx, buffers.data(), dims.data());
  }
};

std::vector<Term> read_terms(const int64_t* table, size_t* next) {
  std::vector<Term> terms;
  const int64_t* at = table + 4;
  const size_t factors = *next;
  *next += static_cast<size_t>(table[1]);
  for (int64_t n = 0; n < table[3]; ++n, at += 3 + at[2]) {
    terms.push_back({reinterpret_cast<Kernel>(at[0]), reinterpret_cast<Kernel>(at[1]), factors,
                     static_cast<size_t>(table[1]), *next, {at + 3, at + 3 + at[2]}});
    *next += static_cast<size_t>(at[2]);
  }
  return terms;
}

std::vector<const void*> columns_of(const Layout& layout, const char* rows, bool wide, int64_t n) {
  std::vector<const void*> columns;
  for (const LevelOf& level : layout.levels) columns.push_back(rows + level.dim * n * (wide ? 8 : 4));
  return columns;
}

// The values of the columns, in a result that has room for them or else in memory of our own; the rest of the result is 0.
struct Values {
  char* result;
  int64_t room, bytes;
  Scratch<char> own;

  char* place(int64_t total) {
    if (total <= room) return result;
    own = Scratch<char>(total * bytes);
    return own.get();
  }

  void finish(int64_t total) const {
    if (total > room) std::memcpy(result, own.get(), static_cast<size_t>(room * bytes));
    else std::memset(result + total * bytes, 0, static_cast<size_t>((room - total) * bytes));
  }
};

void lists_one(Context* ctx, const Call& call, const std::vector<Term>& terms, const int64_t* table, size_t results,
               int64_t problem) {
  const bool ordered = table[0] != 0;
  const Params& p = call.params;
  const int64_t chunk_dims[1] = {kChunks};
  std::vector<int64_t> starts(terms.size() * kChunks);
  int64_t total = 0;
  for (size_t t = 0; t < terms.size(); ++t) {
    int64_t* counts = starts.data() + t * kChunks;
    if (terms[t].run(terms[t].count, ctx, call, problem, {{counts, chunk_dims}}) != 0) throw std::bad_alloc();
    for (int64_t c = 0; c < kChunks; ++c) {
      const int64_t count = counts[c];
      counts[c] = total;
      total += count;
    }
  }
  const int64_t ndim = p.layout.count();
  const Scratch<char> rows(std::max<int64_t>(ndim * total * call.index_bytes(), 1));
  const int64_t row_dims[2] = {ndim, total};
  Assembly out;
  out.wide = p.wide;
  out.arrays = call.arrays(&results, problem);
  const bool valued = table[2] > 0;
  Values values;
  if (valued) values = {static_cast<char*>(call.buffers[results]), p.nse, table[2], {}};
  char* const written = valued ? values.place(total) : nullptr;
  for (size_t t = 0; t < terms.size() && total > 0; ++t) {
    int64_t* from = starts.data() + t * kChunks;
    const int code =
        valued ? terms[t].run(terms[t].write, ctx, call, problem,
                              {{from, chunk_dims}, {rows.get(), row_dims}, {written, row_dims + 1}})
               : terms[t].run(terms[t].write, ctx, call, problem, {{from, chunk_dims}, {rows.get(), row_dims}});
    if (code != 0) throw std::bad_alloc();
  }
  if (valued) values.finish(total);
  out.slot_count = slots_with_room(p, out.arrays);
  const Ordered tuples = ordered && p.layout.count() > 0
                             ? as_ordered(ctx, columns_of(p.layout, rows.get(), p.wide, total), p.wide, total)
                             : order(ctx, keys_of(p.layout, rows.get(), p.wide, total), total, 0);
  write_assembly(ctx, p.layout, tuples, count_positions(ctx, p.layout, tuples), &out);
}

}  // namespace

int assemble_lists(Context* ctx, void* const* buffers, const int64_t* const* dims) {
  try {
    Params params;
    ctx->error = params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0]);
    if (ctx->error != nullptr) return 1;
    size_t results = 2;
    const auto* table = static_cast<const int64_t*>(buffers[1]);
    const std::vector<Term> terms = read_terms(table, &results);
    const Call call{params, buffers, dims};
    run_problems(ctx, params.batch, [&](Context* inner, int64_t problem) {
      lists_one(inner, call, terms, table, results, problem);
    });
    return 0;
  } catch (const std::exception&) {
    ctx->error = "no memory for the coordinates that the terms of a sparse result reach";
    return 2;
  }
}

}  // namespace jsparse
