#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "serve/api_error.h"
#include "serve/http/http_client.h"
#include "serve/openai/answer_grammar.h"
#include "serve/openai/tool_calls.h"

// Entry points like those in targets.h, for gpt serve.
namespace gpt {

// Parses a request body. The grammar of its response must compile, or be rejected with a JSON error message.
inline int fuzz_request(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  grammar::Limits limits;  // small, so that a run takes milliseconds
  limits.max_states = 20000;
  limits.max_steps = 300000;
  try {
    const nlohmann::json body = serve::parse_body(text);
    const auto answer = serve::read_answer_grammar(serve::Fields(body), text);
    if (answer) grammar::compile(answer->source, limits);
    return 1;
  } catch (const serve::ApiError& error) {
    GPT_ASSERT(nlohmann::json::parse(error.body())["error"]["message"].is_string());
  } catch (const Error&) {
  }
  return 0;
}

// Parses a response with tool calls. The first byte selects the format of the calls and where they may start.
// The text and the calls must not depend on how the response is split.
inline int fuzz_tool_calls(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const std::string_view answer(reinterpret_cast<const char*>(data + 1), size - 1);
  const serve::ToolCallOptions options{
      .format = data[0] % 2 == 0 ? serve::ToolFormat::hermes : serve::ToolFormat::llama3,
      .one_call = (data[0] & 2) != 0,
      .from_start = (data[0] & 4) != 0};
  const auto read = [&](size_t piece) {
    serve::ToolCallParser parser(options);
    std::string text;
    std::vector<std::string> calls;
    const auto add = [&](const serve::ToolCallParser::Found& found) {
      text += found.text;
      for (const serve::ToolCall& call : found.calls)
        calls.push_back(call.name + "\n" + call.arguments);
    };
    for (size_t at = 0; at < answer.size(); at += piece)
      add(parser.push(answer.substr(at, piece)));
    add(parser.finish());
    return std::pair(text, calls);
  };
  const auto whole = read(answer.size() + 1);
  GPT_ASSERT(read(1) == whole && read(3) == whole);
  return whole.second.empty() ? 0 : 1;
}

// Parses an event stream. The events must not depend on how the stream is split.
inline int fuzz_events(const uint8_t* data, size_t size) {
  const std::string_view stream(reinterpret_cast<const char*>(data), size);
  const auto read = [&](size_t piece) {
    std::vector<std::string> events;
    serve::EventReader reader([&](const std::string& event) { events.push_back(event); });
    for (size_t at = 0; at < stream.size(); at += piece)
      reader.push(stream.substr(at, piece));
    return events;
  };
  const auto whole = read(size + 1);
  GPT_ASSERT(read(1) == whole);
  return whole.empty() ? 0 : 1;
}

}  // namespace gpt
