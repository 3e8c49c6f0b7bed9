#include <fmt/ranges.h>

#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/clock.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "serve/api_error.h"
#include "serve/openai/endpoints.h"
#include "serve/openai/responses.h"
#include "serve/openai/submit_answer.h"

namespace gpt::serve {

namespace {

void require_folder(const ModelFolder& folder) {
  if (folder.path.empty())
    throw ApiError(403,
                   "this server does not load models at run time; start it with gpt serve --models-dir DIR");
}

}  // namespace

std::string path_in(const ModelFolder& folder, const std::string& name, const char* field) {
  require_folder(folder);
  const bool plain = !name.empty() && name.front() != '.' && name.find('/') == std::string::npos &&
                     name.find('\0') == std::string::npos;
  if (!plain) fail_field(field, "expected the name of a folder or file in the server's `models_dir`");
  for (const char* ending : {"", ".gguf"}) {
    const std::filesystem::path path = std::filesystem::path(folder.path) / (name + ending);
    std::error_code unreadable;
    if (std::filesystem::exists(path, unreadable)) return path.string();
  }
  throw ApiError(404, fmt::format("{}: the server's `models_dir` has no {}", field, printable_text(name, 64)),
                 field, "model_not_found");
}

namespace {

constexpr double kPatience = 30;  // seconds to wait for requests that use an unloaded model or adapter

std::string need_text(const Fields& fields, const char* name) {
  const auto text = fields.text(name);
  if (!text) fail_field(name, "expected a name, found none");
  return *text;
}

// Waits until nobody else holds the object. Returns false if it is still held after kPatience seconds.
template <class T>
bool is_left_alone(const std::shared_ptr<T>& held) {
  const auto begin = Clock::now();
  while (held.use_count() > 1 && seconds_since(begin) < kPatience)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return held.use_count() == 1;
}

void send_success(Call& call, const std::string& name) {
  call.send({.body = json_of(LoadResponse{.model = name})});
}

}  // namespace

// The body is {"model": NAME}.
void load_model(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const std::string name = need_text(Fields(body), "model");
  const std::string path = path_in(service.folder, name, "model");
  const std::vector<ModelSet::Handle> loaded = service.models.all();
  for (const ModelSet::Handle& model : loaded) {
    if (model->name() == name) fail_field("model", "{} is already loaded", name);
    if (model->adapter(name) != nullptr)
      fail_field("model", "{} is an adapter of {}; unload it first", name, model->name());
  }
  if (std::ssize(loaded) >= service.folder.most)
    throw ApiError(409,
                   fmt::format("{} models are loaded, the maximum of this server; unload one", loaded.size()),
                   "model", "too_many_models");
  service.models.add(std::make_shared<ServedModel>(service.folder.options(name, path)));
  send_success(*call, name);
}

// The body is {"model": NAME}. Requests in flight have half a minute to finish and then fail with an error.
void unload_model(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const std::string name = need_text(Fields(body), "model");
  require_folder(service.folder);
  ModelSet::Handle model = service.models.remove(name);
  if (!is_left_alone(model)) {
    model->worker().stop();
    is_left_alone(model);
  }
  model.reset();  // frees the memory before the response is sent
  send_success(*call, name);
}

// The body is {"lora_name", "lora_path", "model"}.
void load_adapter(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const Fields fields(body);
  const std::string name = need_text(fields, "lora_name");
  if (name.empty() || name.size() > 128 || name.find(':') != std::string::npos)
    fail_field("lora_name", "expected 1 to 128 characters without \":\"");
  const std::lock_guard lock(service.models.adapter_changes());
  for (const ModelSet::Handle& model : service.models.all()) {
    if (model->name() == name)
      fail_field("lora_name", "{} is the name of a model; choose another name", name);
  }
  const ModelSet::Found found = model_of(service, *call, fields);
  const auto scale = fields.number("scale", -1e6, 1e6).value_or(1);
  found.model->add_adapter(
      {name, path_in(service.folder, need_text(fields, "lora_path"), "lora_path"), scale});
  send_success(*call, found.model->name() + ":" + name);
}

namespace {

// Returns the model that the request names. Without a name, returns the only model that has this adapter.
ModelSet::Found model_with_adapter(const Service& service, Call& call, const Fields& fields,
                                   const std::string& name) {
  std::vector<ModelSet::Handle> having = service.models.all();
  std::erase_if(having, [&](const ModelSet::Handle& model) { return model->adapter(name) == nullptr; });
  if (fields.text("model") || having.empty()) return model_of(service, call, fields);
  if (having.size() > 1)
    fail_field("model", "expected {} (each has an adapter {}), found none",
               fmt::join(transformed(having, [](const auto& model) { return model->name(); }), " or "), name);
  call.set_model(having.front()->name());
  return {.model = having.front(), .name = having.front()->name()};
}

}  // namespace

// The body is {"lora_name", "model"}.
void unload_adapter(const Service& service, const std::shared_ptr<Call>& call) {
  const nlohmann::json body = parse_body(call->request().body);
  const Fields fields(body);
  const std::string name = need_text(fields, "lora_name");
  require_folder(service.folder);
  std::unique_lock lock(service.models.adapter_changes());
  ModelSet::Found found = model_with_adapter(service, *call, fields, name);
  found.named.reset();
  const auto adapter = found.model->take_adapter(name);
  lock.unlock();
  if (adapter == nullptr)
    throw ApiError(
        404, fmt::format("the model {} has no adapter {}", found.model->name(), printable_text(name, 64)),
        "lora_name", "model_not_found");
  // An adapter that is still in use keeps its memory until the model is unloaded.
  if (is_left_alone(adapter)) found.model->free_adapter(adapter->number);
  send_success(*call, found.model->name() + ":" + name);
}

}  // namespace gpt::serve
