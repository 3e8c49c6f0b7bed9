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
  void log(LogLevel level, std::string_view lines) const;  // each line by itself
  // The threads that everything of the context shares, started by the first call.
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

// Bytes of the context's memory, as long as it lives. Throws out_of_memory where the limit does not allow
// them.
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

// What a user's callback threw, on its way out unchanged.
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

[[noreturn]] void rethrow_as_error();  // what is being handled; the Error holds it (std::nested_exception)
// Runs a public function: whatever goes wrong inside leaves as Error.
template <class F>
auto guarded(F&& f) {
  try {
    return f();
  } catch (...) {
    rethrow_as_error();
  }
}

// Rethrows the error that is being handled. `code` replaces io, the least specific code; `object` is used
// unless the error names a parameter.
[[noreturn]] void rethrow_with(Code code, const char* object);
// The same for what goes wrong because of one argument, such as a text that the vocabulary cannot express, or
// because of what the model does not have.
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

// What a callback of an object's own call must not call.
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
    if (flag) throw Error(Code::invalid_argument, "the object is generating: its callback cannot call it");
  }

 private:
  bool& flag_;
};

// Throws not_found unless there is a file or folder.
void require_path(const std::string& path);

}  // namespace gptcpp
