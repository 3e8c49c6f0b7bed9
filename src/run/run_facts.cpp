#include "run/run_facts.h"

#include <fmt/format.h>

#include <chrono>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/format.h"
#include "base/numa.h"
#include "kernels/backend.h"

namespace gpt {
namespace {

ReportSection parameter_section(const Model& model) {
  std::map<Component, int64_t> counts;
  for (const ParamSpec& spec : model.table.specs())
    counts[spec.component] += spec.size();
  TextTable table{{"component", "parameters", "share"}};
  const auto total = static_cast<double>(model.table.total());
  for (const auto& [component, count] : counts) {
    table.rows.push_back({component_label(component), format_thousands(count),
                          format_percent(static_cast<double>(count) / total)});
  }
  table.rows.push_back({"total", format_thousands(model.table.total()), ""});
  ReportSection section{.title = "Parameters"};
  section.tables.push_back({"", table});
  return section;
}

ReportSection config_section(const RunConfig& config) {
  ReportSection section{.title = "Configuration", .text = "Every setting with its final value."};
  const nlohmann::json values = run_config_json(config);
  for (const KeyInfo& key : config_keys()) {
    const nlohmann::json& value = values[key.name];
    section.facts.push_back({key.name, value.is_string() ? value.get<std::string>() : value.dump()});
  }
  return section;
}

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");  // a pseudo-file whose reported size is 0
  const std::string info(std::istreambuf_iterator<char>(file), {});
  const size_t at = info.find("model name");
  if (at == std::string::npos) return "unknown CPU";
  const size_t colon = info.find(':', at);
  return info.substr(colon + 2, info.find('\n', at) - colon - 2);
}

}  // namespace

std::string machine_description(int threads, std::string_view isa) {
  const int nodes = numa_nodes();
  return fmt::format("{}, {} thread{}{}, {}", cpu_name(), threads, threads == 1 ? "" : "s",
                     nodes == 1 ? "" : fmt::format(" on CPUs of {} NUMA nodes", nodes), isa);
}

RunFacts collect_facts(const RunConfig& config, const Model& model, const RunData& data,
                       const std::string& optimizer, const std::string& machine) {
  RunFacts facts;
  facts.vocab_size = model.config.vocab_size;
  facts.floor = data.floor;
  // Only the first 16 Mi tokens are used, so that shards need not be read completely.
  constexpr int64_t kSample = int64_t{16} << 20;
  const TokenSpan& all = data.has_val() ? data.val : data.train;
  const TokenSpan text = all.part(0, std::min(all.size(), kSample));
  facts.bytes_per_token = static_cast<double>(text.text_bytes()) / static_cast<double>(text.size());
  facts.title = "Training run";
  facts.subtitle =
      fmt::format("{} parameters, {} of width {}, context {}, {} training tokens",
                  format_count(model.table.total()), format_amount(model.config.n_layer, "layer"),
                  model.config.n_embd, model.config.n_ctx, format_count(data.train.size()));
  facts.sections.push_back(parameter_section(model));
  ReportSection about{.title = "Data and machine"};
  about.facts = {{"training tokens", format_thousands(data.train.size())},
                 {"validation tokens", format_thousands(data.val.size())},
                 {"vocabulary", format_thousands(data.tokenizer->vocab_size())},
                 {"optimizer", optimizer},
                 {"machine", machine}};
  facts.sections.push_back(about);
  facts.sections.push_back(config_section(config));
  return facts;
}

double measure_peak_flops(const Backend& backend, DType dtype) {
  constexpr int64_t kSize = 512;
  const int64_t rows = kSize * backend.pool.size();
  const Buffer memory(static_cast<size_t>((2 * rows + kSize) * kSize) * sizeof(float), "a speed measurement",
                      backend.device.get());
  const TensorView all = memory.view(0, DType::f32, Shape{2 * rows + kSize, kSize});
  const TensorView x = all.slice_rows(0, rows), y = all.slice_rows(rows, rows),
                   w = all.slice_rows(2 * rows, kSize);
  const auto need = [&](DType type) {
    return backend.kernels.linear_scratch(rows, kSize, kSize, type, false);
  };
  const Workspace workspace(max_need(need(dtype), need(DType::f32)), backend.pool.size(),
                            backend.device.get());
  const ExecContext ctx = backend.context(workspace.scratch());
  WeightCache cache;
  const PackedMatrix packed = cache.get(ctx, {&w, 1}, 0, 0, dtype, false);
  const double flops = 2.0 * static_cast<double>(rows * kSize * kSize);
  double best = 0;
  const auto start = Clock::now();
  for (int i = 0; i < 100 && Clock::now() - start < std::chrono::milliseconds(60); ++i) {
    const auto begin = Clock::now();
    backend.kernels.linear_forward(ctx, {.y = y, .x = x, .w = packed ? TensorView{} : w, .packed = packed});
    backend.device->synchronize();
    best = std::max(best, flops / seconds_since(begin));
  }
  return best;
}

}  // namespace gpt
