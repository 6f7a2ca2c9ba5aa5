#include "routines/unordered_assembly.h"

#include <cstring>
#include <exception>
#include <utility>
#include <vector>

#include "routines/terms.h"

namespace jsparse {
namespace {

// Columns of coordinates that kernels wrote, without gaps between them.
struct Written {
  int64_t count = 0;
  Scratch<char> rows;
};

// Returns the end of the chunks from `first` on that one pass can write.
size_t chunks_with_room(const std::vector<int64_t>& counts, size_t first) {
  size_t last = first;
  for (int64_t sum = 0; last < counts.size(); ++last) {
    sum += counts[last];
    if (sum > kRoom && last > first) break;
  }
  return last;
}

struct UnorderedAssembly {
  Context* ctx;
  const Call& call;
  const Table& table;
  int64_t member;

  int64_t ndim() const { return call.params.layout.count(); }

  std::vector<int64_t> count() const {
    std::vector<int64_t> counts(table.terms.size() * kChunks);
    for (size_t t = 0; t < table.terms.size(); ++t) table.terms[t].run_count(ctx, call, member, counts.data() + t * kChunks);
    return counts;
  }

  Written write(const std::vector<int64_t>& counts, size_t first, size_t last) const {
    Written out;
    std::vector<int64_t> offsets(counts.size(), -1);
    for (size_t c = first; c < last; ++c) {
      offsets[c] = out.count;
      out.count += counts[c];
    }
    if (out.count == 0) return out;
    const int64_t chunk_dims[1] = {kChunks}, dims[2] = {ndim(), out.count};
    out.rows = Scratch<char>(ndim() * out.count * call.index_bytes());
    for (size_t t = 0; t < table.terms.size(); ++t) {
      int64_t* of_term = offsets.data() + t * kChunks;
      table.terms[t].run(table.terms[t].write, ctx, call, member, {{of_term, chunk_dims}, {out.rows.get(), dims}});
    }
    return out;
  }

  // Returns the columns of all parts, concatenated.
  Scratch<char> joined(const std::vector<Written>& parts, int64_t total) const {
    const int64_t width = call.index_bytes();
    Scratch<char> rows(std::max<int64_t>(ndim() * total * width, 1));
    int64_t at = 0;
    for (const Written& part : parts) {
      for (int64_t d = 0; d < ndim(); ++d) {
        std::memcpy(rows.get() + (d * total + at) * width, part.rows.get() + d * part.count * width,
                    static_cast<size_t>(part.count * width));
      }
      at += part.count;
    }
    return rows;
  }

  void run(size_t results) const {
    const Params& p = call.params;
    const std::vector<int64_t> counts = count();
    std::vector<Written> parts;
    int64_t total = 0;
    for (size_t first = 0; first < counts.size();) {
      const size_t last = chunks_with_room(counts, first);
      Written part = write(counts, first, last);
      total += part.count;
      if (part.count > 0) parts.push_back(std::move(part));
      first = last;
    }
    Assembly out;
    out.wide = p.wide;
    out.arrays = call.arrays(&results, member);
    out.slot_count = slots_with_room(p, out.arrays);
    const Scratch<char> rows = parts.size() == 1 ? std::move(parts[0].rows) : joined(parts, total);
    parts.clear();
    const Ordered tuples = order(ctx, keys_of(p.layout, rows.get(), p.wide, total), total, 0);
    write_assembly(ctx, p.layout, tuples, count_positions(ctx, p.layout, tuples), &out);
    table.overflow.mark(call, out.arrays, member);
  }
};

}  // namespace

int assemble_unordered(Context* ctx, void* const* buffers, const int64_t* const* dims) {
  return run_terms(ctx, buffers, dims, "no memory for the coordinates that the terms of a sparse result reach",
                   [](const Layout&) -> const char* { return nullptr; },
                   [](Context* inner, const Call& call, const Table& table, int64_t member) {
                     UnorderedAssembly{inner, call, table, member}.run(table.results);
                   });
}

}  // namespace jsparse
