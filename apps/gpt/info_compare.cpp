#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>

#include "base/format.h"
#include "info_report.h"
#include "model/training_memory.h"
#include "report/table.h"

namespace gpt {
namespace {

using nlohmann::json;

std::string with_share(int64_t part, int64_t whole) {
  return fmt::format("{}  {:>6}", format_thousands(part),
                     format_percent(static_cast<double>(part) / static_cast<double>(whole)));
}

// Rows of a comparison: a label and a cell for each model.
class Comparison {
 public:
  explicit Comparison(const std::vector<InfoSubject>& subjects) : subjects_(subjects) {
    for (const InfoSubject& s : subjects)
      table_.columns.push_back(s.name);
  }
  void row(const std::string& label, const std::function<std::string(const InfoSubject&)>& cell) {
    std::vector<std::string> cells = {label};
    for (const InfoSubject& s : subjects_)
      cells.push_back(cell(s));
    table_.rows.push_back(std::move(cells));
  }
  std::string text() const { return format_table(table_); }

 private:
  const std::vector<InfoSubject>& subjects_;
  TextTable table_{.columns = {""}};
};

// The keys in which the models differ.
void add_differences(Comparison& table, const std::vector<InfoSubject>& subjects) {
  for (const std::string& key : model_key_names()) {
    const auto value = [&](const InfoSubject& s) -> std::string {
      const ModelConfig& c = s.counts.config;
      if (key.starts_with("rope_") && c.position != Position::rope) return "-";
      const json all = model_keys_json(c);
      return all[key].is_string() ? all[key].get<std::string>() : all[key].dump();
    };
    std::set<std::string> values;
    for (const InfoSubject& s : subjects)
      values.insert(value(s));
    values.erase("-");  // a key without meaning for a model is no difference
    if (values.size() > 1) table.row(key, value);
  }
}

void add_memory(Comparison& table) {
  table.row("weights, bf16", [](const InfoSubject& s) { return format_bytes(2 * s.counts.total); });
  table.row("KV cache per token, bf16",
            [](const InfoSubject& s) { return format_bytes(s.counts.cache_bytes_per_token(2)); });
  table.row("KV cache in full, bf16", [](const InfoSubject& s) {
    return format_bytes(s.counts.cache_bytes_per_token(2) * s.sequences * s.counts.config.n_ctx);
  });
  table.row("batch", [](const InfoSubject& s) { return format_thousands(s.batch); });
  table.row("activations, fp32",
            [](const InfoSubject& s) { return format_bytes(InfoMemory(s).activations_fp32); });
  table.row("training, Adam, fp32", [](const InfoSubject& s) {
    return format_bytes(training_state(s.counts.total, training_formats()[0]).total() +
                        InfoMemory(s).activations_fp32);
  });
}

std::string dims(std::initializer_list<int64_t> sizes) {
  std::string text;
  for (const int64_t size : sizes)
    text += (text.empty() ? "" : " x ") + format_thousands(size);
  return text;
}

std::string name_of(const ModelConfig& c, const char* key) {
  return model_keys_json(c)[key].get<std::string>();
}

std::string components_text(const ModelConfig& c) {
  const std::string norm = name_of(c, "norm") == "rms" ? "RMS norm" : "layer norm";
  const bool gated = c.act == Act::swiglu;
  std::string heads = fmt::format("{} heads of {}", c.n_head, c.head_dim);
  if (c.n_kv_head != c.n_head)
    heads += fmt::format(", {} for keys and values ({})", c.n_kv_head, c.n_kv_head == 1 ? "MQA" : "GQA");
  std::string text = "components\n";
  text += fmt::format("  embedding  {}{}\n", dims({c.vocab_size, c.n_embd}), c.embd_norm ? ", " + norm : "");
  text += fmt::format("  positions  {}\n", c.position == Position::learned
                                               ? "learned, " + dims({c.n_ctx, c.n_embd})
                                               : fmt::format("rotary, theta {:g}", c.rope_theta));
  text += fmt::format("  blocks     {}, {} {} each part\n", c.n_layer, norm,
                      c.norm_position == NormPosition::pre ? "before" : "after");
  text += fmt::format("  attention  {}{}\n", heads, c.qk_norm ? ", norm of queries and keys" : "");
  text +=
      fmt::format("  MLP        {} -> {} -> {}, {}{}\n", format_thousands(c.n_embd), format_thousands(c.d_ff),
                  format_thousands(c.n_embd), name_of(c, "act"), gated ? " (gated)" : "");
  return text + fmt::format("  head       {}, {}{}\n", dims({c.n_embd, c.vocab_size}),
                            c.tie_embeddings ? "the embedding again" : "a matrix of its own",
                            c.logit_softcap > 0 ? fmt::format(", soft cap {:g}", c.logit_softcap) : "");
}

std::string flow_text(const ModelConfig& c) {
  const bool pre = c.norm_position == NormPosition::pre;
  return fmt::format(
      "data flow\n  ids [B,T] -> x [B,T,{0}] -> {1} times: {2} -> {3}logits [B,T,{4}]\n", c.n_embd, c.n_layer,
      pre ? "x + attention(norm(x)), x + MLP(norm(x))" : "norm(x + attention(x)), norm(x + MLP(x))",
      c.final_norm ? "norm -> " : "", c.vocab_size);
}

std::string formulas_text(const ModelCounts& m) {
  const ModelConfig& c = m.config;
  const auto count = [&](Component component) {
    for (const ComponentCount& k : m.components) {
      if (k.component == component) return k;
    }
    return ComponentCount{};
  };
  std::string text = "parameters\n";
  const auto line = [&](const char* label, const std::string& formula, int64_t n) {
    if (n > 0) text += fmt::format("  {:<11}{:<34} {:>18}\n", label, formula, format_thousands(n));
  };
  const bool gated = c.act == Act::swiglu;
  line("embedding", "V C", count(Component::token_embedding).total);
  line("positions", "T C", count(Component::position_embedding).total);
  line("attention", fmt::format("L ((2 H + 2 Hkv) D C{})", c.qkv_bias || c.out_bias ? " + biases" : ""),
       count(Component::attention).total);
  line("MLP", fmt::format("L ({} C F{})", gated ? 3 : 2, c.mlp_bias ? " + biases" : ""),
       count(Component::mlp).total);
  line("norms", "gains and biases", count(Component::norm).total + count(Component::final_norm).total);
  line("head", c.head_bias ? "V C + bias" : "V C", count(Component::head).total);
  line("total", "", m.total);
  line("layers", "about 12 L C^2", m.rule_of_thumb);
  return text;
}

}  // namespace

std::string compare_subjects(const std::vector<InfoSubject>& subjects) {
  Comparison table(subjects);
  add_differences(table, subjects);
  for (size_t i = 0; i < subjects.front().counts.components.size(); ++i) {
    table.row(subjects.front().counts.components[i].label,
              [i](const InfoSubject& s) { return with_share(s.counts.components[i].total, s.counts.total); });
  }
  table.row("total", [](const InfoSubject& s) { return with_share(s.counts.total, s.counts.total); });
  table.row("12 L C^2",
            [](const InfoSubject& s) { return with_share(s.counts.rule_of_thumb, s.counts.total); });
  table.row("per layer", [](const InfoSubject& s) { return with_share(s.counts.per_layer, s.counts.total); });
  table.row("FLOPs per token, forward",
            [](const InfoSubject& s) { return format_count(s.counts.forward_flops(s.counts.config.n_ctx)); });
  table.row("FLOPs per token, training", [](const InfoSubject& s) {
    return format_count(s.counts.training_flops(s.counts.config.n_ctx));
  });
  table.row("FLOPs of the first decoded token",
            [](const InfoSubject& s) { return format_count(s.counts.decode_flops(0)); });
  table.row("loss at the start, ln V", [](const InfoSubject& s) {
    return fmt::format("{:.4f}", std::log(static_cast<double>(s.counts.config.vocab_size)));
  });
  add_memory(table);
  return table.text();
}

std::string quick_reference(const InfoSubject& s) {
  const ModelCounts& m = s.counts;
  const ModelConfig& c = m.config;
  std::string text = s.name + "\n" + components_text(c) + flow_text(c) + formulas_text(m);
  text += fmt::format("computing\n  per token  {} FLOPs forward, {} training, at {} tokens of context\n",
                      format_count(m.forward_flops(c.n_ctx)), format_count(m.training_flops(c.n_ctx)),
                      format_thousands(c.n_ctx));
  text += fmt::format("memory\n  weights    {} fp32, {} bf16\n  KV cache   {} a token, {} in full, bf16\n",
                      format_bytes(4 * m.total), format_bytes(2 * m.total),
                      format_bytes(m.cache_bytes_per_token(2)),
                      format_bytes(m.cache_bytes_per_token(2) * c.n_ctx));
  text +=
      fmt::format("  training   {} for weights, gradients and moments, fp32\n", format_bytes(16 * m.total));
  return text + fmt::format("loss at the start\n  ln {} = {:.4f}\n", c.vocab_size,
                            std::log(static_cast<double>(c.vocab_size)));
}

}  // namespace gpt
