#include "serve/answer_format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>

#include "base/utf8.h"
#include "serve/json_text.h"

namespace gpt::serve {
namespace {

constexpr std::string_view kTokenId = "token_id:";

std::string name_by_id(int32_t id) {
  return fmt::format("{}{}", kTokenId, id);
}

void append_finish(std::string& out, const char* finish) {
  out += ",\"finish_reason\":";
  out += finish == nullptr ? "null" : fmt::format("\"{}\"", finish);
}

}  // namespace

void append_usage(std::string& out, const Usage& u) {
  out += fmt::format(
      "{{\"prompt_tokens\":{},\"completion_tokens\":{},\"total_tokens\":{},"
      "\"prompt_tokens_details\":{{\"cached_tokens\":{}}}}}",
      u.prompt, u.completion, u.prompt + u.completion, u.cached);
}

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
        calls(out, piece.calls, progress.calls, true);
        progress.calls += std::ssize(piece.calls);
      }
      out += "}";
    } else {
      out += "\"text\":";
      append_json(out, piece.text);
    }
    logprobs(out, piece.tokens);
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
  append_usage(out, usage);
  out += "}\n\n";
}

// -------------------------------------------------------------------------------------------------------
// Whole responses.

std::string AnswerFormat::choice(size_t index, const AnswerPiece& all, const char* finish) const {
  std::string out = fmt::format("{{\"index\":{},", index);
  if (options_.chat) {
    out += "\"message\":{\"role\":\"assistant\",\"content\":";
    if (all.text.empty() && !all.calls.empty()) {
      out += "null";
    } else {
      append_json(out, all.text);
    }
    out += ",\"refusal\":null";
    if (!all.calls.empty()) {
      out += ",\"tool_calls\":";
      calls(out, all.calls, 0, false);
    }
    out += "}";
  } else {
    out += "\"text\":";
    append_json(out, all.text);
  }
  logprobs(out, all.tokens);
  append_finish(out, finish);
  return out + "}";
}

std::string AnswerFormat::whole(const std::vector<std::string>& choices, const Usage& usage) const {
  std::string out = "{" + prefix_ + ",\"choices\":[";
  for (size_t i = 0; i < choices.size(); ++i)
    out += (i == 0 ? "" : ",") + choices[i];
  out += "],\"usage\":";
  append_usage(out, usage);
  return out + "}";
}

void AnswerFormat::calls(std::string& out, const std::vector<ToolCall>& calls, int64_t first, bool indexed) {
  out += '[';
  for (size_t i = 0; i < calls.size(); ++i) {
    out += i == 0 ? "{" : ",{";
    if (indexed) out += fmt::format("\"index\":{},", first + static_cast<int64_t>(i));
    out += fmt::format("\"id\":\"{}\",\"type\":\"function\",\"function\":{{\"name\":", new_id("call_"));
    append_json(out, calls[i].name);
    out += ",\"arguments\":";
    append_json(out, calls[i].arguments);
    out += "}}";
  }
  out += ']';
}

// -------------------------------------------------------------------------------------------------------
// Log-probabilities.

void AnswerFormat::logprobs(std::string& out, const std::vector<TokenEntry>& tokens) const {
  out += ",\"logprobs\":";
  if (!options_.logprobs || (options_.chat && tokens.empty())) {
    out += "null";
  } else if (options_.chat) {
    chat_logprobs(out, tokens);
  } else {
    text_logprobs(out, tokens);
  }
}

// Writes {"token","logprob","bytes"} without the closing brace.
void AnswerFormat::token(std::string& out, const TokenLogprob& token) const {
  const std::string bytes =
      options_.tokenizer == nullptr ? std::to_string(token.id) : bytes_of(*options_.tokenizer, token.id);
  out += "{\"token\":";
  append_json(out, replace_invalid_utf8(bytes));
  out += ",\"logprob\":";
  append_json(out, token.logprob);
  out += ",\"bytes\":[";
  for (size_t i = 0; i < bytes.size(); ++i)
    out += fmt::format("{}{}", i == 0 ? "" : ",", static_cast<unsigned char>(bytes[i]));
  out += ']';
}

void AnswerFormat::chat_logprobs(std::string& out, const std::vector<TokenEntry>& tokens) const {
  out += "{\"content\":[";
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (i > 0) out += ',';
    token(out, tokens[i].logprobs.chosen);
    out += ",\"top_logprobs\":[";
    for (size_t j = 0; j < tokens[i].logprobs.top.size(); ++j) {
      if (j > 0) out += ',';
      token(out, tokens[i].logprobs.top[j]);
      out += '}';
    }
    out += "]}";
  }
  out += "],\"refusal\":null}";
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

// Writes the most likely tokens of a position. As in OpenAI's API, the sampled token is always included. All
// keys are distinct: a token whose text equals the key of another token is named by its id, as in vLLM. The
// sampled token has the same name as in the list of tokens.
void AnswerFormat::text_top(std::string& out, const Logprobs& logprobs) const {
  const TokenLogprob& chosen = logprobs.chosen;
  std::set<std::string> names = {token_text(chosen.id)};
  bool has_chosen = false;
  const auto add = [&](const TokenLogprob& token) {
    std::string name = token_text(token.id);
    if (token.id != chosen.id && !names.insert(name).second) name = name_by_id(token.id);
    if (out.back() != '{') out += ',';
    append_json(out, name);
    out += ':';
    append_json(out, token.logprob);
    has_chosen = has_chosen || token.id == chosen.id;
  };
  out += '{';
  for (const TokenLogprob& token : logprobs.top)
    add(token);
  if (!has_chosen) add(chosen);
  out += '}';
}

void AnswerFormat::text_logprobs(std::string& out, const std::vector<TokenEntry>& tokens) const {
  std::string names, values, tops, offsets;
  for (const TokenEntry& entry : tokens) {
    const char* comma = names.empty() ? "" : ",";
    const std::string text = token_text(entry.id);
    names += comma;
    append_json(names, text);
    values += comma;
    append_json(values, entry.logprobs.chosen.logprob);
    offsets += fmt::format("{}{}", comma, entry.offset);
    tops += comma;
    if (std::isnan(entry.logprobs.chosen.logprob)) {
      tops += "null";
    } else {
      text_top(tops, entry.logprobs);
    }
  }
  out += fmt::format("{{\"tokens\":[{}],\"token_logprobs\":[{}],\"top_logprobs\":[{}],\"text_offset\":[{}]}}",
                     names, values, tops, offsets);
}

}  // namespace gpt::serve
