/* A simulator of one warp at a time: 32 threads in lockstep between the places where they meet.

   Each thread is a context with a stack of its own. It runs until it meets the others, at a barrier or at an exchange of
   values; then the next thread runs. A barrier that is missing gives wrong numbers in one order of the threads or in the
   other (JSPARSE_WARP_ORDER=reversed), and a kernel whose threads meet at different places fails. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum { kWarp = 32, kStack = 256 << 10, kShared = 1 << 16 };

typedef void (*Run)(void* captured, int64_t warp, int64_t warps, int64_t lane);
typedef struct Context { /* the fields of csrc/kernel/abi.h that are used here */
  int64_t abi, num_threads;
  void* parallel_for;
  const char* error;
  void* (*borrow)(struct Context*, int64_t, int64_t);
  void (*give_back)(struct Context*, void*, int64_t, int64_t);
} Context;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static ucontext_t scheduler, threads[kWarp];
static char *stacks, shared[kShared] __attribute__((aligned(64)));
static int64_t place[kWarp], sent[2][kWarp], current, round_number, served, warp, warp_count;
static void *captured_values, *lent;
static Run run_thread;

static void start(void) {
  int64_t lane = current;
  run_thread(captured_values, warp, warp_count, lane);
  place[lane] = 0; /* done */
}

static void meet(int64_t number) {
  int64_t lane = current;
  place[lane] = number;
  swapcontext(&threads[lane], &scheduler);
}

void jsparse_warp_sync(int64_t number) { meet(number); }

int64_t jsparse_warp_shuffle(int64_t value, int64_t from, int64_t number) {
  int64_t mine = round_number & 1; /* a thread may be one exchange ahead of another, never two */
  sent[mine][current] = value;
  meet(number);
  return sent[mine][from & (kWarp - 1)];
}

void* jsparse_warp_borrow(Context* context, int64_t bytes, int64_t zeros, int64_t number) {
  meet(number);
  if (served != round_number) {
    served = round_number;
    lent = context->borrow(context, bytes, zeros);
  }
  return lent;
}

void jsparse_warp_give_back(Context* context, void* data, int64_t bytes, int64_t zeros, int64_t number) {
  meet(number);
  if (served != round_number) {
    served = round_number;
    context->give_back(context, data, bytes, zeros);
  }
}

void* jsparse_warp_shared(int64_t offset) { return shared + offset; }

/* Returns whether all threads came to their end. */
static int run_warp(int is_reversed) {
  for (int64_t lane = 0; lane < kWarp; ++lane) {
    getcontext(&threads[lane]);
    threads[lane].uc_stack.ss_sp = stacks + lane * kStack;
    threads[lane].uc_stack.ss_size = kStack;
    threads[lane].uc_link = &scheduler;
    makecontext(&threads[lane], start, 0);
    place[lane] = -1;
  }
  memset(shared, 0xA5, sizeof shared); /* local arrays begin with anything */
  for (;;) {
    ++round_number;
    for (int64_t n = 0; n < kWarp; ++n) {
      current = is_reversed ? kWarp - 1 - n : n;
      swapcontext(&scheduler, &threads[current]);
    }
    for (int64_t lane = 1; lane < kWarp; ++lane)
      if (place[lane] != place[0]) return 0;
    if (!place[0]) return 1;
  }
}

void jsparse_warp_launch(Context* context, Run run, void* captured, int64_t warps) {
  pthread_mutex_lock(&lock);
  const char* order = getenv("JSPARSE_WARP_ORDER");
  if (!stacks) stacks = malloc((size_t)kWarp * kStack);
  run_thread = run, captured_values = captured, warp_count = warps;
  for (warp = 0; warp < warps; ++warp)
    if (!run_warp(order && !strcmp(order, "reversed"))) context->error = "threads of a warp meet at different places";
  pthread_mutex_unlock(&lock);
}
