// The pages of a new result.
#pragma once

#include <cstddef>

namespace jsparse {

// Asks the system to back a large result by huge pages. Touching 87 MB of new memory for the first time costs about
// 25 ms in pages of 4 KiB, as much as the sparse product that fills it, and a few ms in pages of 2 MiB. Only advice: it
// changes no content, may be ignored, and costs about a microsecond.
void advise_huge_pages(void* data, size_t bytes);

}  // namespace jsparse
