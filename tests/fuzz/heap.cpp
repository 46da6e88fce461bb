// How much is on the heap. Under the address sanitizer its hooks count, else new and delete of this
// program.
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

#include "tests/fuzz/reader.hpp"

#ifdef __has_feature
#if __has_feature(address_sanitizer)
#define PLUMB_HOOKS
#include <sanitizer/allocator_interface.h>
#endif
#endif

namespace plumb::fuzz {
namespace {

std::atomic<std::size_t> now, most;

void came(std::size_t size) {
  const std::size_t all = now.fetch_add(size, std::memory_order_relaxed) + size;
  if (all > most.load(std::memory_order_relaxed)) most.store(all, std::memory_order_relaxed);
}
void went(std::size_t size) { now.fetch_sub(size, std::memory_order_relaxed); }

#ifdef PLUMB_HOOKS
[[maybe_unused]] const int hooked = __sanitizer_install_malloc_and_free_hooks(
    [](const volatile void*, std::size_t size) { came(size); },
    [](const volatile void* at) {
      went(__sanitizer_get_allocated_size(const_cast<const void*>(at)));
    });
#else
void* counted(void* at) {
  if (at == nullptr) throw std::bad_alloc();
  came(malloc_usable_size(at));
  return at;
}

void gone(void* at) {
  if (at == nullptr) return;
  went(malloc_usable_size(at));
  std::free(at);
}
#endif

}  // namespace

std::size_t heap_now() { return now; }
std::size_t heap_most() { return most; }
void forget_most() { most = now.load(); }

}  // namespace plumb::fuzz

#ifndef PLUMB_HOOKS
// Those of arrays and without exceptions call these.
void* operator new(std::size_t size) {
  return plumb::fuzz::counted(std::malloc(size == 0 ? 1 : size));
}
void* operator new(std::size_t size, std::align_val_t align) {
  const auto to = static_cast<std::size_t>(align);
  return plumb::fuzz::counted(std::aligned_alloc(to, (size / to + 1) * to));
}
void operator delete(void* at) noexcept { plumb::fuzz::gone(at); }
void operator delete(void* at, std::size_t) noexcept { plumb::fuzz::gone(at); }
void operator delete(void* at, std::align_val_t) noexcept { plumb::fuzz::gone(at); }
void operator delete(void* at, std::size_t, std::align_val_t) noexcept { plumb::fuzz::gone(at); }
#endif
