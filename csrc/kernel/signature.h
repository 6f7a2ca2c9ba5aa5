// The signature of a kernel states the element type and the extents of each of its buffers. Buffers are compared with
// it, so that a kernel never gets a buffer that is too short. A signature is one array of int64:
//
//   [0] buffers, [1] symbols; for each buffer: element, rank, and for each axis (symbol, factor, constant)
//
// An extent is `constant`, or `factor * symbol + constant` where a symbol (-1: none) is the same number in all buffers:
// the pointers of csr are symbol-free, its coordinates and values have the length of one symbol. An element type is
// 256 * (NumPy's letter for its kind) + its size in bytes. The letter 0 admits every kind of that size.
// (compiler/signature.py)
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace jsparse {

// The type and shape of a buffer that is passed to a kernel. If `dims` is null, nothing is known of the buffer yet, and
// nothing is checked.
struct BufferShape {
  int64_t element;
  int64_t rank;
  const int64_t* dims;
};

using std::size_t;

class Signature {
 public:
  // An empty signature: all buffers fit it.
  Signature() = default;

  // Throws std::invalid_argument unless `code` is an array as described above, for that many buffers.
  Signature(std::vector<int64_t> code, size_t buffers);

  // Returns the number of the first buffer that does not fit, or -1.
  int64_t misfit(const BufferShape* buffers) const;

  // Replaces the shape of each buffer that has more axes than expected by its shape without as many axes of size 1, which
  // change no address. The new shapes lie in `kept`.
  void drop_ones(BufferShape* buffers, std::vector<int64_t>* kept) const;

  // Returns the expected type and shape of buffer b, for instance "float32 of shape [5, n1 + 1]".
  std::string expected(int64_t b) const;

 private:
  std::vector<int64_t> code_;
};

size_t bytes_of(const BufferShape& buffer);

// Returns the type and shape of a buffer, for instance "float32 of shape [5, 7]".
std::string shown(const BufferShape& buffer);

// Returns the element type of a NumPy dtype.
constexpr int64_t element_of(char kind, int64_t bytes) { return int64_t{kind} * 256 + bytes; }

}  // namespace jsparse
