#include "world.h"

#include <fmt/format.h>

#include <cstdlib>

#include "base/error.h"
#include "options.h"
#include "output.h"
#include "train/train_config.h"

namespace gpt {
namespace {

std::unique_ptr<Communicator>& opened() {
  static std::unique_ptr<Communicator> processes;
  return processes;
}

// Returns how the process was launched. Throws invalid_argument for unsupported launchers.
const Launch& launched() {
  static const Launch launch = launch_of_environment();
  return launch;
}

}  // namespace

std::string program() {
  if (!launched().is_distributed) return "gpt";
  const char* const launch = std::getenv(kLaunchedBy);
  if (launch != nullptr && *launch != '\0') return launch;
  const bool by_mpirun = launched().size > 0;
  return fmt::format("{} -n {} gpt", by_mpirun ? "mpirun" : "srun --mpi=pmix", world().size());
}

bool is_first_process() {
  return rank_of_environment() == 0;
}

Communicator& world() {
  if (!launched().is_distributed) return single_process();
  if (!opened()) opened() = open_processes(launched());
  return *opened();
}

MachineOptions part_of_machine(const MachineOptions& options) {
  MachineOptions part = options;
  if (part.threads == 0) part.threads = thread_count(0, world());
  return part;
}

const std::vector<std::string>& shared_commands() {
  static const std::vector<std::string> commands = {"train", "finetune", "eval", "sweep", "bench"};
  return commands;
}

void require_one_process(const std::string& command) {
  if (!launched().is_distributed) return;
  fail_usage(
      "{} uses one process, but {} were started; start it without mpirun (commands for several processes: "
      "gpt {})",
      command, launched().size > 0 ? std::to_string(launched().size) : "several",
      fmt::join(shared_commands(), ", gpt "));
}

void share_run(TrainConfig& config, int processes, bool resume) {
  const TrainConfig asked = config;
  const bool whole_shards = resume && config.reduce != Reduce::exact && config.zero > 1 && processes > 1;
  // The run is resumed with a different number of processes. With sharded gradients, a micro-batch consists
  // of all samples of a process.
  if (whole_shards && config.batch_size % processes == 0) config.micro_batch = config.batch_size / processes;
  if (resume && config.grad_shards == 0) config.grad_shards = 1;
  share_among(config, processes);
  if (processes == 1) return;
  const bool is_exact = config.reduce == Reduce::exact;
  if (!is_exact)
    write_note(
        fmt::format("reduce: each of the {} processes sums the gradients of its own samples, so results "
                    "depend on the number of processes\n",
                    processes));
  if (whole_shards && config.micro_batch != asked.micro_batch)
    write_note(fmt::format("micro_batch {}: with zero {}, it is all samples of a process instead of {}\n",
                           config.micro_batch, config.zero, asked.micro_batch));
  if (resume) return;
  if (is_exact && asked.grad_shards == 0)
    write_note(
        fmt::format("grad_shards {}: one per process; with this setting, any number of processes that "
                    "divides it gives bit-identical results\n",
                    config.grad_shards));
  if (config.micro_batch != asked.micro_batch)
    write_note(fmt::format("micro_batch {}: a shard has {} of the {} samples\n", config.micro_batch,
                           config.batch_size / shard_count(config, processes), config.batch_size));
}

void leave_world() {
  if (opened()) barrier(*opened(), "the end of the program");
  opened().reset();
}

void end_world(int status) {
  if (opened()) opened()->abort(status);
}

}  // namespace gpt
