#include "adapter_commands.h"

#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>

#include "base/error.h"
#include "base/format.h"
#include "chat/model_text.h"
#include "convert/adapter_files.h"
#include "options.h"
#include "output.h"
#include "report/table.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

std::string base_of(const ConvertArguments& a) {
  if (!a.base.empty()) return a.base;
  std::string base = adapter_facts(a.in).base;
  std::error_code ignored;
  if (!base.empty() && fs::exists(base, ignored)) return base;
  fail_usage("--base is missing: {} is an adapter; name its base model{}", a.in,
             base.empty() ? "" : ", called " + base.substr(0, 128) + " where it was made");
}

void check_adapter_flags(const ConvertArguments& a) {
  if (!a.adapters.empty())
    fail_usage("--adapter: {} is an adapter, but expected a model first: gpt convert MODEL OUT --adapter {}",
               a.in, a.in);
  for (const auto& [flag, given] : {std::pair("--dtype", !a.dtype.empty()),
                                    {"--quant", !a.quant.empty()},
                                    {"--max-shard-size", !a.max_shard_size.empty()},
                                    {"--average", !a.average.empty()},
                                    {"--dry-run", a.dry_run}}) {
    if (given)
      fail_usage("{}: not available, because {} is an adapter, which is written in fp32", flag, a.in);
  }
}

double scale_of(const AdapterSettings& s) {
  return adapter_scale({s.rank, s.alpha}, s.rslora);
}

// Returns the distinct last components of names: "q_proj" for "model.layers.0.self_attn.q_proj".
std::set<std::string> last_names(const std::vector<std::string>& targets) {
  std::set<std::string> names;
  for (const std::string& target : targets)
    names.insert(target.substr(target.rfind('.') + 1));
  return names;
}

const char* format_name(AdapterFormat format) {
  return format == AdapterFormat::peft ? "PEFT" : "GGUF";
}

}  // namespace

int convert_adapter(const ConvertArguments& a) {
  check_adapter_flags(a);
  if (a.to.empty()) check_folder_name(a.out, {".gguf"});
  const std::string to = !a.to.empty() ? a.to : a.out.ends_with(".gguf") ? "gguf" : "peft";
  check_choice("--to", to, {"peft", "gguf"});
  if (to == "gguf" && !a.out.ends_with(".gguf"))
    fail_usage("--to gguf writes a file: expected OUT to end in .gguf, found {}", a.out);
  std::error_code ignored;
  if (fs::exists(a.out, ignored) && !a.force)
    fail("{} already exists; choose a different output, or add --force", a.out);
  const std::string base = base_of(a);
  const LoadedModel model(base, std::nullopt, MatrixOrder::as_stored, a.hints);
  const LoadedAdapter loaded = load_adapter(a.in, model.model());
  require_same_tokens(model, a.in);
  if (const std::string note = note_other_base(model, a.in); !note.empty()) write_note("note: " + note);
  if (to == "gguf") {
    write_adapter_gguf(a.out, model.model(), *loaded.adapter, fs::path(a.out).stem().string());
  } else {
    fs::create_directories(a.out);
    write_adapter(a.out, model.model(), *loaded.adapter, loaded.settings,
                  loaded.base.empty() ? base : loaded.base);
  }
  write_note(fmt::format("wrote {}: {} adapter, {} on {} in {} parameters\n", a.out,
                         to == "gguf" ? "GGUF" : "PEFT", fmt::format("rank {}", loaded.adapter->rank),
                         format_amount(std::ssize(loaded.adapter->products), "matrix", "matrices"),
                         format_thousands(loaded.adapter->table.total())));
  if (!a.json) write_next(use_command(base, a.out));
  if (a.json)
    write_output(nlohmann::json{{"in", a.in},
                                {"out", a.out},
                                {"format", to},
                                {"base", base},
                                {"parameters", loaded.adapter->table.total()}}
                     .dump(2) +
                 "\n");
  return 0;
}

int describe_adapter(const std::string& path, bool json) {
  const AdapterFacts f = adapter_facts(path);
  const AdapterSettings& s = f.settings;
  if (json) {
    write_output(nlohmann::json{{"adapter", path},
                                {"format", lower_case(format_name(f.format))},
                                {"base", f.base},
                                {"rank", s.rank},
                                {"alpha", s.alpha},
                                {"rslora", s.rslora},
                                {"scale", scale_of(s)},
                                {"dropout", s.dropout},
                                {"targets", s.targets},
                                {"layers", s.layers},
                                {"rank_pattern", s.rank_pattern},
                                {"alpha_pattern", s.alpha_pattern},
                                {"matrices", f.matrices},
                                {"parameters", f.parameters}}
                     .dump(2, ' ', false, nlohmann::json::error_handler_t::replace) +
                 "\n");
    return 0;
  }
  TextTable table;
  const auto add = [&](const char* name, std::string value, std::string note = "") {
    table.rows.push_back({name, std::move(value), std::move(note)});
  };
  add("adapter", fmt::format("LoRA, {}", format_name(f.format)), f.architecture);
  add("base", f.base.empty() ? "not said" : f.base);
  add("rank", std::to_string(s.rank), s.rank_pattern.empty() ? "" : "different for some matrices");
  add("alpha", fmt::format("{:g}", s.alpha), s.alpha_pattern.empty() ? "" : "different for some matrices");
  add("scale", fmt::format("{:.4g}", scale_of(s)), s.rslora ? "alpha / sqrt(rank), rsLoRA" : "alpha / rank");
  if (s.dropout > 0) add("dropout", fmt::format("{:g}", s.dropout), "in training");
  add("matrices", format_thousands(f.matrices), fmt::format("{}", fmt::join(last_names(s.targets), ", ")));
  add("parameters", format_thousands(f.parameters), format_bytes(4 * f.parameters) + " in fp32");
  write_output(format_table(table));
  std::error_code ignored;
  if (!f.base.empty() && fs::exists(f.base, ignored)) write_next(use_command(path));
  return 0;
}

}  // namespace gpt
