#include "kernel/signature.h"

#include <array>
#include <stdexcept>

namespace jsparse {
namespace {

constexpr int64_t kMaxSymbols = 64;
constexpr size_t kHead = 2, kBuffer = 2, kAxis = 3;

std::string name_of(int64_t element) {
  const auto kind = static_cast<char>(element / 256);
  const std::string bits = std::to_string(element % 256 * 8);
  switch (kind) {
    case 'b': return "bool";
    case 'i': return "int" + bits;
    case 'u': return "uint" + bits;
    case 'f': return "float" + bits;
    case 'V': return "bfloat" + bits;
    case 'c': return "complex" + bits;
    default: return "elements of " + bits + " bits";
  }
}

bool same(int64_t wanted, int64_t given) {
  return wanted == given || (wanted < 256 && wanted == given % 256);
}

// Returns whether an extent is factor * symbol + constant. A symbol without a value gets its value from the extent.
bool fits(const int64_t* axis, int64_t extent, int64_t* values) {
  const int64_t symbol = axis[0], factor = axis[1], constant = axis[2];
  if (symbol < 0 || factor == 0) return extent == constant;
  const int64_t rest = extent - constant;
  if (values[symbol] >= 0) {
    int64_t product = 0;
    return !__builtin_mul_overflow(factor, values[symbol], &product) && product == rest;
  }
  if (rest < 0 || (factor != 1 && rest % factor != 0)) return false;
  values[symbol] = factor == 1 ? rest : rest / factor;
  return true;
}

}  // namespace

Signature::Signature(std::vector<int64_t> code, size_t buffers) : code_(std::move(code)) {
  const auto wrong = [] { return std::invalid_argument("Expected the signature of a kernel, but got other numbers"); };
  if (code_.size() < kHead || code_[0] != static_cast<int64_t>(buffers) || code_[1] < 0 || code_[1] > kMaxSymbols) {
    throw wrong();
  }
  size_t at = kHead;
  for (size_t b = 0; b < buffers; ++b) {
    if (at + kBuffer > code_.size() || code_[at + 1] < 0) throw wrong();
    const auto rank = static_cast<size_t>(code_[at + 1]);
    at += kBuffer;
    if (rank > (code_.size() - at) / kAxis) throw wrong();
    for (size_t n = 0; n < rank; ++n, at += kAxis) {
      if (code_[at] < -1 || code_[at] >= code_[1] || code_[at + 1] < 0) throw wrong();
    }
  }
  if (at != code_.size()) throw wrong();
}

int64_t Signature::misfit(const BufferShape* buffers) const {
  if (code_.empty()) return -1;
  std::array<int64_t, kMaxSymbols> values;
  for (int64_t s = 0; s < code_[1]; ++s) values[static_cast<size_t>(s)] = -1;
  const int64_t* at = code_.data() + kHead;
  for (int64_t b = 0; b < code_[0]; ++b) {
    const BufferShape& given = buffers[b];
    const int64_t element = at[0], rank = at[1];
    at += kBuffer;
    if (given.dims == nullptr) {
      at += static_cast<size_t>(rank) * kAxis;
      continue;
    }
    if (!same(element, given.element) || rank != given.rank) return b;
    for (int64_t n = 0; n < rank; ++n, at += kAxis) {
      if (!fits(at, given.dims[n], values.data())) return b;
    }
  }
  return -1;
}

void Signature::drop_ones(BufferShape* buffers, std::vector<int64_t>* kept) const {
  if (code_.empty()) return;
  size_t axes = 0;
  const int64_t* at = code_.data() + kHead;
  for (int64_t b = 0; b < code_[0]; ++b, at += kBuffer + static_cast<size_t>(at[1]) * kAxis) {
    if (buffers[b].dims != nullptr && buffers[b].rank > at[1]) axes += static_cast<size_t>(buffers[b].rank);
  }
  if (axes == 0) return;
  kept->reserve(axes);  // so that no shape moves
  at = code_.data() + kHead;
  for (int64_t b = 0; b < code_[0]; ++b, at += kBuffer + static_cast<size_t>(at[1]) * kAxis) {
    const BufferShape given = buffers[b];
    if (given.dims == nullptr || given.rank <= at[1]) continue;
    const size_t begin = kept->size();
    int64_t further = given.rank - at[1];
    for (int64_t n = 0; n < given.rank; ++n) {
      if (further > 0 && given.dims[n] == 1) --further;
      else kept->push_back(given.dims[n]);
    }
    if (further == 0) buffers[b] = {given.element, at[1], kept->data() + begin};
    else kept->resize(begin);
  }
}

std::string Signature::expected(int64_t b) const {
  const int64_t* at = code_.data() + kHead;
  for (int64_t n = 0; n < b; ++n) at += kBuffer + static_cast<size_t>(at[1]) * kAxis;
  std::string text = name_of(at[0]) + " of shape [";
  for (int64_t n = 0; n < at[1]; ++n) {
    const int64_t* axis = at + kBuffer + static_cast<size_t>(n) * kAxis;
    text += n == 0 ? "" : ", ";
    if (axis[0] < 0 || axis[1] == 0) {
      text += std::to_string(axis[2]);
      continue;
    }
    text += (axis[1] == 1 ? "" : std::to_string(axis[1]) + " * ") + "n" + std::to_string(axis[0]);
    if (axis[2] != 0) text += " + " + std::to_string(axis[2]);
  }
  return text + "]";
}

size_t bytes_of(const BufferShape& buffer) {
  auto bytes = static_cast<size_t>(buffer.element % 256);
  for (int64_t axis = 0; axis < buffer.rank; ++axis) bytes *= static_cast<size_t>(buffer.dims[axis]);
  return bytes;
}

std::string shown(const BufferShape& buffer) {
  std::string text = name_of(buffer.element) + " of shape [";
  for (int64_t n = 0; n < buffer.rank; ++n) text += (n == 0 ? "" : ", ") + std::to_string(buffer.dims[n]);
  return text + "]";
}

}  // namespace jsparse
