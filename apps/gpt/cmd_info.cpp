#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "command.h"
#include "config_flags.h"
#include "model/gguf_config.h"
#include "model/model_counts.h"
#include "model/model_files.h"
#include "model/model_source.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"
#include "report/format.h"
#include "report/table.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kFooter = R"(Examples:
  gpt info                                     the presets
  gpt info gpt2
  gpt info gpt2 --qkv-bias false --out-bias false
  gpt info run --json
  gpt info mini-gpt --n-layer 2 --n-embd 512 --n-head 8
  gpt info gpt2 --compare gpt2-medium llama3-8b

A preset comes before a folder of the same name; write ./gpt2 for the folder. Any key of the architecture
can be changed with its flag. Nothing is loaded: gpt3-175b takes no longer than tiny.)";

constexpr int64_t kByteVocab = 256;

struct InfoArguments {
  std::string model;
  std::vector<std::string> compare;
  int64_t batch_size = 0;
  bool json = false;
};

struct Subject {
  std::string name;
  ModelCounts counts;
  int64_t batch = 1;           // sequences per training step
  bool assumed_vocab = false;  // the preset leaves the vocabulary to the tokenizer
};

// Values that follow from others must not survive a change of those: they are left out when they are what
// would be derived anyway.
json keys_of_model(const ModelConfig& c) {
  json keys = model_keys_json(c);
  if (c.d_ff == 4 * c.n_embd) keys.erase("d_ff");
  if (c.n_kv_head == c.n_head) keys.erase("n_kv_head");
  if (c.head_dim * c.n_head == c.n_embd) keys.erase("head_dim");
  return keys;
}

// The config of a model on disk, without reading weights where a config.json has it all.
ModelConfig config_on_disk(const std::string& name) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (!fs::exists(name, ignored)) {
    preset(name);  // throws with a suggestion
  }
  const fs::path path = resolve_model_path(name);
  if (path.extension() == ".json") return read_model_config(path.string());
  const fs::path config = (fs::is_directory(path, ignored) ? path : path.parent_path()) / "config.json";
  const bool own_config =
      path.extension() == ".bin" || path.extension() == ".pt" || path.extension() == ".pth";
  if (own_config || !fs::exists(config, ignored)) return open_model_source(path.string()).config;
  return read_model_config(config.string());
}

Subject find_subject(const std::string& name, const ConfigFlags& flags, int64_t batch_size) {
  Settings settings;
  if (is_preset(name)) {
    settings.add_preset(name);
  } else {
    settings.add_json(keys_of_model(config_on_disk(name)), name);
  }
  flags.apply_flags(settings);
  RunConfig config = settings.resolve();
  const bool assumed = config.model.vocab_size == 0;
  if (assumed) config.model.vocab_size = kByteVocab;
  complete(config.model);
  return {name, ModelCounts(config.model), batch_size > 0 ? batch_size : config.train.batch_size, assumed};
}

struct Memory {
  int64_t weights_fp32, weights_bf16, cache_token_fp32, cache_token_bf16, cache_full_fp32, cache_full_bf16;
  int64_t gradients, moments, activations, activations_recompute;
  int64_t training() const { return weights_fp32 + gradients + moments + activations; }
};

Memory memory_of(const Subject& s) {
  const ModelCounts& m = s.counts;
  const int64_t n_ctx = m.config.n_ctx;
  Memory out{};
  out.weights_fp32 = out.gradients = 4 * m.total;
  out.weights_bf16 = 2 * m.total;
  out.moments = 8 * m.total;
  out.cache_token_fp32 = m.cache_bytes_per_token(4);
  out.cache_token_bf16 = m.cache_bytes_per_token(2);
  out.cache_full_fp32 = out.cache_token_fp32 * n_ctx;
  out.cache_full_bf16 = out.cache_token_bf16 * n_ctx;
  out.activations = m.activation_bytes(s.batch, n_ctx, false);
  out.activations_recompute = m.activation_bytes(s.batch, n_ctx, true);
  return out;
}

json parameters_json(const ModelCounts& m) {
  json parameters = {{"total", m.total}, {"layers", m.layers}, {"rule_of_thumb_12LC2", m.rule_of_thumb}};
  json per_layer = {{"total", m.per_layer}};
  for (const ComponentCount& c : m.components) {
    parameters[c.key] = c.total;
    if (c.per_layer > 0 || c.component == Component::norm) per_layer[c.key] = c.per_layer;
  }
  parameters["per_layer"] = per_layer;
  return parameters;
}

json subject_json(const Subject& s) {
  const Memory m = memory_of(s);
  const int64_t n_ctx = s.counts.config.n_ctx;
  return {{"name", s.name},
          {"config", model_keys_json(s.counts.config)},
          {"vocab_size_assumed", s.assumed_vocab},
          {"parameters", parameters_json(s.counts)},
          {"flops_per_token",
           {{"n_ctx", n_ctx},
            {"forward", s.counts.forward_flops(n_ctx)},
            {"training", s.counts.training_flops(n_ctx)}}},
          {"memory_bytes",
           {{"inference",
             {{"weights", {{"fp32", m.weights_fp32}, {"bf16", m.weights_bf16}}},
              {"kv_cache_per_token", {{"fp32", m.cache_token_fp32}, {"bf16", m.cache_token_bf16}}},
              {"kv_cache_full_context", {{"fp32", m.cache_full_fp32}, {"bf16", m.cache_full_bf16}}}}},
            {"training",
             {{"batch_size", s.batch},
              {"weights", m.weights_fp32},
              {"gradients", m.gradients},
              {"moments", m.moments},
              {"activations", m.activations},
              {"activations_recompute", m.activations_recompute},
              {"total", m.training()}}}}}};
}

std::string share(int64_t part, int64_t whole) {
  return format_percent(static_cast<double>(part) / static_cast<double>(whole));
}

std::string parameters_table(const ModelCounts& m) {
  TextTable table{.columns = {"component", "parameters", "share", "per layer"}, .rows = {}};
  for (const ComponentCount& c : m.components) {
    const bool tied = c.component == Component::head && c.total == 0 && m.config.tie_embeddings;
    table.rows.push_back({tied ? c.label + ", tied" : c.label, format_thousands(c.total),
                          share(c.total, m.total), c.per_layer > 0 ? format_thousands(c.per_layer) : ""});
  }
  table.rows.push_back(
      {"all layers", format_thousands(m.layers), share(m.layers, m.total), format_thousands(m.per_layer)});
  table.rows.push_back({"total", format_thousands(m.total), share(m.total, m.total), ""});
  return format_table(table) +
         fmt::format("rule of thumb for the layers, 12 L C^2: {}\n", format_thousands(m.rule_of_thumb));
}

std::string bytes(int64_t n) {
  return format_bytes(static_cast<double>(n));
}

std::string memory_tables(const Subject& s) {
  const Memory m = memory_of(s);
  TextTable inference{.columns = {"inference", "fp32", "bf16"}, .rows = {}};
  inference.rows = {{"weights", bytes(m.weights_fp32), bytes(m.weights_bf16)},
                    {"KV cache per token", bytes(m.cache_token_fp32), bytes(m.cache_token_bf16)},
                    {fmt::format("KV cache, {} tokens", format_thousands(s.counts.config.n_ctx)),
                     bytes(m.cache_full_fp32), bytes(m.cache_full_bf16)}};
  TextTable training{.columns = {"training, AdamW", "fp32"}, .rows = {}};
  training.rows = {{"weights", bytes(m.weights_fp32)},
                   {"gradients", bytes(m.gradients)},
                   {"moments", bytes(m.moments)},
                   {fmt::format("activations, batch {}", s.batch), bytes(m.activations)},
                   {"total", bytes(m.training())},
                   {"activations with --recompute", bytes(m.activations_recompute)}};
  return format_table(inference) + "\n" + format_table(training);
}

// Every key with its final value, a line per group.
std::string describe_keys(const ModelConfig& config) {
  const json values = model_keys_json(config);
  std::string text, group;
  for (const KeyInfo& key : config_keys()) {
    if (!values.contains(key.name)) continue;
    if (key.group != group) text += fmt::format("{}{}:", group.empty() ? "" : "\n", key.group);
    group = key.group;
    const json& value = values[key.name];
    text += fmt::format("  {} {}", key.name, value.is_string() ? value.get<std::string>() : value.dump());
  }
  return text + "\n";
}

std::string describe(const Subject& s) {
  const int64_t n_ctx = s.counts.config.n_ctx;
  std::string text = s.name + "\n\n" + parameters_table(s.counts);
  text +=
      fmt::format("FLOPs per token at context {}: {} forward, {} training\n\n", format_thousands(n_ctx),
                  format_count(s.counts.forward_flops(n_ctx)), format_count(s.counts.training_flops(n_ctx)));
  return text + memory_tables(s) + "\n" + describe_keys(s.counts.config);
}

std::string compare(const std::vector<Subject>& subjects) {
  TextTable table{.columns = {""}, .rows = {}};
  for (const Subject& s : subjects)
    table.columns.push_back(s.name);
  const auto row = [&](const std::string& label, const auto& value) {
    std::vector<std::string> cells = {label};
    for (const Subject& s : subjects)
      cells.push_back(value(s));
    table.rows.push_back(cells);
  };
  for (size_t i = 0; i < subjects.front().counts.components.size(); ++i) {
    row(subjects.front().counts.components[i].label,
        [i](const Subject& s) { return format_thousands(s.counts.components[i].total); });
  }
  row("total", [](const Subject& s) { return format_thousands(s.counts.total); });
  row("per layer", [](const Subject& s) { return format_thousands(s.counts.per_layer); });
  row("12 L C^2", [](const Subject& s) { return format_thousands(s.counts.rule_of_thumb); });
  row("context", [](const Subject& s) { return format_thousands(s.counts.config.n_ctx); });
  row("training FLOPs per token",
      [](const Subject& s) { return format_count(s.counts.training_flops(s.counts.config.n_ctx)); });
  row("weights, fp32", [](const Subject& s) { return bytes(memory_of(s).weights_fp32); });
  row("KV cache per token, bf16", [](const Subject& s) { return bytes(memory_of(s).cache_token_bf16); });
  row("KV cache in full, bf16", [](const Subject& s) { return bytes(memory_of(s).cache_full_bf16); });
  row("training with AdamW, fp32", [](const Subject& s) { return bytes(memory_of(s).training()); });
  return format_table(table);
}

std::string preset_list(const ConfigFlags& flags) {
  TextTable table{.columns = {"preset", "parameters", "layers", "width", "heads", "context"}, .rows = {}};
  for (const std::string& name : preset_names()) {
    const Subject s = find_subject(name, flags, 0);
    const ModelConfig& c = s.counts.config;
    table.rows.push_back({name, format_thousands(s.counts.total), std::to_string(c.n_layer),
                          std::to_string(c.n_embd), std::to_string(c.n_head), std::to_string(c.n_ctx)});
  }
  return format_table(table) + "gpt info NAME describes one, gpt train --preset NAME trains it\n";
}

int run(const InfoArguments& a, const ConfigFlags& flags) {
  if (a.batch_size < 0 || a.batch_size > 1 << 20)
    fail_usage("--batch-size: expected 1 to {}, found {}", 1 << 20, a.batch_size);
  std::vector<std::string> names = a.compare;
  if (!a.model.empty()) names.insert(names.begin(), a.model);
  if (names.empty()) {
    if (a.json) {
      write_output(json(preset_names()).dump() + "\n");
    } else {
      write_output(preset_list(flags));
    }
    return 0;
  }
  std::vector<Subject> subjects;
  for (const std::string& name : names) {
    subjects.push_back(find_subject(name, flags, a.batch_size));
    if (subjects.back().assumed_vocab) {
      write_note(fmt::format("note: the vocabulary of {} comes from its tokenizer; counted with {} tokens\n",
                             name, kByteVocab));
    }
  }
  if (a.json) {
    json out = subject_json(subjects.front());
    if (subjects.size() > 1) {
      out = {{"models", json::array()}};
      for (const Subject& s : subjects)
        out["models"].push_back(subject_json(s));
    }
    write_output(out.dump(2) + "\n");
  } else {
    write_output(subjects.size() == 1 ? describe(subjects.front()) : compare(subjects));
  }
  return 0;
}

}  // namespace

Command add_info_command(CLI::App& root) {
  auto a = std::make_shared<InfoArguments>();
  CLI::App* app = root.add_subcommand("info", "parameters, FLOPs and memory of a model or preset");
  app->allow_extras();
  app->footer(kFooter);
  app->add_option("MODEL", a->model, "preset, model folder or file; nothing: list the presets");
  app->add_option("--compare", a->compare, "more models to put beside it")->type_name("MODEL ...");
  app->add_option("--batch-size", a->batch_size, "sequences per training step (the preset's)")
      ->type_name("N");
  add_json_option(*app, a->json);
  const std::vector<std::string> model_keys = model_key_names();
  const auto flags = std::make_shared<ConfigFlags>(*app, [&](const KeyInfo& key) {
    return std::find(model_keys.begin(), model_keys.end(), key.name) != model_keys.end();
  });
  return {app, [a, flags] { return run(*a, *flags); }};
}

}  // namespace gpt
