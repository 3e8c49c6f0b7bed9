#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "adapter_commands.h"
#include "base/error.h"
#include "base/file.h"
#include "base/format.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "base/suggest.h"
#include "chat/model_text.h"
#include "command.h"
#include "convert/adapter_files.h"
#include "convert/gguf_vocab.h"
#include "convert_output.h"
#include "generation.h"
#include "io/tensor_info.h"
#include "options.h"
#include "output.h"
#include "report/table.h"
#include "text/chat_formats.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kConvertFooter = R"(Examples:
  gpt convert run hf-model                             what transformers loads, with tokenizer
  gpt convert ckpt.pt hf-model --dtype bf16            a nanoGPT checkpoint; no Python runs, nothing in it is called
  gpt convert model.pt hf-model --n-head 6             a minGPT checkpoint, which does not say its heads
  gpt convert hf-model model.gguf --quant q4_k
  gpt convert hf-model model.bin --to llama2c          for llama2.c; --to llmc for llm.c
  gpt convert big-model shards --max-shard-size 2GB
  gpt convert hf-model merged --adapter tuned          with a LoRA adapter merged into its weights
  gpt convert run1 soup --average run2 run3            the mean of the weights of three runs
  gpt convert tuned tuned.gguf --base hf-model         the adapter alone for llama.cpp; --to peft for the way back
  gpt convert hf-model out --dry-run                   which tensor becomes which; nothing is written

IN: a model folder or run, .safetensors, .index.json, .gguf, a .pt or .bin of PyTorch, a .bin of llama2.c or llm.c.)";

// Parses a size such as "500MB", "2GB", "2GiB" or "1000000". As in transformers, units are powers of 1000,
// and units with an i are powers of 1024.
uint64_t parse_size(const std::string& text) {
  if (text.empty()) return UINT64_MAX;
  static const std::map<std::string_view, uint64_t> units = {{"", 1},
                                                             {"B", 1},
                                                             {"KB", 1000},
                                                             {"MB", 1000'000},
                                                             {"GB", 1000'000'000},
                                                             {"KiB", 1 << 10},
                                                             {"MiB", 1 << 20},
                                                             {"GiB", uint64_t{1} << 30}};
  const std::string_view view = text;
  const size_t digits = std::min(view.find_first_not_of("0123456789"), view.size());
  const auto number = parse_number<uint64_t>(view.substr(0, digits));
  const auto unit = units.find(view.substr(digits));
  uint64_t bytes = 0;
  if (number && unit != units.end() && !__builtin_mul_overflow(*number, unit->second, &bytes) && bytes > 0)
    return bytes;
  fail_usage("--max-shard-size: expected a size such as 500MB or 2GB, found \"{}\"", text.substr(0, 64));
}

ModelFormat parse_format(const std::string& name) {
  check_choice("--to", name, {"hf", "gguf", "llmc", "llama2c"});
  if (name == "hf") return ModelFormat::hf;
  if (name == "gguf") return ModelFormat::gguf;
  return name == "llmc" ? ModelFormat::llmc : ModelFormat::llama2c;
}

// Parses the dtype of --quant. llama.cpp's names for files (Q4_K_M) mean mixtures of dtypes; here the name is
// the dtype of all matrices.
DType parse_quant(const std::string& given) {
  const std::string name = lower_case(given);
  if (const std::string type = quant_type_of(given); !type.empty() && type != name)
    fail_usage("--quant {}: mixtures of llama.cpp are not available; use --quant {}", given.substr(0, 64),
               type);
  for (const char* plain : {"f32", "fp32", "f16", "fp16", "bf16"}) {
    if (name == plain) fail_usage("--quant {}: not a quantized data type; use --dtype", given);
  }
  return parse_dtype("--quant", name,
                     {DType::q8_0, DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1, DType::iq4_nl,
                      DType::q4_k, DType::q5_k, DType::q6_k});
}

DType parse_number_type(const std::string& given) {
  if (const std::string quant = quant_type_of(given); !quant.empty())
    fail_usage("--dtype {}: a quantized data type; use --quant {}", given.substr(0, 64), quant);
  return parse_dtype("--dtype", given, {DType::f32, DType::f16, DType::bf16});
}

ConversionOptions conversion_options(const ConvertArguments& a) {
  ConversionOptions options;
  options.to = parse_format(a.to);
  if (!a.dtype.empty() && !a.quant.empty()) fail_usage("--dtype and --quant: expected one of them");
  if (!a.quant.empty() && a.to != "gguf") fail_usage("--quant: only available for GGUF files; add --to gguf");
  if (!a.dtype.empty()) options.dtype = parse_number_type(a.dtype);
  if (!a.quant.empty()) options.dtype = parse_quant(a.quant);
  if (!a.max_shard_size.empty() && a.to != "hf") fail_usage("--max-shard-size: requires --to hf");
  options.shard_bytes = parse_size(a.max_shard_size);
  const std::string extension = a.to == "gguf" ? ".gguf" : ".bin";
  if (a.to != "hf" && !a.out.ends_with(extension))
    fail_usage("--to {} writes a file: expected OUT to end in {}, found {}", a.to, extension, a.out);
  return options;
}

std::string moves_table(const Conversion& conversion, const LoadedModel& loaded) {
  TextTable table{.columns = {"source", "type", "parameter", "shape", "target", "type", "shape", ""}};
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
                 const ConvertOutput& output) {
  const auto tensors = transformed(conversion.moves(), [](const TensorMove& m) {
    return json{{"source", m.source},
                {"source_dtype", dtype_name(m.source_dtype)},
                {"source_shape", m.source_shape},
                {"parameter", m.parameter},
                {"shape", m.shape},
                {"target", m.target},
                {"dtype", dtype_name(m.target_dtype)},
                {"target_shape", m.target_shape},
                {"note", m.note}};
  });
  const auto ignored = transformed(loaded.ignored(), [](const LoadedModel::Ignored& i) {
    return json{{"source", i.tensor->name}, {"why", i.why}};
  });
  const FolderChanges& changes = output.changes();
  return {{"in", a.in},
          {"out", a.out},
          {"format", conversion.target()},
          {"tensors", tensors},
          {"ignored", ignored},
          {"dtype", dtype_name(conversion.dtype())},
          {"bytes", conversion.bytes()},
          {"parameters", conversion.parameters()},
          {"tokenizer", output.tokenizer_names()},
          {"files",
           {{"write", changes.created},
            {"replace", changes.replaced},
            {"remove", changes.removed},
            {"keep", changes.kept}}},
          {"written", !a.dry_run}};
}

// Returns the tensors of a classification head. No target format can store them, because only gpt finetune
// and gpt classify understand their labels.
std::vector<std::string> head_tensors(const LoadedModel& loaded) {
  std::vector<std::string> names;
  for (const LoadedModel::Ignored& i : loaded.ignored()) {
    if (std::string_view(i.why) == LoadedModel::kTaskHead) names.push_back(i.tensor->name);
  }
  return names;
}

std::string head_note(const ConvertArguments& a, const LoadedModel& loaded) {
  const std::vector<std::string> names = head_tensors(loaded);
  if (names.empty()) return "";
  return fmt::format(
      "note: the classification head is not converted: {}; {} contains only the language model; use gpt "
      "classify with {}\n",
      fmt::join(names, ", "), a.out, a.in);
}

std::string summary(const ConvertArguments& a, const Conversion& conversion, const LoadedModel& loaded,
                    const ConvertOutput& output) {
  const auto [parameters, tensors] = std::pair(conversion.parameters(), conversion.target_tensors());
  std::string text =
      fmt::format("{} {}: {}, {} parameters in {} tensors of {}, {}", a.dry_run ? "would write" : "wrote",
                  a.out, conversion.target(), format_thousands(parameters), tensors,
                  dtype_name(conversion.dtype()), format_bytes(conversion.bytes()));
  if (const auto n = std::ssize(loaded.ignored()) - std::ssize(head_tensors(loaded)); n > 0)
    text += fmt::format("; {} skipped", format_amount(n, "buffer or copy", "buffers and copies"));
  if (const size_t n = output.tokenizer_names().size(); n > 0)
    text += fmt::format("; with {} tokenizer {}", n, n == 1 ? "file" : "files");
  if (const size_t n = output.changes().kept.size(); n > 0)
    text += fmt::format("; {} {} unchanged", n, n == 1 ? "file" : "files");
  if (a.dry_run && !a.force && fs::exists(a.out))
    text += fmt::format("; {} already exists and requires --force", a.out);
  if (conversion.target() == "gpt.cpp")
    text += "; transformers has no such architecture, so config.json uses the keys of gpt.cpp";
  return text + "\n";
}

// Returns the format that the name of OUT implies.
std::string format_of_name(const std::string& out) {
  for (const char* file :
       {".safetensors", ".pt", ".pth", ".ckpt", ".onnx", ".npz", ".ggml", ".h5", ".tflite", ".json"}) {
    if (out.ends_with(file))
      fail_usage(
          "{}: transformers loads a folder with model.safetensors and config.json; name a folder, or "
          "OUT.gguf, or use --to for a different format",
          out);
  }
  if (out.ends_with(".bin")) fail_usage("{}: unknown format of the file; use --to llama2c or --to llmc", out);
  if (out.ends_with(".gguf")) return "gguf";
  check_folder_name(out, {".gguf"});
  return "hf";
}

// Returns the given command without --dry-run.
std::vector<std::string> same_command(const ConvertArguments& a) {
  std::vector<std::string> words = {"gpt", "convert", a.in, a.out, "--to", a.to};
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--dtype", a.dtype);
  add("--quant", a.quant);
  add("--max-shard-size", a.max_shard_size);
  for (const std::string& adapter : a.adapters)
    add("--adapter", adapter);
  for (const std::string& model : a.average)
    add("--average", model);
  add("--n-head", a.hints.n_head == 0 ? "" : std::to_string(a.hints.n_head));
  add("--act", a.hints.act);
  if (a.force) words.emplace_back("--force");
  return words;
}

void say_next(const ConvertArguments& a, bool has_tokenizer) {
  if (a.dry_run) {
    write_next(same_command(a));
  } else if ((a.to == "hf" || a.to == "gguf") && has_tokenizer) {
    write_next(use_command(a.out));
  } else {
    write_next({"gpt", "info", a.out});
  }
}

void merge_adapters(const ConvertArguments& a, LoadedModel& loaded) {
  const auto adapter = fitting_adapters(loaded, a.adapters);
  if (adapter == nullptr) return;
  write_note(notes_of_other_bases(loaded, a.adapters));
  const int64_t blocks = loaded.merge(*adapter);
  if (blocks == 0 || !a.quant.empty()) return;
  write_note(fmt::format("note: {} of {} {} an adapter and become fp32; add --quant to quantize them again\n",
                         format_amount(blocks, "matrix", "matrices"), a.in, blocks == 1 ? "has" : "have"));
}

// Averages the weights of checkpoints. They must have the same tokenizer and the same shape.
void average(const ConvertArguments& a, LoadedModel& loaded) {
  if (a.average.empty()) return;
  const auto tokenizer_of = [](const LoadedModel& model) {
    const auto tokenizer = chosen_tokenizer(model, "");
    return tokenizer == nullptr ? "" : tokenizer->to_json();
  };
  std::vector<std::unique_ptr<LoadedModel>> others;
  for (const std::string& path : a.average) {
    others.push_back(std::make_unique<LoadedModel>(path, std::nullopt, MatrixOrder::rows, a.hints));
    if (tokenizer_of(*others.back()) != tokenizer_of(loaded))
      fail("{}: expected the tokenizer of {}, found a different one", path, a.in);
  }
  loaded.average(others);
  write_note(fmt::format("the mean of the weights of {}\n", format_amount(std::ssize(others) + 1, "model")));
}

int run(ConvertArguments a) {
  require_argument(a.in, "IN", "convert");
  require_argument(a.out, "OUT", "convert IN");
  if (is_adapter(a.in)) return convert_adapter(a);
  if (!a.base.empty()) fail_usage("--base: {} is a model, not an adapter", a.in);
  if (a.to.empty()) a.to = format_of_name(a.out);
  ConversionOptions options = conversion_options(a);
  LoadedModel loaded(a.in, std::nullopt, MatrixOrder::rows, a.hints);
  average(a, loaded);
  merge_adapters(a, loaded);
  std::unique_ptr<Tokenizer> packed;
  if (a.to == "gguf") {
    packed = chosen_tokenizer(loaded, "");
    options.tokenizer = packed.get();
    options.name = fs::path(a.out).stem().string();
    options.chat_templates = model_chat_templates(loaded);
    if (const std::string merged = chat_template_of(a.adapters);
        options.chat_templates.empty() && !merged.empty())
      options.chat_templates = read_chat_templates(fs::path(merged).parent_path().string());
    if (!packed) write_note(fmt::format("note: {} has no tokenizer, so {} has none either\n", a.in, a.out));
  }
  const Conversion conversion(loaded, options);
  for (const std::string& note : conversion.notes())
    write_note("note: " + note + "\n");
  if (const std::string note = head_note(a, loaded); !note.empty()) write_note(note);
  const ConvertOutput output(a, loaded, conversion);
  if (!a.dry_run) output.write();
  if (a.json) {
    write_output(
        result_json(a, conversion, loaded, output).dump(2, ' ', false, json::error_handler_t::replace) +
        "\n");
  } else {
    if (a.dry_run) write_output(moves_table(conversion, loaded) + output.describe());
    write_note(summary(a, conversion, loaded, output));
    say_next(a, packed != nullptr || !output.tokenizer_names().empty());
  }
  return 0;
}

void add_format_options(CLI::App& app, ConvertArguments& a) {
  add(app,
      {.flags = "-o,--out,OUT",
       .value = "PATH",
       .help = "Output folder (hf) or file (gguf, llmc, llama2c)",
       .kind = ValueKind::path,
       .aliases = kOutAliases},
      a.out);
  add(app,
      {.flags = "--to",
       .help = "Output format. hf: the layout of transformers",
       .fallback = "gguf for OUT.gguf, otherwise hf",
       .choices = {"hf", "gguf", "llmc", "llama2c", "peft"},
       .is_open = true,
       .aliases = "--format"},
      a.to);
  add(app,
      {.flags = "--dtype",
       .help = "Data type of the output",
       .fallback = "that of IN",
       .choices = {"fp32", "fp16", "bf16"},
       .is_open = true,
       .kind = ValueKind::dtype},
      a.dtype);
  add(app,
      {.flags = "--quant",
       .value = "NAME",
       .help = "Quantize the weights (GGUF only): " + format_choices(quant_names()),
       .choices = quant_names(),
       .is_open = true,
       .aliases = "-q"},
      a.quant);
  add(app,
      {.flags = "--max-shard-size", .value = "SIZE", .help = "Maximum size of an output file, such as 2GB"},
      a.max_shard_size);
  add(app,
      {.flags = "--n-head",
       .value = "N",
       .help = "Number of heads of a checkpoint that contains only tensors, such as minGPT's",
       .min = 1,
       .max = 65536},
      a.hints.n_head);
  add(app,
      {.flags = "--act",
       .help = "Activation of a checkpoint that contains only tensors",
       .choices = {"gelu", "gelu_tanh"},
       .is_open = true},
      a.hints.act);
}

}  // namespace

Command add_convert_command(CLI::App& root) {
  auto a = std::make_shared<ConvertArguments>();
  CLI::App* app = add_command(root, "convert", "write a model in another format", kConvertFooter);
  add_model_option(*app, a->in, "Model folder or file", ValueKind::model, "IN");
  add_format_options(*app, *a);
  add(*app,
      {.flags = "--average",
       .value = "MODEL ...",
       .help = "Average the weights of IN and these checkpoints of the same model",
       .kind = ValueKind::model},
      a->average);
  add_adapter_option(*app, a->adapters);
  add(*app,
      {.flags = "--base",
       .value = "MODEL",
       .help = "Base model of IN, if IN is an adapter that is converted alone (--to peft or gguf)",
       .kind = ValueKind::model},
      a->base);
  add(*app,
      {.flags = "--dry-run", .help = "Show the mapping of tensors and the files to write, but write nothing"},
      a->dry_run);
  add(*app,
      {.flags = "--force",
       .help = "Replace an existing output that gpt convert has written",
       .aliases = kForceAliases,
       .environment = false},
      a->force);
  add_json_option(*app, a->json);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt
