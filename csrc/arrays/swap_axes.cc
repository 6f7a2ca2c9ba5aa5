#include "arrays/swap_axes.h"

#include <cstring>

#include "threads/loops.h"

namespace jsparse {
namespace {

constexpr int64_t kLine = 64;   // bytes of a cache line
constexpr int64_t kRun = 8;     // cache lines of a row that are read together: the hardware prefetches them
constexpr int64_t kTall = 128;  // squares, one below the other, that one thread transposes at a time

// Transposes one matrix, square by square. The side of a square is one cache line, so each line is read as a whole, and
// each line of the result is written as a whole.
template <class T>
struct Matrix {
  static constexpr int64_t kSide = kLine / static_cast<int64_t>(sizeof(T));
  const T* from;
  T* to;
  int64_t rows, columns;

  void square(int64_t r, int64_t c) const {
    T kept[kSide][kSide];
    for (int64_t n = 0; n < kSide; ++n) std::memcpy(kept[n], from + (r + n) * columns + c, kLine);
    for (int64_t n = 0; n < kSide; ++n) {
      T line[kSide];
      for (int64_t m = 0; m < kSide; ++m) line[m] = kept[m][n];
      std::memcpy(to + (c + n) * rows + r, line, kLine);
    }
  }

  void piece(int64_t r, int64_t r_end, int64_t c, int64_t c_end) const {
    for (int64_t n = r; n < r_end; ++n) {
      for (int64_t m = c; m < c_end; ++m) to[m * rows + n] = from[n * columns + m];
    }
  }

  // Transposes rows [top, bottom) of columns [first, last).
  void part(int64_t top, int64_t bottom, int64_t first, int64_t last) const {
    const int64_t whole = top + (bottom - top) / kSide * kSide, squares = first + (last - first) / kSide * kSide;
    for (int64_t r = top; r < whole; r += kSide) {
      for (int64_t c = first; c < squares; c += kSide) square(r, c);
      piece(r, r + kSide, squares, last);
    }
    piece(whole, bottom, first, last);
  }
};

struct Pair {
  uint64_t halves[2];
};

template <class T>
void swap_all(Context* ctx, const char* from, char* to, int64_t batch, int64_t rows, int64_t columns) {
  constexpr int64_t kAcross = kRun * Matrix<T>::kSide, kDown = kTall * Matrix<T>::kSide;
  const int64_t across = (columns + kAcross - 1) / kAcross, down = (rows + kDown - 1) / kDown, parts = across * down;
  const int64_t all = batch * parts;
  const int64_t count = std::min(all, slice_count(ctx, batch * rows * columns));
  slices(ctx, all, count, [&](int64_t, int64_t begin, int64_t end) noexcept {
    for (int64_t n = begin; n < end; ++n) {
      const int64_t offset = n / parts * rows * columns, first = n % parts / down * kAcross, top = n % down * kDown;
      const Matrix<T> matrix{reinterpret_cast<const T*>(from) + offset, reinterpret_cast<T*>(to) + offset, rows, columns};
      matrix.part(top, std::min(top + kDown, rows), first, std::min(first + kAcross, columns));
    }
  });
}

}  // namespace

void swap_axes(Context* ctx, const char* from, char* to, int64_t batch, int64_t rows, int64_t columns, int64_t bytes) {
  if (batch * rows * columns == 0) return;
  switch (bytes) {
    case 1: return swap_all<uint8_t>(ctx, from, to, batch, rows, columns);
    case 2: return swap_all<uint16_t>(ctx, from, to, batch, rows, columns);
    case 4: return swap_all<uint32_t>(ctx, from, to, batch, rows, columns);
    case 8: return swap_all<uint64_t>(ctx, from, to, batch, rows, columns);
    default: return swap_all<Pair>(ctx, from, to, batch, rows, columns);
  }
}

}  // namespace jsparse
