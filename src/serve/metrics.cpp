#include "serve/metrics.h"

#include <fmt/format.h>

#include <algorithm>

#include "serve/models/model_set.h"

namespace gpt::serve {
namespace {

void write_head(std::string& out, const char* name, const char* type, const char* help) {
  out += fmt::format("# HELP gptcpp_{0} {2}\n# TYPE gptcpp_{0} {1}\n", name, type, help);
}

void write_one(std::string& out, const char* name, const char* type, const char* help, int64_t value) {
  write_head(out, name, type, help);
  out += fmt::format("gptcpp_{} {}\n", name, value);
}

// Returns the value of a label in quotes.
std::string label(const std::string& value) {
  std::string out = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') out += '\\';
    out += c == '\n' ? ' ' : c;
  }
  return out + "\"";
}

}  // namespace

void Histogram::add(double value) {
  const auto at = std::ranges::lower_bound(kBounds, value) - kBounds.begin();
  ++counts_[static_cast<size_t>(at)];
  sum_ += value;
}

void Histogram::write(std::string& out, const char* name, const char* help) const {
  write_head(out, name, "histogram", help);
  int64_t below = 0;
  for (size_t i = 0; i < kBounds.size(); ++i) {
    below += counts_[i];
    out += fmt::format("gptcpp_{}_bucket{{le=\"{}\"}} {}\n", name, kBounds[i], below);
  }
  below += counts_.back();
  out += fmt::format("gptcpp_{0}_bucket{{le=\"+Inf\"}} {1}\ngptcpp_{0}_sum {2}\ngptcpp_{0}_count {1}\n", name,
                     below, sum_.load());
}

void Metrics::count_request(const std::string& endpoint, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{endpoint, status}];
}

std::string Metrics::page(const ModelSet& models, int64_t connections) const {
  std::string out;
  {
    const std::lock_guard lock(mutex_);
    write_head(out, "requests_total", "counter", "Completed requests, by endpoint and status.");
    for (const auto& [key, count] : requests_)
      out += fmt::format("gptcpp_requests_total{{endpoint={},status=\"{}\"}} {}\n", label(key.first),
                         key.second, count);
  }
  write_one(out, "prompt_tokens_total", "counter", "Prompt tokens.", prompt_tokens);
  write_one(out, "generated_tokens_total", "counter", "Generated tokens.", generated_tokens);
  write_one(out, "cached_tokens_total", "counter", "Prompt tokens that were taken from the KV cache.",
            cached_tokens);
  write_one(out, "connections", "gauge", "Open connections.", connections);
  struct Row {
    const char *name, *type, *help;
    int64_t (*of)(ServedModel& model, const EngineWorker::Facts& facts);
  };
  using Facts = EngineWorker::Facts;
  constexpr Row kRows[] = {
      {"sequences_running", "gauge", "Running sequences.",
       [](ServedModel&, const Facts& f) { return f.running; }},
      {"sequences_waiting", "gauge", "Queued sequences.",
       [](ServedModel&, const Facts& f) { return f.waiting; }},
      {"engine_steps_total", "counter", "Engine steps.",
       [](ServedModel&, const Facts& f) { return f.counts.steps; }},
      {"computed_tokens_total", "counter", "Tokens computed by the model.",
       [](ServedModel&, const Facts& f) { return f.counts.computed; }},
      {"draft_tokens_total", "counter", "Draft tokens.",
       [](ServedModel&, const Facts& f) { return f.counts.proposed; }},
      {"accepted_tokens_total", "counter", "Accepted draft tokens.",
       [](ServedModel&, const Facts& f) { return f.counts.accepted; }},
      {"preemptions_total", "counter", "Sequences returned to the queue because the KV cache was full.",
       [](ServedModel&, const Facts& f) { return f.counts.preemptions; }},
      {"kv_blocks", "gauge", "Pages of the KV cache.",
       [](ServedModel& m, const Facts&) { return m.cache_blocks(); }},
      {"kv_blocks_free", "gauge", "Pages of the KV cache that are free or can be freed.",
       [](ServedModel&, const Facts& f) { return f.available_blocks; }},
      {"repacked_weights_bytes", "gauge", "Bytes of memory-mapped weights that were copied to huge pages.",
       [](ServedModel& m, const Facts&) { return m.repacked_bytes(); }}};
  for (const Row& row : kRows) {
    write_head(out, row.name, row.type, row.help);
    for (const auto& model : models.all())
      out += fmt::format("gptcpp_{}{{model={}}} {}\n", row.name, label(model->name()),
                         row.of(*model, model->worker().facts()));
  }
  first_token_time.write(out, "time_to_first_token_seconds", "Time from a request to its first token.");
  token_time.write(out, "inter_token_seconds", "Time between two tokens of a sequence.");
  request_time.write(out, "request_seconds", "Time from a request to its complete response.");
  return out;
}

}  // namespace gpt::serve
