#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "convert/conversion.h"
#include "convert/gguf_vocab.h"
#include "io/checkpoint_dir.h"
#include "io/tensor_info.h"
#include "options.h"
#include "output.h"
#include "report/format.h"
#include "report/table.h"
#include "text/c_vocab.h"
#include "text/chat_template.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFooter = R"(Examples:
  gpt convert run hf-model                             what transformers loads, with tokenizer
  gpt convert ckpt.pt hf-model --dtype bf16            a nanoGPT checkpoint; no Python runs, nothing in it is called
  gpt convert hf-model model.gguf --quant q4_k
  gpt convert hf-model model.bin --to llama2c          for llama2.c; --to llmc for llm.c
  gpt convert big-model shards --max-shard-size 2GB
  gpt convert hf-model out --dry-run                   which tensor becomes which; nothing is written

IN: a model folder or run, .safetensors, .index.json, .gguf, a .pt or .bin of PyTorch, a .bin of llama2.c or llm.c.)";

// What a tokenizer consists of, in the layouts of transformers.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",    "tokenizer_config.json",   "vocab.json",         "merges.txt", "tokenizer.model",
    "added_tokens.json", "special_tokens_map.json", "chat_template.jinja"};

struct ConvertArguments {
  std::string in, out, to, dtype, quant, max_shard_size;
  bool dry_run = false, force = false, json = false;
};

// "500MB", "2GB", "2GiB", "1000000": as transformers has them, powers of 1000 unless with an i.
uint64_t parse_size(const std::string& text) {
  if (text.empty()) return UINT64_MAX;
  size_t digits = 0;
  while (digits < text.size() && digits < 15 && text[digits] >= '0' && text[digits] <= '9')
    ++digits;
  const std::vector<std::pair<std::string, uint64_t>> units = {{"", 1},
                                                               {"B", 1},
                                                               {"KB", 1000},
                                                               {"MB", 1000'000},
                                                               {"GB", 1000'000'000},
                                                               {"KiB", 1 << 10},
                                                               {"MiB", 1 << 20},
                                                               {"GiB", uint64_t{1} << 30}};
  for (const auto& [unit, factor] : units) {
    uint64_t bytes = 0;
    if (digits > 0 && text.substr(digits) == unit &&
        !__builtin_mul_overflow(std::stoull(text.substr(0, digits)), factor, &bytes) && bytes > 0) {
      return bytes;
    }
  }
  fail_usage("--max-shard-size: expected a size such as 500MB or 2GB, found \"{}\"", text.substr(0, 64));
}

ModelFormat parse_format(const std::string& name) {
  check_choice("--to", name, {"hf", "gguf", "llmc", "llama2c"});
  if (name == "hf") return ModelFormat::hf;
  if (name == "gguf") return ModelFormat::gguf;
  return name == "llmc" ? ModelFormat::llmc : ModelFormat::llama2c;
}

ConversionOptions conversion_options(const ConvertArguments& a) {
  ConversionOptions options;
  options.to = parse_format(a.to);
  if (!a.dtype.empty() && !a.quant.empty()) fail_usage("--dtype and --quant both name a type; keep one");
  if (!a.quant.empty() && a.to != "gguf")
    fail_usage("--quant: only GGUF files are quantised; use it with --to gguf");
  if (!a.dtype.empty())
    options.dtype = parse_dtype("--dtype", a.dtype, {DType::f32, DType::f16, DType::bf16});
  if (!a.quant.empty()) {
    options.dtype = parse_dtype("--quant", a.quant,
                                {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::q4_k,
                                 DType::q5_k, DType::q6_k});
  }
  if (!a.max_shard_size.empty() && a.to != "hf") fail_usage("--max-shard-size: only with --to hf");
  options.shard_bytes = parse_size(a.max_shard_size);
  const std::string extension = a.to == "gguf" ? ".gguf" : ".bin";
  if (a.to != "hf" && !a.out.ends_with(extension))
    fail_usage("--to {} writes a file: expected OUT to end in {}, found {}", a.to, extension, a.out);
  return options;
}

std::vector<std::string> tokenizer_files(const std::string& folder) {
  std::vector<std::string> found;
  for (const char* name : kTokenizerFiles) {
    if (fs::is_regular_file(fs::path(folder) / name)) found.emplace_back(name);
  }
  return found;
}

void copy_tokenizer(const std::string& from, const std::string& to, const std::vector<std::string>& names) {
  constexpr uint64_t kMaxBytes = uint64_t{1} << 28;
  for (const std::string& name : names)
    write_file_atomic((fs::path(to) / name).string(), read_file((fs::path(from) / name).string(), kMaxBytes));
}

// Nothing that exists is written over without --force, and never the model that is being read.
void check_output(const ConvertArguments& a) {
  std::error_code error;
  if (!fs::exists(a.out, error)) return;
  if (fs::equivalent(a.out, resolve_model_path(a.in), error)) {
    fail("{} is the model that is to be converted; choose another output", a.out);
  }
  if (!a.force) fail("{} exists already; choose another output or add --force", a.out);
  if (a.to != "hf" && fs::is_directory(a.out, error))
    fail("{} is a folder; --to {} writes a file", a.out, a.to);
}

// The tokenizer of a GGUF file or a .bin in the layout of transformers. Returns the files.
std::vector<std::string> unpack_tokenizer(const LoadedModel& loaded, const std::string& folder) {
  std::vector<std::string> names;
  if (const auto tokenizer = model_tokenizer(loaded, "")) {
    write_file_atomic((fs::path(folder) / "tokenizer.json").string(), tokenizer->to_json());
    names.emplace_back("tokenizer.json");
  }
  if (const auto jinja = loaded.gguf() != nullptr ? gguf_chat_template(*loaded.gguf()) : std::nullopt) {
    write_file_atomic((fs::path(folder) / "chat_template.jinja").string(), *jinja);
    names.emplace_back("chat_template.jinja");
  }
  return names;
}

// The tokenizer as llm.c and llama2.c read it, beside the model. Returns the files, none where there is one
// already or the format has no place for it.
std::vector<std::string> write_bin_tokenizer(const ConvertArguments& a, const LoadedModel& loaded,
                                             const std::string& folder) {
  const bool llmc = a.to == "llmc";
  const std::string name = llmc ? kLlmcTokenizerFile : kLlama2cTokenizerFile;
  const std::string file = (fs::path(folder) / name).string();
  std::error_code ignored;
  if (!a.force && fs::exists(file, ignored)) return {};
  try {
    const auto tokenizer = model_tokenizer(loaded, "");
    if (tokenizer == nullptr) return {};
    const int64_t vocab_size = loaded.model().config.vocab_size;
    write_file_atomic(
        file, llmc ? llmc_tokenizer(*tokenizer, vocab_size) : llama2c_tokenizer(*tokenizer, vocab_size));
  } catch (const Error& error) {
    write_note(fmt::format("note: no {}: {}\n", name, error.what()));
    return {};
  }
  return {name};
}

// Returns the tokenizer files that were taken along.
std::vector<std::string> write_output_model(const ConvertArguments& a, const LoadedModel& loaded,
                                            const Conversion& conversion) {
  std::vector<std::string> names;
  if (loaded.gguf() == nullptr) names = tokenizer_files(loaded.folder());
  const bool packed = names.empty();  // in a GGUF file or a .bin, if anywhere
  if (a.to == "hf") {
    DirectoryWriter writer(a.out);
    conversion.write(writer.path());
    if (packed) names = unpack_tokenizer(loaded, writer.path());
    if (!packed) copy_tokenizer(loaded.folder(), writer.path(), names);
    writer.commit();
    return names;
  }
  // Beside the file; what is there already belongs to another model.
  const std::string parent = fs::path(a.out).parent_path().string();
  const std::string folder = parent.empty() ? "." : parent;
  make_directories(folder);
  conversion.write(a.out);
  if (a.to == "gguf") return {};
  std::vector<std::string> bin = write_bin_tokenizer(a, loaded, folder);
  if (!tokenizer_files(folder).empty()) return bin;
  if (packed) {
    names = unpack_tokenizer(loaded, folder);
  } else {
    copy_tokenizer(loaded.folder(), folder, names);
  }
  names.insert(names.end(), bin.begin(), bin.end());
  return names;
}

std::string moves_table(const Conversion& conversion, const LoadedModel& loaded) {
  TextTable table{.columns = {"source", "type", "parameter", "shape", "target", "type", "shape", ""},
                  .rows = {}};
  for (const TensorMove& m : conversion.moves()) {
    table.rows.push_back({m.source, std::string(dtype_name(m.source_dtype)), m.parameter,
                          shape_string(m.shape), m.target, std::string(dtype_name(m.target_dtype)),
                          shape_string(m.target_shape), m.note});
  }
  for (const LoadedModel::Ignored& i : loaded.ignored()) {
    table.rows.push_back({i.tensor->name, std::string(dtype_name(i.tensor->dtype)), "-",
                          shape_string(i.tensor->shape), "-", "", "", std::string("left out: ") + i.why});
  }
  return format_table(table);
}

json result_json(const ConvertArguments& a, const Conversion& conversion, const LoadedModel& loaded,
                 const std::vector<std::string>& tokenizer) {
  json tensors = json::array(), ignored = json::array();
  for (const TensorMove& m : conversion.moves()) {
    tensors.push_back({{"source", m.source},
                       {"source_dtype", dtype_name(m.source_dtype)},
                       {"source_shape", m.source_shape},
                       {"parameter", m.parameter},
                       {"shape", m.shape},
                       {"target", m.target},
                       {"dtype", dtype_name(m.target_dtype)},
                       {"target_shape", m.target_shape},
                       {"note", m.note}});
  }
  for (const LoadedModel::Ignored& i : loaded.ignored())
    ignored.push_back({{"source", i.tensor->name}, {"why", i.why}});
  return {{"in", a.in},
          {"out", a.out},
          {"format", conversion.target()},
          {"tensors", tensors},
          {"ignored", ignored},
          {"dtype", dtype_name(conversion.dtype())},
          {"bytes", conversion.bytes()},
          {"tokenizer", tokenizer},
          {"written", !a.dry_run}};
}

std::string summary(const ConvertArguments& a, const Conversion& conversion, const LoadedModel& loaded,
                    const std::vector<std::string>& tokenizer) {
  std::string text =
      fmt::format("{} {}: {}, {} parameters in {}, {}", a.dry_run ? "would write" : "wrote", a.out,
                  conversion.target(), conversion.moves().size(), dtype_name(conversion.dtype()),
                  format_bytes(static_cast<double>(conversion.bytes())));
  if (!loaded.ignored().empty())
    text += fmt::format("; {} buffers and copies left out", loaded.ignored().size());
  if (!tokenizer.empty()) text += fmt::format("; with {} tokenizer files", tokenizer.size());
  if (conversion.target() == "gpt.cpp")
    text += "; transformers knows no such architecture, so config.json has keys of our own";
  return text + "\n";
}

// The format that OUT's name means.
std::string format_of_name(const std::string& out) {
  if (out.ends_with(".bin")) fail_usage("{}: a file of which format? Give --to llama2c or --to llmc", out);
  return out.ends_with(".gguf") ? "gguf" : "hf";
}

int run(ConvertArguments a) {
  require_argument(a.in, "IN", "convert");
  require_argument(a.out, "OUT", "convert IN");
  if (a.to.empty()) a.to = format_of_name(a.out);
  ConversionOptions options = conversion_options(a);
  const LoadedModel loaded(a.in, std::nullopt);
  std::unique_ptr<Tokenizer> packed;
  if (a.to == "gguf") {
    packed = model_tokenizer(loaded, "");
    options.tokenizer = packed.get();
    options.name = fs::path(a.out).stem().string();
    options.chat_template =
        loaded.gguf() ? gguf_chat_template(*loaded.gguf()) : read_chat_template(loaded.folder());
    if (!packed) write_note(fmt::format("note: {} has no tokenizer, so {} will have none\n", a.in, a.out));
  }
  const Conversion conversion(loaded, options);
  std::vector<std::string> tokenizer;
  if (loaded.gguf() == nullptr && a.to != "gguf") tokenizer = tokenizer_files(loaded.folder());
  if (!a.dry_run) {
    check_output(a);
    tokenizer = write_output_model(a, loaded, conversion);
  }
  if (a.json) {
    write_output(
        result_json(a, conversion, loaded, tokenizer).dump(2, ' ', false, json::error_handler_t::replace) +
        "\n");
  } else {
    if (a.dry_run) write_output(moves_table(conversion, loaded));
    write_note(summary(a, conversion, loaded, tokenizer));
  }
  return 0;
}

}  // namespace

Command add_convert_command(CLI::App& root) {
  auto a = std::make_shared<ConvertArguments>();
  CLI::App* app = root.add_subcommand("convert", "write a model in another format");
  app->allow_extras();
  app->footer(kFooter);
  app->add_option("IN", a->in, "model folder or file");
  app->add_option("OUT", a->out, "folder (hf) or file (gguf, llmc, llama2c) to write");
  app->add_option("--to", a->to, "hf (transformers), gguf, llmc, llama2c (gguf for OUT.gguf, else hf)")
      ->type_name("FORMAT");
  app->add_option("--dtype", a->dtype, "type of the numbers: fp32, fp16, bf16 (as in IN)")->type_name("T");
  app->add_option("--quant", a->quant, "quantise: q8_0, q6_k, q5_k, q4_k, q5_1, ... (GGUF only)")
      ->type_name("T");
  app->add_option("--max-shard-size", a->max_shard_size, "split into files of at most this size, e.g. 2GB")
      ->type_name("SIZE");
  app->add_flag("--dry-run", a->dry_run, "show which tensor becomes which and write nothing");
  app->add_flag("--force", a->force, "replace an existing output");
  add_json_option(*app, a->json);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt
