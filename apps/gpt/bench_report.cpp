#include "bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/format.h"
#include "base/ranges.h"
#include "model/inference.h"
#include "report/table.h"
#include "run/run_facts.h"

namespace gpt {
namespace {

using nlohmann::json;

std::string behind(const Workload& w) {
  return w.depth == 0 ? "" : fmt::format(" behind {}", w.depth);
}

// Returns the number of tokens of a workload: "4 x 256" means 4 sequences of 256 tokens each.
std::string tokens_of(const Workload& w) {
  switch (w.mode) {
    case BenchMode::train:
      return fmt::format("{} x {}", w.batch_size, w.n_ctx);
    case BenchMode::prefill:
      return std::to_string(w.rows);
    case BenchMode::decode:
      return std::to_string(w.tokens);
    case BenchMode::batch:
      return fmt::format("{} x {}", w.sequences, w.tokens);
  }
  return "?";
}

// Returns the dtypes of a workload: "bf16", or "q4_k x bf16" if quantized weights from a file are multiplied
// by bf16 activations.
std::string types_of(const Workload& w) {
  const std::string_view dtype = dtype_name(w.blocks ? inference_types(w.dtype).activations : w.dtype);
  return w.blocks ? fmt::format("{} x {}", dtype_name(*w.blocks), dtype) : std::string(dtype);
}

json shape_json(const Workload& w) {
  switch (w.mode) {
    case BenchMode::train:
      return {{"batch_size", w.batch_size}, {"n_ctx", w.n_ctx}, {"recompute", w.recompute}};
    case BenchMode::prefill:
      return {{"rows", w.rows}, {"depth", w.depth}};
    case BenchMode::decode:
      return {{"tokens", w.tokens}, {"depth", w.depth}};
    case BenchMode::batch:
      return {{"sequences", w.sequences}, {"tokens", w.tokens}, {"depth", w.depth}};
  }
  return {};
}

double flops_per_second(const BenchRecord& r) {
  return r.result.flops / r.result.median_seconds();
}
double bytes_per_second(const BenchRecord& r) {
  return r.result.bytes_read / r.result.median_seconds();
}
double share_of_rate(const BenchRecord& r) {
  return flops_per_second(r) / r.limits().operations(r.workload.blocks.value_or(r.workload.dtype));
}
// Returns the share of peak memory bandwidth. The bandwidth can double from one second to the next, so each
// repeat is compared with measurements from right before and after it.
double share_of_memory(const BenchRecord& r) {
  if (r.memory.empty()) return bytes_per_second(r) / r.limits().memory;
  std::vector<double> shares;
  for (size_t i = 0; i < r.result.seconds.size(); ++i)
    shares.push_back(2 * r.result.bytes_read / r.result.seconds[i] / (r.memory[i] + r.memory[i + 1]));
  return median(shares);
}

double seconds_outside(const WorkloadResult& result) {
  return std::max(0.0, result.total_seconds() - sum_of(result.ops, &OpTime::seconds));
}

json limits_json(const MachineLimits& limits) {
  const auto rate = [](double value) { return value > 0 ? json(value) : json(); };
  return {{"fp32_flops", rate(limits.fp32)},
          {"bf16_flops", rate(limits.bf16)},
          {"int8_ops", rate(limits.int8)},
          {"memory_bytes", rate(limits.memory)}};
}

json ops_json(const WorkloadResult& result) {
  const double total = result.total_seconds();
  const auto repeats = static_cast<double>(result.seconds.size());
  return transformed(result.ops, [&](const OpTime& op) {
    json entry = {{"op", op.op},
                  {"calls", static_cast<double>(op.calls) / repeats},
                  {"ms", 1e3 * op.seconds / repeats},
                  {"share", op.seconds / total}};
    if (op.flops > 0) entry["flops_per_second"] = op.flops / op.seconds;
    return entry;
  });
}

json record_json(const BenchRecord& r) {
  const WorkloadResult& result = r.result;
  json out = {
      {"mode", mode_name(r.workload.mode)},
      {"dtype", dtype_name(r.workload.dtype)},
      {"blocks", r.workload.blocks ? json(dtype_name(*r.workload.blocks)) : json()},
      {"shape", shape_json(r.workload)},
      {"kv_dtype", r.workload.mode == BenchMode::train ? json() : json(dtype_name(r.workload.kv_dtype))},
      {"tokens", result.tokens},
      {"seconds", result.seconds},
      {"tokens_per_second",
       {{"median", result.tokens_per_second()}, {"min", result.slowest()}, {"max", result.fastest()}}},
      {"flops_per_token", result.flops / static_cast<double>(result.tokens)},
      {"flops_per_second", flops_per_second(r)},
      {"share_of_rate", share_of_rate(r)},
      {"repack", r.workload.mode == BenchMode::train ? json() : json(repack_name(r.workload.repack))},
      {"repacked_bytes", result.repacked},
      {"memory_bytes", {{"measured", r.memory_measured}, {"predicted", result.memory_predicted}}},
      {"limits", {{"before", limits_json(r.before)}, {"after", limits_json(r.after)}}},
      {"ops", ops_json(result)},
      {"outside_of_ops",
       {{"ms", 1e3 * seconds_outside(result) / static_cast<double>(result.seconds.size())},
        {"share", seconds_outside(result) / result.total_seconds()}}}};
  if (result.bytes_read > 0) {
    out["bytes_per_second"] = bytes_per_second(r);
    out["share_of_memory"] = share_of_memory(r);
    out["memory_bytes_per_second"] = r.memory;
  }
  return out;
}

// Returns the range of the measurements: "228", or "221 to 228" if they differ.
std::string range(const std::vector<MachineLimits>& limits, double MachineLimits::*rate, const char* unit) {
  const auto [low, high] = std::ranges::minmax(transformed(limits, rate));
  if (high == 0) return "none";
  const std::string from = fmt::format("{:.3g}", low / 1e9), to = fmt::format("{:.3g}", high / 1e9);
  return from == to ? fmt::format("{} {}", to, unit) : fmt::format("{} to {} {}", from, to, unit);
}

std::string description(const BenchReport& report) {
  const std::string one = machine_description(report.threads, isa_name(report.isa));
  return report.processes == 1 ? one : fmt::format("{} processes, each: {}", report.processes, one);
}

std::string machine_text(const BenchReport& report) {
  return fmt::format("{}\nlimits: fp32 {}, bf16 {},\n        int8 {}, memory {}\n", description(report),
                     range(report.limits, &MachineLimits::fp32, "GFLOP/s"),
                     range(report.limits, &MachineLimits::bf16, "GFLOP/s"),
                     range(report.limits, &MachineLimits::int8, "Gop/s"),
                     range(report.limits, &MachineLimits::memory, "GB/s"));
}

// Returns the difference between the fastest and the slowest repeat, relative to the speed.
std::string spread_of(const WorkloadResult& result) {
  return format_percent((result.fastest() - result.slowest()) / result.tokens_per_second());
}

std::string speed_table(const std::vector<BenchRecord>& records) {
  TextTable table{.columns = {"mode", "dtype", "tokens", "tokens/s", "spread", "GFLOP/s", "of limit", "GB/s",
                              "of limit"}};
  for (const BenchRecord& r : records) {
    const bool reads = r.result.bytes_read > 0;
    table.rows.push_back({std::string(mode_name(r.workload.mode)), types_of(r.workload),
                          tokens_of(r.workload) + behind(r.workload), fixed(r.result.tokens_per_second(), 1),
                          spread_of(r.result), fixed(flops_per_second(r) / 1e9, 1),
                          format_percent(share_of_rate(r)), reads ? fixed(bytes_per_second(r) / 1e9, 1) : "",
                          reads ? format_percent(share_of_memory(r)) : ""});
  }
  return format_table(table);
}

std::string memory_table(const std::vector<BenchRecord>& records) {
  TextTable table{.columns = {"peak memory", "measured", "predicted", "ratio", "repacked"}};
  for (const BenchRecord& r : records) {
    const auto measured = static_cast<double>(r.memory_measured);
    const auto predicted = static_cast<double>(r.result.memory_predicted);
    table.rows.push_back({describe_workload(r.workload), format_bytes(measured), format_bytes(predicted),
                          fixed(measured / predicted, 3),
                          r.result.repacked > 0 ? format_bytes(r.result.repacked) : "none"});
  }
  return format_table(table);
}

std::string ops_table(const BenchRecord& r) {
  const WorkloadResult& result = r.result;
  const auto repeats = static_cast<double>(result.seconds.size());
  const double total = result.total_seconds();
  TextTable table{.columns = {describe_workload(r.workload), "calls", "ms", "share", "GFLOP/s"}};
  for (const OpTime& op : result.ops) {
    table.rows.push_back({op.op, fixed(static_cast<double>(op.calls) / repeats, 0),
                          fixed(1e3 * op.seconds / repeats, 3), format_percent(op.seconds / total),
                          op.flops > 0 ? fixed(1e-9 * op.flops / op.seconds, 1) : ""});
  }
  const double outside = seconds_outside(result);
  table.rows.push_back(
      {"outside of ops", "", fixed(1e3 * outside / repeats, 3), format_percent(outside / total)});
  table.rows.push_back({"all", "", fixed(1e3 * total / repeats, 3), ""});
  return format_table(table);
}

}  // namespace

std::string describe_workload(const Workload& w) {
  return fmt::format("{} {}, {} tokens{}{}", mode_name(w.mode), types_of(w), tokens_of(w), behind(w),
                     w.mode == BenchMode::train && w.recompute ? ", recomputed" : "");
}

json report_json(const BenchReport& report) {
  json out = {{"machine",
               {{"description", description(report)},
                {"threads", report.threads},
                {"processes", report.processes},
                {"isa", isa_name(report.isa)}}},
              {"limits", transformed(report.limits, limits_json)}};
  if (!report.model) return out;
  out["model"] = {{"name", report.model->name},
                  {"random_weights", report.model->random_weights},
                  {"blocks", report.model->blocks ? json(dtype_name(*report.model->blocks)) : json()},
                  {"parameters", report.model->counts.total},
                  {"config", model_keys_json(report.model->counts.config)}};
  out["workloads"] = transformed(report.records, record_json);
  return out;
}

std::string report_text(const BenchReport& report) {
  std::string text = machine_text(report);
  if (!report.model) return text;
  text += fmt::format(
      "{}: {} parameters{}{}\n\n", report.model->name, format_thousands(report.model->counts.total),
      report.model->random_weights ? ", random weights" : "",
      report.model->blocks ? fmt::format(", mostly in {}", dtype_name(*report.model->blocks)) : "");
  text += speed_table(report.records) + "\n" + memory_table(report.records);
  for (const BenchRecord& r : report.records)
    text += "\n" + ops_table(r);
  return text;
}

}  // namespace gpt
