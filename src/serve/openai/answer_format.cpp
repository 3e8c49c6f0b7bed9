#include "serve/openai/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/ranges.h"
#include "base/utf8.h"
#include "serve/json_text.h"

namespace gpt::serve {
namespace {

constexpr std::string_view kTokenId = "token_id:";

std::string name_by_id(int32_t id) {
  return fmt::format("{}{}", kTokenId, id);
}

UsageResponse usage_response(const Usage& u) {
  return {.prompt_tokens = u.prompt,
          .completion_tokens = u.completion,
          .total_tokens = u.prompt + u.completion,
          .prompt_tokens_details = {.cached_tokens = u.cached}};
}

// Returns the calls as they are sent. If `first` is set, the calls are numbered from there.
std::vector<ToolCallResponse> call_responses(const std::vector<ToolCall>& calls,
                                             std::optional<int64_t> first) {
  std::vector<ToolCallResponse> out;
  for (const ToolCall& call : calls) {
    out.push_back({.index = first, .id = new_id("call_"), .function = {call.name, call.arguments}});
    if (first) ++*first;
  }
  return out;
}

void append_finish(std::string& out, const char* finish) {
  out += ",\"finish_reason\":";
  out += finish == nullptr ? "null" : fmt::format("\"{}\"", finish);
}

}  // namespace

std::string new_id(const std::string& prefix) {
  thread_local std::mt19937_64 random{(uint64_t{std::random_device()()} << 32) ^ std::random_device()()};
  return fmt::format("{}{:016x}{:08x}", prefix, random(), random() & 0xffffffff);
}

AnswerFormat::AnswerFormat(const Options& options) : options_(options) {
  prefix_ = fmt::format("\"id\":\"{}\",\"object\":\"{}\",\"created\":{},\"model\":", options.id,
                        options.chat ? "chat.completion" : "text_completion", options.created);
  append_json(prefix_, options.model);
  prefix_ += fmt::format(",\"system_fingerprint\":\"{}\"", kFingerprint);
}

// -------------------------------------------------------------------------------------------------------
// Streams.

void AnswerFormat::open(std::string& out) const {
  constexpr std::string_view kWhole = "\"object\":\"chat.completion\"";
  out += "data: {";
  const size_t object = options_.chat ? prefix_.find(kWhole) : std::string::npos;
  if (object == std::string::npos) {
    out += prefix_;
  } else {
    out += std::string_view(prefix_).substr(0, object + kWhole.size() - 1);
    out += ".chunk";
    out += std::string_view(prefix_).substr(object + kWhole.size() - 1);
  }
  out += ",\"choices\":[";
}

void AnswerFormat::close(std::string& out, const char* finish) const {
  append_finish(out, finish);
  out += options_.include_usage ? "}],\"usage\":null}\n\n" : "}]}\n\n";
}

void AnswerFormat::role_chunk(std::string& out, size_t index) const {
  open(out);
  out += fmt::format("{{\"index\":{},\"delta\":{{\"role\":\"assistant\",\"content\":\"\"}},\"logprobs\":null",
                     index);
  close(out, nullptr);
}

// In a chat, the finish reason is sent in a separate chunk with an empty delta.
void AnswerFormat::chunk(std::string& out, Progress& progress, const AnswerPiece& piece,
                         const char* finish) const {
  if (!piece.empty() || (!options_.chat && finish != nullptr)) {
    open(out);
    out += fmt::format("{{\"index\":{},", progress.index);
    if (options_.chat) {
      out += "\"delta\":{";
      if (!piece.text.empty() || piece.calls.empty()) {
        out += "\"content\":";
        append_json(out, piece.text);
      }
      if (!piece.calls.empty()) {
        out += piece.text.empty() ? "\"tool_calls\":" : ",\"tool_calls\":";
        out += json_of(call_responses(piece.calls, progress.calls));
        progress.calls += std::ssize(piece.calls);
      }
      out += "}";
    } else {
      out += "\"text\":";
      append_json(out, piece.text);
    }
    out += ",\"logprobs\":" + logprobs(piece.tokens);
    close(out, options_.chat ? nullptr : finish);
  }
  if (!options_.chat || finish == nullptr) return;
  open(out);
  out += fmt::format("{{\"index\":{},\"delta\":{{}},\"logprobs\":null", progress.index);
  close(out, finish);
}

void AnswerFormat::usage_chunk(std::string& out, const Usage& usage) const {
  open(out);
  out += "],\"usage\":";
  out += json_of(usage_response(usage)) + "}\n\n";
}

// -------------------------------------------------------------------------------------------------------
// Whole responses.

template <class Choice>
std::string AnswerFormat::whole_response(const std::vector<WholeChoice>& choices, const Usage& usage) const {
  GenerationResponse<Choice> response{.id = options_.id,
                                      .created = options_.created,
                                      .model = options_.model,
                                      .system_fingerprint = kFingerprint,
                                      .usage = usage_response(usage)};
  for (const auto& [all, finish] : choices) {
    Choice& choice = response.choices.emplace_back();
    choice.index = std::ssize(response.choices) - 1;
    choice.finish_reason = finish;
    if constexpr (std::is_same_v<Choice, ChatChoice>) {
      if (!all.text.empty() || all.calls.empty()) choice.message.content = all.text;
      choice.message.tool_calls = call_responses(all.calls, std::nullopt);
      choice.logprobs = chat_logprobs(all.tokens);
    } else {
      choice.text = all.text;
      choice.logprobs = text_logprobs(all.tokens);
    }
  }
  return json_of(response);
}

std::string AnswerFormat::whole(const std::vector<WholeChoice>& choices, const Usage& usage) const {
  return options_.chat ? whole_response<ChatChoice>(choices, usage)
                       : whole_response<CompletionChoice>(choices, usage);
}

// -------------------------------------------------------------------------------------------------------
// Log-probabilities.

std::string AnswerFormat::logprobs(const std::vector<TokenEntry>& tokens) const {
  return options_.chat ? json_of(chat_logprobs(tokens)) : json_of(text_logprobs(tokens));
}

TokenLogprobResponse AnswerFormat::token(const TokenLogprob& token) const {
  const std::string bytes =
      options_.tokenizer == nullptr ? std::to_string(token.id) : bytes_of(*options_.tokenizer, token.id);
  return {.token = replace_invalid_utf8(bytes),
          .logprob = token.logprob,
          .bytes = transformed(bytes, [](char c) -> unsigned { return static_cast<unsigned char>(c); })};
}

std::optional<ChatLogprobs> AnswerFormat::chat_logprobs(const std::vector<TokenEntry>& tokens) const {
  if (!options_.logprobs || tokens.empty()) return std::nullopt;
  ChatLogprobs out;
  for (const TokenEntry& entry : tokens) {
    out.content.push_back({token(entry.logprobs.chosen)});
    for (const TokenLogprob& top : entry.logprobs.top)
      out.content.back().top_logprobs.push_back(token(top));
  }
  return out;
}

// Returns the name of a token. A token that does not consist of whole characters is named by its bytes, as in
// OpenAI's API: "bytes:\xe2\x82". A token whose text starts with "token_id:" is named by its id, so that its
// text cannot be mistaken for the id of another token.
std::string AnswerFormat::token_text(int32_t id) const {
  if (options_.tokenizer == nullptr) return std::to_string(id);
  const std::string bytes = bytes_of(*options_.tokenizer, id);
  if (bytes.starts_with(kTokenId)) return name_by_id(id);
  if (!first_invalid_utf8(bytes)) return bytes;
  std::string name = "bytes:";
  for (const char c : bytes)
    name += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  return name;
}

// Returns the most likely tokens of a position. As in OpenAI's API, the sampled token is always included. All
// keys are distinct: a token whose text equals the key of another token is named by its id, as in vLLM. The
// sampled token has the same name as in the list of tokens.
NamedNumbers AnswerFormat::text_top(const Logprobs& logprobs) const {
  const TokenLogprob& chosen = logprobs.chosen;
  std::set<std::string> names = {token_text(chosen.id)};
  NamedNumbers out;
  bool has_chosen = false;
  const auto add = [&](const TokenLogprob& token) {
    std::string name = token_text(token.id);
    if (token.id != chosen.id && !names.insert(name).second) name = name_by_id(token.id);
    out.emplace_back(name, token.logprob);
    has_chosen = has_chosen || token.id == chosen.id;
  };
  for (const TokenLogprob& token : logprobs.top)
    add(token);
  if (!has_chosen) add(chosen);
  return out;
}

std::optional<CompletionLogprobs> AnswerFormat::text_logprobs(const std::vector<TokenEntry>& tokens) const {
  if (!options_.logprobs) return std::nullopt;
  CompletionLogprobs out;
  for (const TokenEntry& entry : tokens) {
    out.tokens.push_back(token_text(entry.id));
    out.text_offset.push_back(entry.offset);
    const double logprob = entry.logprobs.chosen.logprob;
    const bool known = !std::isnan(logprob);
    out.token_logprobs.push_back(known ? std::optional(logprob) : std::nullopt);
    out.top_logprobs.push_back(known ? std::optional(text_top(entry.logprobs)) : std::nullopt);
  }
  return out;
}

}  // namespace gpt::serve
