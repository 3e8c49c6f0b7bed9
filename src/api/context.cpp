#include "api/context.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <new>

#include "base/file.h"
#include "base/format.h"
#include "base/parse.h"

namespace gptcpp {
namespace {

constexpr int kMaxThreads = 1024;

int chosen_threads(int threads) {
  if (threads < 0 || threads > kMaxThreads)
    gpt::fail_parameter("threads", "expected 0 (all CPUs) to {}, found {}", kMaxThreads, threads);
  return threads == 0 ? gpt::available_cpus() : threads;
}

const gpt::KernelTable& chosen_kernels(const std::string& name) {
  try {
    return gpt::kernel_table(name.empty() ? gpt::best_isa() : gpt::parse_isa(name));
    // The message starts with "GPT_ISA=name: ", but the library does not read GPT_ISA.
  } catch (const gpt::Error& error) {
    if (error.code() != gpt::ErrorCode::invalid_argument) throw;
    const std::string message = error.what();
    gpt::fail_parameter("instruction_set", "{}", message.substr(message.find(name)));
  }
}

static_assert(static_cast<int>(gpt::ErrorCode::invalid_argument) ==
                  static_cast<int>(Code::invalid_argument) &&
              static_cast<int>(gpt::ErrorCode::internal) == static_cast<int>(Code::internal));

// Returns the name of the parameter at the start of a message such as "lr: expected ...", or "".
std::string parameter_of(const std::string& message) {
  const size_t colon = message.find(':');
  const auto in_name = [](char c) { return std::islower(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const bool is_name =
      colon != std::string::npos &&
      std::all_of(message.begin(), message.begin() + static_cast<std::ptrdiff_t>(colon), in_name);
  return is_name ? message.substr(0, colon) : "";
}

// Converts an error of the internal libraries to an Error and throws it. If `error` has the unspecific code
// io, `code` is used instead. If `error` does not name a parameter, `object` is used as the object of the
// error.
[[noreturn]] void throw_nested(const gpt::Error& error, Code code, std::string object) {
  const bool is_parameter = error.code() == gpt::ErrorCode::invalid_argument;
  if (error.code() != gpt::ErrorCode::io) code = static_cast<Code>(error.code());
  if (object.empty() || is_parameter) object = error.object();
  if (object.empty()) object = parameter_of(error.what());
  std::throw_with_nested(Error(code, error.what(), object, error.expected(), error.found(), error.hint()));
}

}  // namespace

Error::Error(Code code, const std::string& message, std::string object, std::string expected,
             std::string found, std::string hint)
    : std::runtime_error(message),
      code_(code),
      object_(std::move(object)),
      expected_(std::move(expected)),
      found_(std::move(found)),
      hint_(std::move(hint)) {}
Error::~Error() = default;

const char* version() noexcept {
  return GPT_VERSION;
}

void rethrow_as_error() {
  try {
    throw;
  } catch (const Error&) {
    throw;
  } catch (const FromCallback& callback) {
    std::rethrow_exception(callback.thrown);
  } catch (const gpt::Error& error) {
    throw_nested(error, Code::io, "");
  } catch (const std::bad_alloc&) {
    std::throw_with_nested(Error(Code::out_of_memory, "not enough memory"));
  } catch (const std::filesystem::filesystem_error& error) {
    std::throw_with_nested(Error(Code::io, error.what(), error.path1().string()));
  } catch (const std::exception& error) {
    std::throw_with_nested(Error(Code::internal, error.what()));
  } catch (...) {
    throw Error(Code::internal, "unknown exception");
  }
}

void rethrow_with(Code code, const char* object) {
  try {
    throw;
  } catch (const gpt::Error& error) {
    throw_nested(error, code, object);
  } catch (...) {
    rethrow_as_error();
  }
}

void require_path(const std::string& path) {
  if (!gpt::path_exists(path)) throw Error(Code::not_found, path + ": no such file or folder", path);
}

Context::Impl::Impl(const ContextOptions& o)
    : options(o), threads(chosen_threads(o.threads)), kernels(chosen_kernels(o.instruction_set)) {
  if (o.memory_limit < 0)
    gpt::fail_parameter("memory_limit", "expected 0 (none) or a number of bytes, found {}", o.memory_limit);
}

void Context::Impl::log(LogLevel level, std::string_view lines) const {
  if (!options.log) return;
  for (const std::string_view line : gpt::lines_of(lines))
    call_back(options.log, level, line);
}

const gpt::ThreadPool& Context::Impl::workers() const {
  std::call_once(started_, [this] { workers_.emplace(threads); });
  return *workers_;
}

Context::Context(const ContextOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(options); })) {}

void Context::cancel() const noexcept {
  impl_->cancelled = true;
}
void Context::resume() const noexcept {
  impl_->cancelled = false;
}
int64_t Context::memory_used() const noexcept {
  return impl_->used;
}

Claim::Claim(std::shared_ptr<Context::Impl> context, int64_t bytes, const std::string& what) : bytes_(bytes) {
  const int64_t limit = context->options.memory_limit;
  int64_t used = context->used;
  do {
    if (limit == 0 || bytes <= limit - used) continue;
    throw Error(
        Code::out_of_memory,
        fmt::format(
            "{}: requires {} ({} bytes), but the memory limit is {} bytes, of which {} are already in use",
            what, gpt::format_bytes(static_cast<double>(bytes)), bytes, limit, used),
        what);
  } while (!context->used.compare_exchange_weak(used, used + bytes));
  context_ = std::move(context);
}

}  // namespace gptcpp
