#include "world.h"

#include "base/error.h"

namespace gpt {
namespace {

std::unique_ptr<Communicator>& opened() {
  static std::unique_ptr<Communicator> processes;
  return processes;
}

// Throws UsageError for launchers that are not supported.
const Launch& launched() {
  static const Launch launch = launch_of_environment();
  return launch;
}

}  // namespace

bool is_first_process() {
  return rank_of_environment() == 0;
}

Communicator& world() {
  if (!launched().one_of_many) return single_process();
  if (!opened()) opened() = open_processes(launched());
  return *opened();
}

void require_one_process(const std::string& command) {
  if (!launched().one_of_many) return;
  fail_usage(
      "{} runs in one process, and {} were started; start it without mpirun (gpt train is what several can share)",
      command, launched().size > 0 ? std::to_string(launched().size) : "several");
}

void leave_world() {
  if (opened()) barrier(*opened(), "the end of the program");
  opened().reset();
}

void end_world(int status) {
  if (opened()) opened()->abort(status);
}

}  // namespace gpt
