#include <nlohmann/json.hpp>

#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/api_error.h"
#include "serve/chat_prompt.h"
#include "serve/submit_answer.h"
#include "serve/token_ids.h"

namespace gpt::serve {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

void send_json(Call& call, const ordered_json& body) {
  call.send({.body = body.dump(-1, ' ', false, json::error_handler_t::replace)});
}

ordered_json description(const ServedModel& model, const std::string& name, const std::string& parent) {
  ordered_json out = {{"id", name},
                      {"object", "model"},
                      {"created", model.created()},
                      {"owned_by", "gpt.cpp"},
                      {"max_model_len", model.n_ctx()},
                      {"vocab_size", model.config().vocab_size},
                      {"chat_template", nullptr}};
  if (!parent.empty()) out["parent"] = parent;
  if (model.has_chat_template())
    out["chat_template"] = model.chat_template().built_in() ? model.chat_template().name() : "jinja";
  return out;
}

std::vector<ordered_json> descriptions(const ModelSet& models) {
  std::vector<ordered_json> all;
  for (const auto& model : models.all()) {
    all.push_back(description(*model, model->name(), ""));
    for (const auto& adapter : model->adapters())
      all.push_back(description(*model, model->name() + ":" + adapter->name, model->name()));
  }
  return all;
}

}  // namespace

void list_models(const Service& service, const std::shared_ptr<Call>& call) {
  send_json(*call, {{"object", "list"}, {"data", descriptions(service.models)}});
}

void show_model(const Service& service, const std::shared_ptr<Call>& call) {
  constexpr std::string_view kPath = "/v1/models/";
  const std::string name = percent_decoded(call->request().path().substr(kPath.size()));
  const ModelSet::Found found = service.models.find(name);
  send_json(*call, description(*found.model, found.name, found.adapter < 0 ? "" : found.model->name()));
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
  send_json(*call, {{"tokens", ids}, {"count", ids.size()}, {"max_model_len", model.n_ctx()}});
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
  send_json(*call, {{"content", text}, {"prompt", text}});
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
  send_json(*call, {{"prompt", replace_invalid_utf8(text)}, {"tokens", prompt.ids}});
}

}  // namespace gpt::serve
