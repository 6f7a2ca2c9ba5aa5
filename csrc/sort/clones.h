#pragma once

// A function marked JSPARSE_CLONES is also compiled for wide vectors. The loader chooses one version while it relocates
// the library. Sanitizers instrument the function that chooses, and their runtime is not ready at that time, so builds
// with a sanitizer have one version only.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define JSPARSE_CLONES
#elif defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__)
#define JSPARSE_CLONES __attribute__((target_clones("avx2", "default")))
#else
#define JSPARSE_CLONES
#endif
