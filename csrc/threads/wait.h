// Waits on condition variables.
#pragma once

#include <pthread.h>

#include <condition_variable>
#include <mutex>

namespace jsparse {

// Does what condition.wait(lock, predicate) does. std::condition_variable::wait has a new version in the libstdc++ of
// GCC 12, so an extension that is compiled there and calls it does not load where libstdc++ is older. pthread_cond_wait,
// which that function calls, has kept its version since glibc 2.3.2.
template <class F>
void wait_until(std::condition_variable& condition, std::unique_lock<std::mutex>& lock, const F& predicate) {
  while (!predicate()) pthread_cond_wait(condition.native_handle(), lock.mutex()->native_handle());
}

}  // namespace jsparse
