#include "finetune/head_files.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/json.h"
#include "base/ranges.h"
#include "tensor/convert.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char *kScore = "score.weight", *kChoice = "multiple_choice_head.summary.weight";

const char* tensor_name(TaskKind kind) {
  return kind == TaskKind::choose ? kChoice : kScore;
}

json label_keys(const HeadFacts& facts) {
  json ids = json::object(), names = json::object();
  for (size_t i = 0; i < facts.labels.names.size(); ++i) {
    names[std::to_string(i)] = facts.labels.names[i];
    ids[facts.labels.names[i]] = i;
  }
  if (facts.labels.numbers) {
    names["0"] = "LABEL_0";
    ids["LABEL_0"] = 0;
  }
  return {{"num_labels", names.size()},
          {"id2label", names},
          {"label2id", ids},
          {"problem_type", facts.labels.numbers ? "regression" : "single_label_classification"}};
}

// Returns the config keys of OpenAIGPTDoubleHeadsModel and GPT2DoubleHeadsModel. The head of these classes is
// a single row of weights and a bias. All choices use the same head.
json summary_keys() {
  return {{"summary_type", "cls_index"},
          {"summary_use_proj", true},
          {"summary_proj_to_labels", true},
          {"summary_activation", nullptr},
          {"summary_first_dropout", 0.1}};
}

TaskTokens tokens_of(const json& object) {
  return {object.at("start"), object.at("delimiter"), object.at("extract")};
}

void require_valid(const HeadFacts& f, const ModelConfig& c) {
  for (const int32_t id : {f.tokens.start, f.tokens.delimiter, f.tokens.extract}) {
    if (id < 0 || id >= c.vocab_size)
      fail("token {} is not in the model's vocabulary of {} tokens", id, c.vocab_size);
  }
  if (f.max_length < 8 || f.max_length > c.n_ctx)
    fail("expected a max_length from 8 to {}, the model's context length, found {}", c.n_ctx, f.max_length);
  const bool choose = f.kind == TaskKind::choose;
  const size_t names = f.labels.names.size();
  if (choose ? f.choices < 2 || f.choices > 256 : !f.labels.numbers && names < 2)
    fail("expected at least two {}", choose ? "choices" : "labels");
}

HeadFacts facts_of(const json& object) {
  const std::optional<TaskKind> kind = find_task(object.at("task").get<std::string>());
  if (!kind) fail("expected the task to be one of {}", fmt::join(kTaskNames, ", "));
  return {.kind = *kind,
          .labels = {.numbers = object.value("numbers", false),
                     .names = object.value("labels", std::vector<std::string>())},
          .choices = object.value("choices", int64_t{0}),
          .tokens = tokens_of(object.at("tokens")),
          .max_length = object.at("max_length")};
}

HeadFacts read_facts(const std::string& path, const ModelConfig& config) {
  try {
    const HeadFacts facts = facts_of(read_json_file(path));
    require_valid(facts, config);
    return facts;
  } catch (const json::exception& error) {
    fail("{}: not a task file of gpt finetune: {}", path, error.what());
  } catch (const Error& error) {
    fail_because(error, "{}: {}", path, error.what());
  }
}

}  // namespace

HeadFiles head_files(const HeadFacts& facts, const ModelConfig& config, const TensorView& head) {
  const Family& family = export_family(config);
  const bool choose = facts.kind == TaskKind::choose;
  HeadFiles files{.tensors = {named_tensor(tensor_name(facts.kind), head)}, .config = {}};
  json keys = choose ? summary_keys() : label_keys(facts);
  keys["pad_token_id"] = facts.tokens.start;  // any token that is never the last token of a row
  if (const char* name = choose ? family.double_heads : family.sequence_classification)
    keys["architectures"] = {name};
  if (choose && family.double_heads != nullptr) {
    files.tensors.push_back({"multiple_choice_head.summary.bias", DType::f32, {1}, [](const EmitBytes& emit) {
                               const float zero = 0;
                               emit(std::as_bytes(std::span(&zero, 1)));
                             }});
  }
  files.config = keys.dump();
  return files;
}

std::string task_json(const HeadFacts& facts) {
  json object = {{"task", task_name(facts.kind)},
                 {"tokens",
                  {{"start", facts.tokens.start},
                   {"delimiter", facts.tokens.delimiter},
                   {"extract", facts.tokens.extract}}},
                 {"max_length", facts.max_length}};
  if (facts.kind == TaskKind::choose) {
    object["choices"] = facts.choices;
  } else if (facts.labels.numbers) {
    object["numbers"] = true;
  } else {
    object["labels"] = facts.labels.names;
  }
  return object.dump(1) + "\n";
}

bool has_head(const std::string& folder) {
  std::error_code ignored;
  return std::filesystem::exists(std::filesystem::path(folder) / kTaskFile, ignored);
}

TaskHead read_head(const LoadedModel& loaded) {
  const std::string model = loaded.paths().front();
  if (!has_head(loaded.folder())) {
    fail(
        "{} has no task head: the model folder has no {}; create a task head with gpt finetune MODEL --task "
        "classify|entail|similar|choose --data FILE --out DIR",
        model, kTaskFile);
  }
  const ModelConfig& config = loaded.model().config;
  TaskHead head{.facts = read_facts(loaded.folder() + "/" + kTaskFile, config), .weight = {}};
  const char* const name = tensor_name(head.facts.kind);
  const auto is_head = [&](const LoadedModel::Ignored& x) { return x.tensor->name == name; };
  const auto found = std::ranges::find_if(loaded.ignored(), is_head);
  if (found == loaded.ignored().end())
    fail("{}: tensor \"{}\" is missing, but {} requires it", model, name, kTaskFile);
  const TensorInfo& tensor = *found->tensor;
  const Shape shape = {head.facts.shape().outputs, config.n_embd};
  if (tensor.shape != shape || !is_float(tensor.dtype)) {
    fail(
        "{}: tensor \"{}\": expected floating-point values of shape {} (from {}), found shape {} of dtype {}",
        model, name, shape_string(shape), kTaskFile, shape_string(tensor.shape), dtype_name(tensor.dtype));
  }
  head.weight.resize(static_cast<size_t>(shape[0] * shape[1]));
  convert_matrix({.bytes = tensor.bytes, .dtype = tensor.dtype, .rows = shape[0], .cols = shape[1]},
                 make_view(head.weight.data(), {shape[0], shape[1]}));
  return head;
}

}  // namespace gpt
