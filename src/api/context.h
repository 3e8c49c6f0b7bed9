#pragma once

#include <atomic>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/thread_pool.h"
#include "gpt/gpt.hpp"
#include "kernels/kernel_table.h"

namespace gptcpp {

struct Context::Impl {
  explicit Impl(const ContextOptions& options);
  void check_cancelled() const {
    if (cancelled.load(std::memory_order_relaxed)) throw Error(Code::cancelled, "cancelled");
  }
  void log(LogLevel level, std::string_view lines) const;  // calls the log function once per line
  // Returns the thread pool that all objects of the context share. The first call starts its threads.
  const gpt::ThreadPool& workers() const;

  ContextOptions options;
  int threads;
  const gpt::KernelTable& kernels;
  std::atomic<bool> cancelled = false;
  std::atomic<int64_t> used = 0;

 private:
  mutable std::once_flag started_;
  mutable std::optional<gpt::ThreadPool> workers_;
};

// A reservation of a part of the memory that the context may use. The destructor releases the reservation. If
// the memory limit would be exceeded, the constructor throws out_of_memory.
class Claim {
 public:
  Claim() = default;
  Claim(std::shared_ptr<Context::Impl> context, int64_t bytes, const std::string& what);
  Claim(Claim&& other) noexcept { *this = std::move(other); }
  Claim& operator=(Claim&& other) noexcept {
    std::swap(context_, other.context_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Claim() {
    if (context_) context_->used -= bytes_;
  }
  int64_t bytes() const { return bytes_; }

 private:
  std::shared_ptr<Context::Impl> context_;
  int64_t bytes_ = 0;
};

// Wraps an exception that a user's callback has thrown. `guarded` unwraps the exception and rethrows it
// unchanged.
struct FromCallback {
  std::exception_ptr thrown;
};
template <class F, class... A>
auto call_back(F&& f, A&&... arguments) {
  try {
    return f(std::forward<A>(arguments)...);
  } catch (...) {
    throw FromCallback{std::current_exception()};
  }
}

// Converts the current exception to an Error and nests it (std::nested_exception).
[[noreturn]] void rethrow_as_error();
// Runs the body of a public function and converts every exception to Error.
template <class F>
auto guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_as_error();
  }
}

// Converts the current exception to an Error and throws it. If the original error has the unspecific code io,
// `code` replaces it. If the original error does not name a parameter, `object` becomes the object of the
// error.
[[noreturn]] void rethrow_with(Code code, const char* object);
// Runs `f`, and passes its exceptions to rethrow_with. Used for calls that fail because of one argument, such
// as a text that the vocabulary cannot represent, or because the model lacks a feature.
template <class F>
decltype(auto) guarded_as(Code code, const char* object, F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_with(code, object);
  }
}
template <class F>
decltype(auto) as_argument(const char* name, F&& f) {
  return guarded_as(Code::invalid_argument, name, f);
}

// Marks an object as in use while one of its functions runs, so that callbacks of this function cannot modify
// the object. Throws invalid_argument if the object is already in use.
class InUse {
 public:
  explicit InUse(bool& flag) : flag_(flag) {
    check(flag);
    flag_ = true;
  }
  ~InUse() { flag_ = false; }
  InUse(const InUse&) = delete;
  InUse& operator=(const InUse&) = delete;
  static void check(bool flag) {
    if (flag)
      throw Error(Code::invalid_argument,
                  "the object is in use: a callback cannot call the object that called it");
  }

 private:
  bool& flag_;
};

// Throws not_found if the path does not exist.
void require_path(const std::string& path);

}  // namespace gptcpp
