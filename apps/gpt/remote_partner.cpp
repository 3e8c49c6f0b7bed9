#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_text.h"
#include "base/utf8.h"
#include "chat_partner.h"
#include "infer/sampler.h"
#include "output.h"
#include "serve/http/http_client.h"

namespace gpt {
namespace {

using nlohmann::json;

// Rejects flags about loading and computing a model, because the server has already loaded it.
void refuse_local_flags(const ChatArguments& a) {
  const GenerateArguments& g = a.generate;
  for (const auto& [flag, given] : {std::pair("--template", !a.format.empty()),
                                    {"--tokenizer", !g.tokenizer.empty()},
                                    {"--n-ctx", a.n_ctx != 0},
                                    {"--dtype", !g.dtype.empty()},
                                    {"--kv-dtype", !g.kv_dtype.empty()},
                                    {"--in-place", g.in_place},
                                    {"--repack", g.repack != "auto"},
                                    {"--adapter", !g.adapters.empty()},
                                    {"--draft", !g.draft.empty()},
                                    {"--speculate", !g.speculation.source.empty()}}) {
    if (given) fail_usage("{}: only available for local models; {} has its own settings", flag, g.model);
  }
}

std::string read_key(const ChatArguments& a) {
  if (!a.key_file.empty()) {
    const std::string text = read_file(a.key_file);
    return text.substr(0, text.find_first_of("\r\n"));
  }
  const char* key = std::getenv("OPENAI_API_KEY");
  return key == nullptr ? "" : key;
}

// Maximum bytes of a body that are read for its error message.
constexpr size_t kMostErrorBytes = size_t{64} << 10;

// Parses a server's reply. Returns null if it is not JSON or too large.
json parse_reply(const std::string& text) {
  try {
    return parse_json(text, "the reply");
  } catch (const Error&) {
    return {};
  }
}

// Returns the error message in a server's reply, in OpenAI's form or another one.
std::string error_text(const std::string& body) {
  const json parsed = parse_reply(body);
  if (!parsed.is_object() || !parsed.contains("error")) return body.substr(0, 300);
  const json& error = parsed["error"];
  if (error.is_string()) return error;
  return error.is_object() && error.contains("message") && error["message"].is_string()
             ? error["message"].get<std::string>()
             : json_text(error);
}

// Each function sets a field of a request, unless the value disables the field.
void set_field(json& body, const SamplingField& field, const auto& number) {
  if (static_cast<double>(number) != field.off) body[field.name] = number;
}

void set_field(json& body, const SamplingField& field, const TopPRule& rule) {
  if (rule != SamplingParams::neutral().top_p_rule)
    body[field.name] = gptcpp::kTopPRules[static_cast<int>(rule)];
}

// Infinite values cannot be written as JSON, and the limits of the API have the same effect.
void set_field(json& body, const SamplingField& field, const std::map<int32_t, double>& values) {
  for (const auto& [id, value] : values)
    body[field.name][std::to_string(id)] = std::clamp(value, field.request_min, field.request_max);
}

class RemotePartner final : public ChatPartner {
 public:
  explicit RemotePartner(const ChatArguments& a)
      : options_(generate_options(a.generate)),
        system_(a.system),
        client_(a.generate.model, read_key(a)),
        model_(a.server_model) {
    const json first = model_.empty() ? first_model() : json::object();
    if (model_.empty()) model_ = first["id"];
    is_gpt_serve_ = first.value("owned_by", json()) == "gpt.cpp";
    reset();
  }

  std::string greeting() const override { return fmt::format("{} at {}", model_, client_.url()); }
  void cancel() override {
    cancelled_ = true;
    client_.cancel();
  }
  void reset() override {
    messages_ = json::array();
    if (!system_.empty()) messages_.push_back({{"role", "system"}, {"content", system_}});
  }

  Answer say(const std::string& message, const std::function<void(const std::string&)>& show) override {
    cancelled_ = false;
    json messages = messages_;
    messages.push_back({{"role", "user"}, {"content", message}});
    Reply reply;
    ask(messages, reply, show);
    messages.push_back({{"role", "assistant"}, {"content", reply.text}});
    messages_ = std::move(messages);
    ++number_;
    const json record = {{"text", reply.text}, {"finish_reason", reply.finish}, {"usage", reply.usage}};
    const json::json_pointer counted("/completion_tokens");
    const bool is_counted = reply.usage.contains(counted) && reply.usage[counted].is_number_integer();
    return {.tokens = is_counted ? reply.usage[counted].get<int64_t>() : reply.pieces,
            .record = record.dump(-1, ' ', false, json::error_handler_t::replace)};
  }

 private:
  struct Reply {
    std::string text;
    json finish, usage;
    int64_t pieces = 0;
    bool done = false;
  };

  [[noreturn]] void refused(int status, const std::string& body) const {
    fail("{}: {} ({}){}", client_.url(), error_text(body), status,
         status == 401 ? "; set the key with --api-key-file FILE or OPENAI_API_KEY" : "");
  }

  json first_model() {
    const auto answer = client_.get("/models");
    if (answer.status != 200) refused(answer.status, answer.body);
    const json list = parse_reply(answer.body);
    const json::json_pointer first("/data/0"), id("/data/0/id");
    if (!list.is_object() || !list.contains(id) || !list[id].is_string())
      fail(
          "{}/models: expected a list of models, found none; is this the address of an OpenAI-compatible "
          "server?",
          client_.url());
    return list[first];
  }

  void ask(const json& messages, Reply& reply, const std::function<void(const std::string&)>& show) {
    serve::EventReader events([&](const std::string& data) { take(data, reply, show); });
    std::string other;
    try {
      const int status =
          client_.post("/chat/completions", request(messages).dump(), [&](int code, std::string_view piece) {
            if (code == 200) return events.push(piece);
            other += piece.substr(0, kMostErrorBytes - other.size());
          });
      if (status != 200) refused(status, other);
      if (!reply.done && !cancelled_) fail("{}: the response is incomplete", client_.url());
    } catch (const std::runtime_error&) {
      if (!cancelled_) throw;
    }
  }

  json request(const json& messages) const {
    const gptcpp::GenerateOptions& o = options_;
    json body = {{"model", model_},
                 {"messages", messages},
                 {"stream", true},
                 {"stream_options", {{"include_usage", true}}},
                 {"max_tokens", o.max_tokens},
                 {"top_p", o.sampling.top_p},  // always sent, because servers have other defaults
                 {"seed", o.seed + number_}};
    // Fields that some servers do not know are only sent if they were requested, or if the server is gpt
    // serve.
    if (is_gpt_serve_) body["truncation"] = "auto";
    gptcpp::visit_sampling(
        o.sampling, [&](const SamplingField& field, const auto& value) { set_field(body, field, value); });
    if (!o.stops.empty()) body["stop"] = o.stops;
    return body;
  }

  void take(const std::string& data, Reply& reply, const std::function<void(const std::string&)>& show) {
    if (data == "[DONE]") {
      reply.done = true;
      return;
    }
    const json event = parse_reply(data);
    if (!event.is_object())
      fail("{}: expected JSON events, found {}", client_.url(), printable_text(data, 80));
    if (event.contains("error")) fail("{}: {}", client_.url(), error_text(data));
    if (event.contains("usage") && event["usage"].is_object()) reply.usage = event["usage"];
    const json::json_pointer content("/choices/0/delta/content"), finish("/choices/0/finish_reason");
    if (event.contains(content) && event[content].is_string()) {
      ++reply.pieces;
      reply.text += event[content].get<std::string>();
      show(event[content]);
    }
    if (event.contains(finish) && event[finish].is_string()) reply.finish = event[finish];
  }

  gptcpp::GenerateOptions options_;
  std::string system_;
  serve::HttpClient client_;
  std::string model_;
  bool is_gpt_serve_ = false;  // the server can truncate the oldest turns
  json messages_;
  uint64_t number_ = 0;
  volatile std::sig_atomic_t cancelled_ = 0;
};

}  // namespace

bool is_server(const std::string& model) {
  return model.starts_with("http://") || model.starts_with("https://");
}

std::unique_ptr<ChatPartner> make_remote_partner(const ChatArguments& arguments) {
  refuse_local_flags(arguments);
  return std::make_unique<RemotePartner>(arguments);
}

}  // namespace gpt
