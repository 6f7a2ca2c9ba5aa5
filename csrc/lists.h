// The pattern of a sum of products of patterns: all places that its terms reach, sorted, each once.
#pragma once

#include "abi.h"

namespace jsparse {

// A routine (see params.h). Its buffers: the parameters of the pattern to be made; the table of terms; factors; index
// arrays of the patterns that each term walks, term by term; the index arrays to be written; values. The table, of int64:
//
//   whether columns come in the order of the levels, each once; factors, which only ordered columns have; bytes of a
//   value, 0 if there are none; terms; for each: address of the kernel that counts, address of the kernel that writes, arrays; for each of these the
//   bytes of an element if the array has the batch axis of params.h, else 0
//
// Both kernels take the arrays of their term. The first then takes counts [64], which it writes: how many columns of
// coordinates each of its chunks reaches at most; the other places [64], where the columns of each chunk begin (-1: the
// chunk is left out), which become where they end, and the coordinates [ndim, columns] and, if there are values, these.
// It is given the factors in front.
int assemble_lists(Context* ctx, void* const* buffers, const int64_t* const* dims);

}  // namespace jsparse
