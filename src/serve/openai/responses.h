#pragma once

// The responses of the API. Each struct lists its fields with their names and descriptions in `fields`. The
// JSON of a response and its description in the API reference are both derived from this list.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "serve/openai/api_types.h"

namespace gpt::serve {

struct ResponseField {
  const char* name;
  const char* help = "";
  const char* choices = "";  // the possible strings, separated by "|"
  bool optional = false;     // true: left out if the value is empty
};

// Numbers by name, in this order.
using NamedNumbers = std::vector<std::pair<std::string, double>>;
// A JSON object as text.
struct JsonText {
  std::string text;
};

struct ErrorResponse {
  static constexpr const char *kName = "Error",
                              *kHelp = "Body of every response with a status of 400 or more.";
  struct Error {
    static constexpr const char *kName = "ErrorInfo", *kHelp = "Description of an error.";
    std::string message, type;
    std::optional<std::string> param, code;
    static void fields(auto& e, auto&& visit) {
      visit(ResponseField{"message", "What is wrong, and the expected value"}, e.message);
      visit(ResponseField{"type", "Kind of error",
                          "invalid_request_error|authentication_error|permission_error|rate_limit_error|"
                          "server_error"},
            e.type);
      visit(ResponseField{"param", "The invalid field"}, e.param);
      visit(ResponseField{"code", "Machine-readable error code"}, e.code);
    }
  } error;
  static void fields(auto& r, auto&& visit) { visit(ResponseField{"error"}, r.error); }
};

struct PromptTokensDetails {
  static constexpr const char *kName = "PromptTokensDetails", *kHelp = "Details of the prompt tokens.";
  int64_t cached_tokens = 0;
  static void fields(auto& d, auto&& visit) {
    visit(ResponseField{"cached_tokens", "Prompt tokens that were found in the KV cache"}, d.cached_tokens);
  }
};

struct UsageResponse {
  static constexpr const char *kName = "Usage", *kHelp = "Number of tokens of a request.";
  int64_t prompt_tokens = 0, completion_tokens = 0, total_tokens = 0;
  PromptTokensDetails prompt_tokens_details = {};
  static void fields(auto& u, auto&& visit) {
    visit(ResponseField{"prompt_tokens", "Tokens of the prompts"}, u.prompt_tokens);
    visit(ResponseField{"completion_tokens", "Generated tokens"}, u.completion_tokens);
    visit(ResponseField{"total_tokens", "Sum of both"}, u.total_tokens);
    visit(ResponseField{"prompt_tokens_details"}, u.prompt_tokens_details);
  }
};

struct ToolCallResponse {
  static constexpr const char *kName = "ToolCall", *kHelp = "A call of a tool by the model.";
  struct Function {
    static constexpr const char *kName = "ToolCallFunction", *kHelp = "The called tool.";
    std::string name, arguments;
    static void fields(auto& f, auto&& visit) {
      visit(ResponseField{"name", "Name of the tool"}, f.name);
      visit(ResponseField{"arguments", "Arguments as a JSON object in a string"}, f.arguments);
    }
  };
  std::optional<int64_t> index;
  std::string id, type = "function";
  Function function;
  static void fields(auto& c, auto&& visit) {
    visit(ResponseField{.name = "index", .help = "Number of the call, in streams", .optional = true},
          c.index);
    visit(ResponseField{"id", "Id of the call"}, c.id);
    visit(ResponseField{"type", "Kind of tool", "function"}, c.type);
    visit(ResponseField{"function"}, c.function);
  }
};

struct TokenLogprobResponse {
  static constexpr const char *kName = "TokenLogprob", *kHelp = "A token and its log-probability.";
  std::string token;
  double logprob = 0;
  std::vector<unsigned> bytes;
  static void fields(auto& t, auto&& visit) {
    visit(ResponseField{"token", "Text of the token; invalid UTF-8 is replaced"}, t.token);
    visit(ResponseField{"logprob", "Natural logarithm of the probability"}, t.logprob);
    visit(ResponseField{"bytes", "Bytes of the token"}, t.bytes);
  }
};

struct ChatTokenResponse : TokenLogprobResponse {
  static constexpr const char *kName = "ChatToken",
                              *kHelp = "A token, its log-probability and the most likely tokens.";
  std::vector<TokenLogprobResponse> top_logprobs;
  static void fields(auto& t, auto&& visit) {
    TokenLogprobResponse::fields(t, visit);
    visit(ResponseField{"top_logprobs", "The most likely tokens at this position, most likely first"},
          t.top_logprobs);
  }
};

struct ChatLogprobs {
  static constexpr const char *kName = "ChatLogprobs",
                              *kHelp = "Log-probabilities of the tokens of a chat response.";
  std::vector<ChatTokenResponse> content;
  std::nullptr_t refusal = nullptr;
  static void fields(auto& l, auto&& visit) {
    visit(ResponseField{"content", "One entry per token"}, l.content);
    visit(ResponseField{"refusal", "Always null"}, l.refusal);
  }
};

struct CompletionLogprobs {
  static constexpr const char *kName = "CompletionLogprobs",
                              *kHelp =
                                  "Log-probabilities of the tokens of a completion, one entry per token.";
  std::vector<std::string> tokens;
  std::vector<std::optional<double>> token_logprobs;
  std::vector<std::optional<NamedNumbers>> top_logprobs;
  std::vector<int64_t> text_offset;
  static void fields(auto& l, auto&& visit) {
    visit(ResponseField{"tokens", "Texts of the tokens"}, l.tokens);
    visit(ResponseField{"token_logprobs", "Log-probabilities; null for the first token of an echoed prompt"},
          l.token_logprobs);
    visit(
        ResponseField{"top_logprobs", "The most likely tokens and the sampled token, with log-probabilities"},
        l.top_logprobs);
    visit(ResponseField{"text_offset", "Number of characters before the token"}, l.text_offset);
  }
};

struct ChatChoice {
  static constexpr const char *kName = "ChatChoice", *kHelp = "One of the responses to a conversation.";
  struct Message {
    static constexpr const char *kName = "AssistantMessage", *kHelp = "The message of the model.";
    std::string role = "assistant";
    std::optional<std::string> content;
    std::nullptr_t refusal = nullptr;
    std::vector<ToolCallResponse> tool_calls;
    static void fields(auto& m, auto&& visit) {
      visit(ResponseField{"role", "Role of the author", "assistant"}, m.role);
      visit(ResponseField{"content", "Text of the message; null if it only consists of tool calls"},
            m.content);
      visit(ResponseField{"refusal", "Always null"}, m.refusal);
      visit(ResponseField{.name = "tool_calls", .help = "Calls of tools", .optional = true}, m.tool_calls);
    }
  };
  int64_t index = 0;
  Message message;
  std::optional<ChatLogprobs> logprobs;
  std::string finish_reason;
  static void fields(auto& c, auto&& visit) {
    visit(ResponseField{"index", "Number of the choice"}, c.index);
    visit(ResponseField{"message"}, c.message);
    visit(ResponseField{"logprobs", "Log-probabilities, if requested"}, c.logprobs);
    visit(ResponseField{"finish_reason", "Why the response ended", "stop|length|tool_calls"},
          c.finish_reason);
  }
};

struct CompletionChoice {
  static constexpr const char *kName = "CompletionChoice", *kHelp = "One of the completions of a prompt.";
  int64_t index = 0;
  std::string text;
  std::optional<CompletionLogprobs> logprobs;
  std::string finish_reason;
  static void fields(auto& c, auto&& visit) {
    visit(ResponseField{"index", "Number of the choice"}, c.index);
    visit(ResponseField{"text", "The generated text; with `echo`, it begins with the prompt"}, c.text);
    visit(ResponseField{"logprobs", "Log-probabilities, if requested"}, c.logprobs);
    visit(ResponseField{"finish_reason", "Why the text ended", "stop|length"}, c.finish_reason);
  }
};

// The response to a chat completion or a completion.
template <class Choice>
struct GenerationResponse {
  static constexpr bool kChat = std::is_same_v<Choice, ChatChoice>;
  static constexpr const char* kObject = kChat ? "chat.completion" : "text_completion";
  static constexpr const char* kName = kChat ? "ChatResponse" : "CompletionResponse";
  static constexpr const char* kHelp = "A response that is not streamed.";
  std::string id, object = kObject;
  int64_t created = 0;
  std::string model, system_fingerprint;
  std::vector<Choice> choices;
  UsageResponse usage;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"id", "Id of the response"}, r.id);
    visit(ResponseField{"object", "Kind of object", kObject}, r.object);
    visit(ResponseField{"created", "Unix time in seconds"}, r.created);
    visit(ResponseField{"model", "Name of the model"}, r.model);
    visit(ResponseField{"system_fingerprint", "Name of the server software"}, r.system_fingerprint);
    visit(ResponseField{"choices", "The generated texts"}, r.choices);
    visit(ResponseField{"usage"}, r.usage);
  }
};
using ChatResponse = GenerationResponse<ChatChoice>;
using CompletionResponse = GenerationResponse<CompletionChoice>;

struct EmbeddingsResponse {
  static constexpr const char *kName = "EmbeddingsResponse", *kHelp = "One embedding per input.";
  struct Embedding {
    static constexpr const char *kName = "Embedding", *kHelp = "The embedding of an input.";
    std::string object = "embedding";
    int64_t index = 0;
    std::variant<std::vector<float>, std::string> embedding;
    static void fields(auto& e, auto&& visit) {
      visit(ResponseField{"object", "Kind of object", "embedding"}, e.object);
      visit(ResponseField{"index", "Number of the input"}, e.index);
      visit(ResponseField{"embedding", "A list of numbers, or little-endian fp32 values in base64"},
            e.embedding);
    }
  };
  struct Usage {
    static constexpr const char *kName = "EmbeddingsUsage", *kHelp = "Number of tokens of the inputs.";
    int64_t prompt_tokens = 0, total_tokens = 0;
    static void fields(auto& u, auto&& visit) {
      visit(ResponseField{"prompt_tokens", "Tokens of the inputs"}, u.prompt_tokens);
      visit(ResponseField{"total_tokens", "The same number"}, u.total_tokens);
    }
  };
  std::string object = "list";
  std::vector<Embedding> data;
  std::string model;
  Usage usage;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"object", "Kind of object", "list"}, r.object);
    visit(ResponseField{"data", "The embeddings in the order of the inputs"}, r.data);
    visit(ResponseField{"model", "Name of the model"}, r.model);
    visit(ResponseField{"usage"}, r.usage);
  }
};

struct ModelResponse {
  static constexpr const char *kName = "Model", *kHelp = "A model or adapter.";
  std::string id, object = "model";
  int64_t created = 0;
  std::string owned_by = "gpt.cpp";
  int64_t max_model_len = 0, vocab_size = 0;
  std::optional<std::string> chat_template;
  std::string parent;
  static void fields(auto& m, auto&& visit) {
    visit(ResponseField{"id", "Name of the model, or MODEL:ADAPTER"}, m.id);
    visit(ResponseField{"object", "Kind of object", "model"}, m.object);
    visit(ResponseField{"created", "Unix time in seconds at which the model was loaded"}, m.created);
    visit(ResponseField{"owned_by", "Name of the server software"}, m.owned_by);
    visit(ResponseField{"max_model_len", "Context length in tokens"}, m.max_model_len);
    visit(ResponseField{"vocab_size", "Number of token ids"}, m.vocab_size);
    visit(ResponseField{"chat_template", "Chat format; \"jinja\" is the model's own template, null is none"},
          m.chat_template);
    visit(ResponseField{.name = "parent", .help = "Model of the adapter", .optional = true}, m.parent);
  }
};

struct ModelsResponse {
  static constexpr const char *kName = "ModelsResponse", *kHelp = "The loaded models and adapters.";
  std::string object = "list";
  std::vector<ModelResponse> data;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"object", "Kind of object", "list"}, r.object);
    visit(ResponseField{"data", "Models, each followed by its adapters"}, r.data);
  }
};

struct TokenizeResponse {
  static constexpr const char *kName = "TokenizeResponse", *kHelp = "Token ids of a text or conversation.";
  std::vector<int32_t> tokens;
  int64_t count = 0, max_model_len = 0;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"tokens", "Token ids"}, r.tokens);
    visit(ResponseField{"count", "Number of token ids"}, r.count);
    visit(ResponseField{"max_model_len", "Context length in tokens"}, r.max_model_len);
  }
};

struct DetokenizeResponse {
  static constexpr const char *kName = "DetokenizeResponse", *kHelp = "Text of token ids.";
  std::string content, prompt;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"content", "The text; invalid UTF-8 is replaced"}, r.content);
    visit(ResponseField{"prompt", "The same text, under vLLM's name"}, r.prompt);
  }
};

struct TemplateResponse {
  static constexpr const char *kName = "TemplateResponse",
                              *kHelp = "A conversation as the model receives it.";
  std::string prompt;
  std::vector<int32_t> tokens;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"prompt", "Text of the prompt"}, r.prompt);
    visit(ResponseField{"tokens", "Token ids of the prompt"}, r.tokens);
  }
};

struct LoadResponse {
  static constexpr const char *kName = "LoadResponse",
                              *kHelp = "Confirms that a model or adapter was loaded or unloaded.";
  bool success = true;
  std::string model;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"success", "Always true"}, r.success);
    visit(ResponseField{"model", "Name of the model, or MODEL:ADAPTER"}, r.model);
  }
};

struct HealthResponse {
  static constexpr const char *kName = "HealthResponse", *kHelp = "State of the server.";
  std::string status;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"status", "\"draining\" while the server shuts down", "ok|draining"}, r.status);
  }
};

struct RunResponse {
  static constexpr const char *kName = "Run", *kHelp = "State of a training run. Unknown values are null.";
  struct Sample {
    static constexpr const char *kName = "RunSample", *kHelp = "A text sampled during training.";
    std::optional<double> step;
    std::string text;
    static void fields(auto& s, auto&& visit) {
      visit(ResponseField{"step", "Training step"}, s.step);
      visit(ResponseField{"text", "The sampled text"}, s.text);
    }
  };
  std::string name, version, report_version;
  int64_t step = 0;
  std::optional<int64_t> steps;
  std::optional<double> loss, val_loss, tok_per_s, seconds, eta_seconds;
  std::string state;
  std::optional<JsonText> curves;
  std::optional<std::vector<Sample>> samples;
  static void fields(auto& r, auto&& visit) {
    visit(ResponseField{"name", "Name of the run"}, r.name);
    visit(ResponseField{"version", "Changes when the metrics of the run have changed"}, r.version);
    visit(ResponseField{"report_version", "Changes when the run has written a new report"}, r.report_version);
    visit(ResponseField{"step", "Completed training steps"}, r.step);
    visit(ResponseField{"steps", "Total training steps"}, r.steps);
    visit(ResponseField{"loss", "Latest training loss in nats per token"}, r.loss);
    visit(ResponseField{"val_loss", "Latest validation loss in nats per token"}, r.val_loss);
    visit(ResponseField{"tok_per_s", "Training tokens per second"}, r.tok_per_s);
    visit(ResponseField{"seconds", "Training time so far in seconds"}, r.seconds);
    visit(ResponseField{"eta_seconds", "Estimated remaining time in seconds"}, r.eta_seconds);
    visit(
        ResponseField{
            "state",
            "State of the run; if it is \"damaged\", the error is the response to a request for this "
            "run",
            "running|finished|silent|damaged"},
        r.state);
    visit(
        ResponseField{
            .name = "curves", .help = "Curves of the metrics, only for a single run", .optional = true},
        r.curves);
    visit(ResponseField{.name = "samples", .help = "Newest samples, only for a single run", .optional = true},
          r.samples);
  }
};

struct RunsResponse {
  static constexpr const char *kName = "RunsResponse", *kHelp = "The training runs of the server.";
  std::vector<RunResponse> runs;
  static void fields(auto& r, auto&& visit) { visit(ResponseField{"runs", "The runs"}, r.runs); }
};

// Returns a response as JSON in one line. Invalid UTF-8 is replaced, and numbers that are not finite become
// null.
template <class Response>
std::string json_of(const Response& response);

}  // namespace gpt::serve
