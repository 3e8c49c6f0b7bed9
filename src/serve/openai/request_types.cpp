#include "serve/openai/api_types.h"

#include <fmt/ranges.h>

#include <type_traits>

#include "infer/sampler.h"
#include "serve/models/model_set.h"
#include "serve/openai/generation_params.h"

namespace gpt::serve {
namespace {

using FieldList = std::vector<ApiField>;

FieldList joined(std::initializer_list<FieldList> lists) {
  FieldList all;
  for (const FieldList& list : lists)
    all.insert(all.end(), list.begin(), list.end());
  return all;
}

ApiField boolean(const char* name, const char* help, const char* default_value = "false") {
  return {.name = name, .help = help, .type = "boolean", .default_value = default_value};
}

const ApiField kModel = {
    .name = "model",
    .help = "Name of a model, MODEL:ADAPTER, or name of an adapter; by default the first model",
    .type = "string"};
const ApiField kSalt = {
    .name = "cache_salt",
    .help =
        "String of at most 256 bytes. Requests share cached prefixes only if they have the "
        "same salt and API key",
    .type = "string",
    .max = PrefixSalts::kLongest};

FieldList text_fields() {
  return {boolean("add_special_tokens", "Add BOS if the tokenizer's configuration requires it", "true"),
          boolean("parse_special", "Encode the names of special tokens in the text as these tokens")};
}

ApiField messages_field(bool required) {
  return {.name = "messages",
          .help = "The conversation, oldest message first",
          .type = "Message[]",
          .min = 1,
          .required = required};
}

ApiField continues_field() {
  return {.name = "continue_final_message",
          .help =
              "Continue the last message, which must be the assistant's; by default true if the last message "
              "is the assistant's and `add_generation_prompt` is false or missing",
          .type = "boolean"};
}

FieldList chat_prompt_fields() {
  return {
      messages_field(true),
      {.name = "tools", .help = "Tools that the model may call", .type = "Tool[]"},
      {.name = "tool_choice",
       .help = "Whether the response may or must call a tool, or the tool that it must call",
       .type = "string | ToolChoice",
       .choices = "none|auto|required",
       .default_value = "\"auto\""},
      boolean("parallel_tool_calls", "Allow more than one tool call in a response", "true"),
      {.name = "add_generation_prompt",
       .help = "End the prompt where the assistant's next message starts; by default true unless the last "
               "message is the assistant's",
       .type = "boolean"},
      continues_field(),
      {.name = "chat_template_kwargs", .help = "Variables for the chat template", .type = "object"}};
}

// Returns the request field of a sampling parameter. Its default is the value of the unchanged distribution.
template <class T>
ApiField field_of(const SamplingField& f, const T& value) {
  ApiField field{.name = f.name, .help = f.help, .min = f.request_min, .max = f.request_max};
  if constexpr (std::is_arithmetic_v<T>) {
    field.type = std::is_integral_v<T> ? "integer" : "number";
    field.default_value = fmt::format("{}", value);
  } else if constexpr (std::is_same_v<T, TopPRule>) {
    static const std::string rules = fmt::format("{}", fmt::join(gptcpp::kTopPRules, "|"));
    field = {.name = f.name, .help = f.help, .type = "string", .choices = rules.c_str()};
    field.default_value = fmt::format("\"{}\"", gptcpp::kTopPRules[static_cast<int>(value)]);
  } else {
    field.type = "object";
  }
  return field;
}

FieldList sampling_fields() {
  FieldList fields;
  const SamplingParams defaults = SamplingParams::neutral();
  gptcpp::visit_sampling(defaults, [&](const SamplingField& field, const auto& value) {
    fields.push_back(field_of(field, value));
  });
  return fields;
}

constexpr const char* kAnySchema = "object | boolean | string";

FieldList grammar_fields() {
  return {
      {.name = "response_format",
       .help = "Form of the response, as in OpenAI's API",
       .type = "ResponseFormat"},
      {.name = "structured_outputs", .help = "Form of the response, as in vLLM", .type = "StructuredOutputs"},
      {.name = "json_schema",
       .help = "JSON schema of the response, as in llama.cpp's server",
       .type = kAnySchema},
      {.name = "grammar", .help = "GBNF grammar of the response, as in llama.cpp's server", .type = "string"},
      {.name = "guided_json",
       .help = "JSON schema of the response, as in older vLLM versions",
       .type = kAnySchema},
      {.name = "guided_regex", .help = "Regular expression of the whole response", .type = "string"},
      {.name = "guided_choice", .help = "The possible responses", .type = "string[]", .min = 1},
      {.name = "guided_grammar", .help = "GBNF grammar of the response", .type = "string"}};
}

// Returns the fields that chat completions and completions have in common. `limit` is "max_tokens".
FieldList generation_fields(const ApiField& limit) {
  const RequestLimits limits;
  return joined(
      {{kModel,
        kSalt,
        limit,
        {.name = "max_completion_tokens",
         .help = "OpenAI's newer name of `max_tokens`",
         .type = "integer",
         .min = 1},
        {.name = "truncation",
         .help = "\"auto\" drops the oldest part of a prompt that fills the context",
         .type = "string",
         .choices = "auto|disabled",
         .default_value = "\"disabled\""}},
       sampling_fields(),
       grammar_fields(),
       {{.name = "stop",
         .help = "The response ends before the first of these strings: at most 16 strings of 1 to 1024 bytes",
         .type = "string | string[]",
         .min = 1,
         .max = static_cast<double>(limits.stops)},
        {.name = "seed",
         .help = "Random seed, a 64-bit integer. Identical requests with the same seed give the same "
                 "response; -1 "
                 "selects a random seed",
         .type = "integer",
         .default_value = "-1",
         .min = -0x1p63,
         .max = 0x1p63},
        {.name = "n",
         .help = "Number of responses, at most the value of gpt serve --max-n (8 by default)",
         .type = "integer",
         .default_value = "1",
         .min = 1},
        boolean("ignore_eos", "Continue after the end-of-text token"),
        boolean("stream", "Send the response as a stream of server-sent events"),
        {.name = "stream_options", .help = "Options for streams", .type = "StreamOptions"},
        {.name = "user", .help = "Accepted and ignored", .type = "string"}}});
}

FieldList chat_fields() {
  const auto most = static_cast<double>(RequestLimits().top_logprobs);
  const ApiField limit{.name = "max_tokens",
                       .help = "Maximum number of generated tokens; by default the room in the context",
                       .type = "integer",
                       .min = 1};
  return joined({chat_prompt_fields(),
                 generation_fields(limit),
                 {boolean("logprobs", "Return the log-probabilities of the tokens"),
                  {.name = "top_logprobs",
                   .help = "Number of most likely tokens per position; requires `logprobs`",
                   .type = "integer",
                   .default_value = "0",
                   .min = 0,
                   .max = most}}});
}

FieldList completion_fields() {
  const auto most = static_cast<double>(RequestLimits().top_logprobs);
  const ApiField limit{.name = "max_tokens",
                       .help = "Maximum number of generated tokens; 0 is allowed with `echo`",
                       .type = "integer",
                       .default_value = "16",
                       .min = 0};
  return joined({{{.name = "prompt", .help = "The texts to continue", .type = "Prompt", .required = true}},
                 generation_fields(limit),
                 {{.name = "best_of",
                   .help = "Number of samples per prompt, of which the `n` most likely ones are returned; by "
                           "default `n`",
                   .type = "integer",
                   .min = 1},
                  boolean("echo", "Begin each response with its prompt"),
                  {.name = "logprobs",
                   .help = "Return the log-probabilities of the tokens and of this many most likely tokens",
                   .type = "integer",
                   .min = 0,
                   .max = most}},
                 text_fields()});
}

std::vector<ApiType> token_bodies() {
  return {{"TokenizeRequest",
           "A text or a conversation to tokenize. Exactly one of `content`, `prompt` and `messages`.",
           {kModel,
            {.name = "content",
             .help = "A text, without BOS by default, as in llama.cpp's server",
             .type = "string"},
            {.name = "prompt", .help = "A text, with BOS by default, as in vLLM", .type = "string"},
            messages_field(false),
            {.name = "add_special",
             .help = "Add BOS if the tokenizer's configuration requires it",
             .type = "boolean"},
            {.name = "add_special_tokens", .help = "vLLM's name of `add_special`", .type = "boolean"},
            boolean("parse_special", "Encode the names of special tokens in the text as these tokens")}},
          {"DetokenizeRequest",
           "Token ids to convert to text.",
           {kModel,
            {.name = "tokens", .help = "Token ids", .type = "integer[]", .min = 0, .required = true},
            boolean("skip_special_tokens", "Leave out special tokens")}}};
}

std::vector<ApiType> loading_bodies() {
  const ApiField name{.name = "lora_name", .help = "Name of the adapter", .type = "string", .required = true};
  return {
      {"LoadRequest",
       "A model to load or unload.",
       {{.name = "model",
         .help = "Name of a folder or file in the folder of gpt serve --models-dir",
         .type = "string",
         .required = true}}},
      {"LoadAdapterRequest",
       "A LoRA adapter to load.",
       {kModel,
        name,
        {.name = "lora_path",
         .help = "Name of a folder or file in the folder of gpt serve --models-dir",
         .type = "string",
         .required = true},
        {.name = "scale",
         .help = "Factor for the output of the adapter",
         .type = "number",
         .default_value = "1",
         .min = -1e6,
         .max = 1e6}}},
      {"UnloadAdapterRequest",
       "A LoRA adapter to unload.",
       {{.name = "model", .help = "Model of the adapter; not needed if the name is unique", .type = "string"},
        name}}};
}

std::vector<ApiType> generation_bodies() {
  return {
      {"ChatRequest", "A conversation to respond to.", chat_fields()},
      {"CompletionRequest", "Texts to continue.", completion_fields()},
      {"EmbeddingsRequest", "Texts to embed.",
       joined(
           {{kModel,
             kSalt,
             {.name = "input", .help = "The texts to embed", .type = "Prompt", .required = true},
             {.name = "encoding_format",
              .help = "Lists of numbers, or little-endian fp32 values in base64",
              .type = "string",
              .choices = "float|base64",
              .default_value = "\"float\""},
             {.name = "dimensions", .help = "The embedding size of the model", .type = "integer", .min = 1}},
            text_fields()})},
      {"TemplateRequest", "A conversation to render.", joined({{kModel}, chat_prompt_fields()})},
      {"TraceRequest", "A text to trace. Exactly one of `prompt` and `messages`.",
       joined({{{.name = "model", .help = "Name of a model without an adapter", .type = "string"},
                {.name = "prompt", .help = "Text or token ids", .type = "string | integer[]", .min = 0},
                messages_field(false),
                continues_field()},
               text_fields()})}};
}

// Returns the field "type" of an object.
ApiField type_field(const char* choices) {
  return {.name = "type", .type = "string", .choices = choices, .required = true};
}

std::vector<ApiType> tool_types() {
  const ApiField tool_name{.name = "name", .help = "Name of the tool", .type = "string", .required = true};
  return {{"Tool",
           "A tool that the model may call.",
           {type_field("function"), {.name = "function", .type = "ToolFunction", .required = true}}},
          {"ToolFunction",
           "Description of a tool.",
           {tool_name,
            {.name = "description", .help = "Description for the model", .type = "string"},
            {.name = "parameters", .help = "JSON schema of the arguments", .type = "object"}}},
          {"ToolChoice",
           "The tool that must be called.",
           {type_field("function"), {.name = "function", .type = "ToolName", .required = true}}},
          {"ToolName", "Name of a tool.", {tool_name}}};
}

std::vector<ApiType> part_types() {
  const ApiField schema{.name = "schema", .help = "The JSON schema", .type = kAnySchema};
  ApiField required_schema = schema;
  required_schema.required = true;
  return {
      {.name = "Prompt",
       .help = "A text, texts, token ids, or lists of token ids.",
       .alias = {.name = "", .type = "string | string[] | integer[] | integer[][]", .min = 0}},
      {"Message",
       "A message of a conversation.",
       {{.name = "role",
         .type = "string",
         .choices = "system|developer|user|assistant|tool",
         .required = true},
        {.name = "content",
         .help = "Text of the message; may be missing in messages of the assistant",
         .type = "string | TextPart[]"},
        {.name = "name", .help = "Passed to the chat template", .type = "string"},
        {.name = "tool_call_id", .help = "Id of the call that this message responds to", .type = "string"},
        {.name = "tool_calls",
         .help = "Calls of tools in a message of the assistant",
         .type = "ToolCall[]"}}},
      {"TextPart",
       "A part of a message.",
       {type_field("text"), {.name = "text", .help = "The text", .type = "string", .required = true}}},
      {"ResponseFormat",
       "Form of a response.",
       {type_field("text|json_object|json_schema"),
        {.name = "schema", .help = "JSON schema of a \"json_object\"", .type = kAnySchema},
        {.name = "json_schema",
         .help = "Required with the type \"json_schema\"",
         .type = "JsonSchemaFormat"}}},
      {"JsonSchemaFormat",
       "A JSON schema with a name.",
       {{.name = "name", .help = "Accepted and ignored", .type = "string"},
        {.name = "strict",
         .help = "No effect, because responses always follow the schema",
         .type = "boolean"},
        required_schema}},
      {"StructuredOutputs",
       "Form of a response. Exactly one of these fields.",
       {{.name = "json", .help = "JSON schema of the response", .type = kAnySchema},
        {.name = "json_object", .help = "true: the response is a JSON object", .type = "boolean"},
        {.name = "regex", .help = "Regular expression of the whole response", .type = "string"},
        {.name = "choice", .help = "The possible responses", .type = "string[]", .min = 1},
        {.name = "grammar", .help = "GBNF grammar of the response", .type = "string"}}},
      {"StreamOptions",
       "Options for streams. Requires `stream`.",
       {boolean("include_usage", "Send the number of tokens in a last event")}}};
}

}  // namespace

std::vector<ApiType> request_types() {
  std::vector<ApiType> types;
  for (const auto& list : {generation_bodies(), token_bodies(), loading_bodies(), part_types(), tool_types()})
    types.insert(types.end(), list.begin(), list.end());
  for (ApiType& type : types)
    type.in_request = true;
  return types;
}

}  // namespace gpt::serve
