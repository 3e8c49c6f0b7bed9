#include "run/process_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/format.h"
#include "base/process_memory.h"
#include "train/optimizer.h"

namespace gpt {
namespace {

double share_of(double waited, const ProcessTimes& times) {
  return times.seconds > 0 ? waited / times.seconds : 0;
}

}  // namespace

SentBytes sent_in_step(const TrainConfig& c, int64_t elements, int processes) {
  const auto size = static_cast<int64_t>(sizeof(float)),
             message_size = static_cast<int64_t>(dtype_size(message_dtype(c.reduce)));
  const int64_t pieces = elements / processes * (processes - 1);
  const bool moves = c.zero > 0 && require_optimizer(c.optimizer).divides == Divides::at_matrices;
  const int64_t rounds = shard_count(c, processes) / processes;
  return {.gradients = pieces * message_size,
          .results = pieces * (c.zero > 0 ? size : message_size),
          .moved = moves ? pieces / processes * size : 0,
          .rounds = rounds,
          .times = c.zero > 2 ? 2 * rounds : 1};
}

ProcessTimes gather_times(Communicator& processes, double waited, double seconds, int64_t sent_bytes) {
  return {.waited = gather(processes, waited, "gathering waiting times"),
          .peak = gather(processes, static_cast<double>(peak_resident_bytes()), "gathering peak memory"),
          .seconds = seconds,
          .sent_bytes = sent_bytes};
}

std::string process_line(const ProcessTimes& times) {
  const auto [least, most] = std::minmax_element(times.waited.begin(), times.waited.end());
  return fmt::format(
      "{} processes: waiting time {} (rank {}, the slowest) to {} (rank {}); each rank sends {} per step; "
      "peak memory up to {}\n",
      times.waited.size(), format_percent(share_of(*least, times)), least - times.waited.begin(),
      format_percent(share_of(*most, times)), most - times.waited.begin(), format_bytes(times.sent_bytes),
      format_bytes(*std::max_element(times.peak.begin(), times.peak.end())));
}

ReportSection process_section(const ProcessTimes& times, const Communicator& processes) {
  ReportSection section{
      .title = "Processes",
      .text = fmt::format(
          "Time that each rank spent waiting for other ranks and for messages, out of {} of training steps. "
          "The rank with the least waiting time is the slowest. Each rank sends {} per step.",
          format_duration(times.seconds), format_bytes(times.sent_bytes))};
  TextTable table{{"rank", "machine", "waiting time", "share", "peak memory"}};
  for (size_t rank = 0; rank < times.waited.size(); ++rank) {
    table.rows.push_back(
        {std::to_string(rank), processes.host(static_cast<int>(rank)), format_duration(times.waited[rank]),
         format_percent(share_of(times.waited[rank], times)), format_bytes(times.peak[rank])});
  }
  section.tables.push_back({"", table});
  return section;
}

}  // namespace gpt
