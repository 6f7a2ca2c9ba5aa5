// The pages of a new result.
#pragma once

#include <cstddef>

namespace jsparse {

// Asks the system to back a large result by huge pages. Touching 87 MB of new memory for the first time costs about
// 25 ms in pages of 4 KiB, as much as the sparse product that fills it, and a few ms in pages of 2 MiB. Only advice: it
// changes no content, may be ignored, and costs about a microsecond.
void advise_huge_pages(void* data, size_t bytes);

// Memory that is worked in and given back: null if there is none. The largest blocks given back lately are handed out
// again, since its pages need not be cleared anew (at 2 GB/s, say, where it is a virtual machine that clears them); until
// then the system may take the pages back whenever it wants them.
// `bytes` becomes the size of the block, which may be larger than what was asked for.
void* borrow_memory(size_t* bytes);
void return_memory(void* data, size_t bytes);

}  // namespace jsparse
