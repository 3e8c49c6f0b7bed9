#include "base/fault_point.h"

#include <csignal>
#include <cstdlib>
#include <string>

#include "base/error.h"

namespace gpt {
namespace {

int signal_named(std::string_view name) {
  if (name == "KILL") return SIGKILL;
  if (name == "TERM") return SIGTERM;
  if (name == "INT") return SIGINT;
  if (name == "HUP") return SIGHUP;
  fail_usage("{}: expected the signals KILL, TERM, INT or HUP joined by +, found \"{}\"", kFaultPoint, name);
}

}  // namespace

void fault_point(std::string_view name, int64_t index) {
  const char* const variable = std::getenv(kFaultPoint);
  if (variable == nullptr) return;
  const std::string_view armed = variable;
  const size_t equals = armed.find('=');
  const std::string here = index == 0 ? std::string(name) : fmt::format("{}:{}", name, index);
  if (armed.substr(0, equals) != here) return;
  std::string_view signals = equals == std::string_view::npos ? "KILL" : armed.substr(equals + 1);
  while (true) {
    const size_t plus = signals.find('+');
    std::raise(signal_named(signals.substr(0, plus)));
    if (plus == std::string_view::npos) return;
    signals.remove_prefix(plus + 1);
  }
}

}  // namespace gpt
