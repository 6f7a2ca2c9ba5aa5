// What the system says of memory, huge pages for results, and temporary memory.
#pragma once

#include <cstddef>
#include <cstdint>

namespace jsparse {

using std::size_t;

// The system's size of a page.
size_t page_bytes();

// The machine's memory, or INT64_MAX where the system does not say.
int64_t memory_bytes();

// Asks the system to back a large result by huge pages. Touching 87 MB of new memory for the first time costs about
// 25 ms in pages of 4 KiB, as much as the sparse product that fills it, and a few ms in pages of 2 MiB. This is only
// advice: it changes no content, the system may ignore it, and it costs about a microsecond.
void advise_huge_pages(void* data, size_t bytes);

// Returns whether the machine has less memory than that, whatever its state. A system that lends more than it has gives
// it all the same, and ends the process that writes to it.
bool exceeds_memory(size_t bytes);

// Returns temporary memory, or null if there is none. The largest blocks that were returned lately are used again,
// because the system need not clear their pages again (a virtual machine clears about 2 GB/s). While a block is not in
// use, the system may take its pages. `bytes` becomes the size of the block, which may be larger than requested.
void* borrow_memory(size_t* bytes);
void return_memory(void* data, size_t bytes);

}  // namespace jsparse
