// The pages of results, and memory to work in.
#pragma once

#include <cstddef>

namespace jsparse {

// Asks the system to back a large result by huge pages. Touching 87 MB of new memory for the first time costs about
// 25 ms in pages of 4 KiB, as much as the sparse product that fills it, and a few ms in pages of 2 MiB. Only advice: it
// changes no content, may be ignored, and costs about a microsecond.
void advise_huge_pages(void* data, size_t bytes);

// Lends memory to work in, or null if there is none. The largest blocks that were returned lately are lent again, since
// the system need not clear their pages anew (a virtual machine clears about 2 GB/s); until then it may take the pages
// back whenever it needs them. `bytes` becomes the size of the block, which may be larger than asked for.
void* borrow_memory(size_t* bytes);
void return_memory(void* data, size_t bytes);

}  // namespace jsparse
