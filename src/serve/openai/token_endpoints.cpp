#include <nlohmann/json.hpp>

#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/openai/chat_prompt.h"
#include "serve/openai/responses.h"
#include "serve/openai/submit_answer.h"
#include "serve/openai/token_ids.h"

namespace gpt::serve {
namespace {

using nlohmann::json;

ModelResponse description(const ServedModel& model, const std::string& name, const std::string& parent) {
  ModelResponse out{.id = name,
                    .created = model.created(),
                    .max_model_len = model.n_ctx(),
                    .vocab_size = model.config().vocab_size,
                    .parent = parent};
  if (model.has_chat_template())
    out.chat_template = model.chat_template().built_in() ? model.chat_template().name() : "jinja";
  return out;
}

std::vector<ModelResponse> descriptions(const ModelSet& models) {
  std::vector<ModelResponse> all;
  for (const auto& model : models.all()) {
    all.push_back(description(*model, model->name(), ""));
    for (const auto& adapter : model->adapters())
      all.push_back(description(*model, model->name() + ":" + adapter->name, model->name()));
  }
  return all;
}

}  // namespace

void list_models(const Service& service, const std::shared_ptr<Call>& call) {
  call->send({.body = json_of(ModelsResponse{.data = descriptions(service.models)})});
}

void show_model(const Service& service, const std::shared_ptr<Call>& call) {
  constexpr std::string_view kPath = "/v1/models/";
  const std::string name = percent_decoded(call->request().path().substr(kPath.size()));
  const ModelSet::Found found = service.models.find(name);
  const std::string parent = found.adapter < 0 ? "" : found.model->name();
  call->send({.body = json_of(description(*found.model, found.name, parent))});
}

// Reads {"content" or "prompt": text, "add_special": true to add BOS, "parse_special"} and responds with
// {"tokens", "count", ...}.
void tokenize(const Service& service, const std::shared_ptr<Call>& call) {
  const json body = parse_body(call->request().body);
  const Fields fields(body);
  const ModelSet::Found found = model_of(service, *call, fields);
  const ServedModel& model = *found.model;
  const auto add_special = fields.boolean("add_special");
  const auto add_special_tokens = fields.boolean("add_special_tokens");
  std::vector<int32_t> ids;
  if (fields.find("messages") != nullptr) {
    refuse_parse_special(fields);
    ids = read_chat_prompt(fields, call->request().body, model).ids;
  } else {
    auto text = fields.text("content");
    if (!text) text = fields.text("prompt");
    if (!text) fail_field("content", "expected a string, found none");
    TextReading reading = read_text_reading(fields);
    reading.bos = add_special.value_or(add_special_tokens.value_or(fields.find("prompt") != nullptr));
    if (!text->empty()) ids = text_ids(*text, model, reading, *call);
  }
  const TokenizeResponse response{.tokens = ids, .count = std::ssize(ids), .max_model_len = model.n_ctx()};
  call->send({.body = json_of(response)});
}

void detokenize(const Service& service, const std::shared_ptr<Call>& call) {
  const json body = parse_body(call->request().body);
  const Fields fields(body);
  const ModelSet::Found found = model_of(service, *call, fields);
  const ServedModel& model = *found.model;
  const json* tokens = fields.find("tokens");
  if (tokens == nullptr || !tokens->is_array()) fail_field("tokens", "expected a list of token ids");
  const bool skips = fields.boolean("skip_special_tokens").value_or(false);
  std::string text;
  for (const int32_t id : read_ids(*tokens, "tokens", model.config().vocab_size)) {
    if (!skips || model.tokenizer().is_text(id)) text += bytes_of(model.tokenizer(), id);
  }
  text = replace_invalid_utf8(text);
  call->send({.body = json_of(DetokenizeResponse{.content = text, .prompt = text})});
}

void apply_template(const Service& service, const std::shared_ptr<Call>& call) {
  const json body = parse_body(call->request().body);
  const Fields fields(body);
  const ModelSet::Found found = model_of(service, *call, fields);
  const ServedModel& model = *found.model;
  const ChatPrompt prompt = read_chat_prompt(fields, call->request().body, model);
  std::string text;
  for (const int32_t id : prompt.ids)
    text += bytes_of(model.tokenizer(), id);
  call->send({.body = json_of(TemplateResponse{.prompt = replace_invalid_utf8(text), .tokens = prompt.ids})});
}

}  // namespace gpt::serve
