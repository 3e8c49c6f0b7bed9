#include "serve/line_log.h"

#include <cerrno>
#include <cstring>

#include "base/error.h"

namespace gpt::serve {
namespace {

constexpr size_t kMostWaiting = 4096;  // lines

}  // namespace

void LineLog::Close::operator()(std::FILE* file) const {
  if (file != stderr) std::fclose(file);
}

LineLog::LineLog(const std::string& path)
    : file_(path.empty() ? stderr : std::fopen(path.c_str(), "a")), writing_(kMostWaiting) {
  if (file_ == nullptr) fail("cannot open {} for the access log: {}", path, std::strerror(errno));
}

void LineLog::write(const std::string& line) {
  writing_.add([file = file_.get(), text = line + "\n"] {
    std::fputs(text.c_str(), file);
    std::fflush(file);
  });
}

}  // namespace gpt::serve
