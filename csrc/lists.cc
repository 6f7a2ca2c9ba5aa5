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
constexpr int64_t kRoom = int64_t{1} << 28;  // columns that are written at once, unless a chunk alone may have more

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

// Columns as kernels wrote them: chunk c of term t from starts[t * kChunks + c] to ends[...], with gaps where a chunk has
// fewer than it was given room for.
struct Written {
  int64_t room = 0;
  Scratch<char> rows, values;
  std::vector<int64_t> starts, ends;
};

// How many chunks from `first` on have room together.
size_t chunks_with_room(const std::vector<int64_t>& counts, size_t first) {
  size_t last = first;
  for (int64_t sum = 0; last < counts.size(); ++last) {
    sum += counts[last];
    if (sum > kRoom && last > first) break;
  }
  return last;
}

struct Lists {
  Context* ctx;
  const Call& call;
  const std::vector<Term>& terms;
  const int64_t* table;
  int64_t problem;

  int64_t ndim() const { return call.params.layout.count(); }
  int64_t value_bytes() const { return table[2]; }

  std::vector<int64_t> count() const {
    const int64_t dims[1] = {kChunks};
    std::vector<int64_t> counts(terms.size() * kChunks);
    for (size_t t = 0; t < terms.size(); ++t) {
      if (terms[t].run(terms[t].count, ctx, call, problem, {{counts.data() + t * kChunks, dims}}) != 0) throw std::bad_alloc();
    }
    return counts;
  }

  Written write(const std::vector<int64_t>& counts, size_t first, size_t last) const {
    Written out;
    out.starts.assign(counts.size(), -1);
    for (size_t c = first; c < last; ++c) {
      out.starts[c] = out.room;
      out.room += counts[c];
    }
    out.ends = out.starts;
    if (out.room == 0) return out;
    const int64_t chunk_dims[1] = {kChunks}, dims[2] = {ndim(), out.room};
    out.rows = Scratch<char>(ndim() * out.room * call.index_bytes());
    if (value_bytes() > 0) out.values = Scratch<char>(out.room * value_bytes());
    for (size_t t = 0; t < terms.size(); ++t) {
      int64_t* ends = out.ends.data() + t * kChunks;
      const int code = value_bytes() > 0 ? terms[t].run(terms[t].write, ctx, call, problem,
                                                        {{ends, chunk_dims}, {out.rows.get(), dims}, {out.values.get(), dims + 1}})
                                         : terms[t].run(terms[t].write, ctx, call, problem,
                                                        {{ends, chunk_dims}, {out.rows.get(), dims}});
      if (code != 0) throw std::bad_alloc();
    }
    return out;
  }

  // All columns without gaps, and the values that the result has room for.
  Scratch<char> joined(const std::vector<Written>& parts, int64_t total, char* values, int64_t value_room) const {
    struct Run {
      const Written* part;
      int64_t from, to, count;
    };
    std::vector<Run> runs;
    int64_t at = 0;
    for (const Written& part : parts) {
      for (size_t c = 0; c < part.starts.size(); ++c) {
        if (part.ends[c] > part.starts[c]) runs.push_back({&part, part.starts[c], at, part.ends[c] - part.starts[c]});
        if (part.starts[c] >= 0) at += part.ends[c] - part.starts[c];
      }
    }
    const int64_t width = call.index_bytes(), wide = value_bytes();
    Scratch<char> rows(std::max<int64_t>(ndim() * total * width, 1));
    each(ctx, static_cast<int64_t>(runs.size()), [&](int64_t n) {
      const Run& run = runs[static_cast<size_t>(n)];
      for (int64_t d = 0; d < ndim(); ++d) {
        std::memcpy(rows.get() + (d * total + run.to) * width, run.part->rows.get() + (d * run.part->room + run.from) * width,
                    static_cast<size_t>(run.count * width));
      }
      const int64_t kept = std::min(run.count, value_room - run.to);
      if (wide > 0 && kept > 0) {
        std::memcpy(values + run.to * wide, run.part->values.get() + run.from * wide, static_cast<size_t>(kept * wide));
      }
    });
    if (wide > 0 && total < value_room) std::memset(values + total * wide, 0, static_cast<size_t>((value_room - total) * wide));
    return rows;
  }

  void run(size_t results) const {
    const Params& p = call.params;
    const std::vector<int64_t> counts = count();
    std::vector<Written> parts;
    for (size_t first = 0; first < counts.size();) {
      const size_t last = chunks_with_room(counts, first);
      parts.push_back(write(counts, first, last));
      first = last;
    }
    int64_t total = 0;
    for (const Written& part : parts) {
      for (size_t c = 0; c < part.starts.size(); ++c) total += part.ends[c] - part.starts[c];
    }
    Assembly out;
    out.wide = p.wide;
    out.arrays = call.arrays(&results, problem);
    out.slot_count = slots_with_room(p, out.arrays);
    char* const values = value_bytes() > 0 ? static_cast<char*>(call.buffers[results]) : nullptr;
    const bool whole = parts.size() == 1 && parts[0].room == total && values == nullptr && total > 0;
    const Scratch<char> rows = whole ? std::move(parts[0].rows) : joined(parts, total, values, p.nse);
    parts.clear();
    const Ordered tuples = table[0] != 0 && ndim() > 0
                               ? as_ordered(ctx, columns_of(p.layout, rows.get(), p.wide, total), p.wide, total)
                               : order(ctx, keys_of(p.layout, rows.get(), p.wide, total), total, 0);
    write_assembly(ctx, p.layout, tuples, count_positions(ctx, p.layout, tuples), &out);
  }
};

}  // namespace

int assemble_lists(Context* ctx, void* const* buffers, const int64_t* const* dims) {
  try {
    Params params;
    ctx->error = params.read(static_cast<const int64_t*>(buffers[0]), dims[0][0], false);
    if (ctx->error != nullptr) return 1;
    size_t results = 2;
    const auto* table = static_cast<const int64_t*>(buffers[1]);
    const std::vector<Term> terms = read_terms(table, &results);
    const Call call{params, buffers, dims};
    run_problems(ctx, params.batch, [&](Context* inner, int64_t problem) {
      Lists{inner, call, terms, table, problem}.run(results);
    });
    return 0;
  } catch (const std::exception&) {
    ctx->error = "no memory for the coordinates that the terms of a sparse result reach";
    return 2;
  }
}

}  // namespace jsparse
