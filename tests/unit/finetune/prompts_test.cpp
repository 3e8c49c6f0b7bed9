// Tests the token ids of prompts and responses for preference and reward tasks.

#include "finetune/prompts.h"

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "finetune/tune_config.h"
#include "model/model_files.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

using Json = nlohmann::ordered_json;

const Json kNothing = Json::object();
const Json kAsked = Json::array({{{"role", "user"}, {"content", "q"}}});
Json said(const std::string& content) {
  return Json::array({{{"role", "assistant"}, {"content", content}}});
}

class Prompts : public testing::Test {
 protected:
  // Returns an encoder for a model with this chat template (Jinja).
  PromptEncoder encoder(const std::string& jinja) {
    const std::string file = dir_.file("template.jinja");
    write_plain_file(file, jinja);
    config_.chat_template = file;
    return PromptEncoder(sources_);
  }
  // Returns the text of the ids, with the trained part in brackets.
  std::string text(const ChatExample& example) const {
    std::string out;
    for (size_t i = 0; i < example.ids.size(); ++i) {
      const bool counts = example.weights[i] != 0, before = i > 0 && example.weights[i - 1] != 0;
      if (counts != before) out += counts ? "[" : "]";
      out += tokenizer_->token_bytes(example.ids[i]);
    }
    return out + (!example.weights.empty() && example.weights.back() != 0 ? "]" : "");
  }
  std::string text(const std::vector<int32_t>& ids) const {
    return text(ChatExample{ids, std::vector<uint8_t>(ids.size())});
  }

  TempDir dir_;
  LoadedModel base_{std::string(GPT_SOURCE_DIR) + "/tests/golden/data/gpt2"};
  std::shared_ptr<const Tokenizer> tokenizer_ =
      load_tokenizer(std::string(GPT_SOURCE_DIR) + "/tests/data/chat.tokenizer.json");
  ModelConfig model_{.vocab_size = 1000, .n_ctx = 64, .bos_token_id = 0, .eos_token_ids = {1}};
  TuneConfig config_;
  TaskSources sources_{config_, base_, model_, tokenizer_, ""};
};

constexpr const char* kLlama2 =
    "{{ '<s>' }}{% for m in messages %}{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
    "{% else %}{{ ' ' + m.content | trim + ' </s>' }}{% endif %}{% endfor %}";

TEST_F(Prompts, AChatResponseIsWhatTheTemplateWrites) {
  const PromptEncoder prompts = encoder(kLlama2);
  EXPECT_EQ(text(prompts.prompt(kAsked, kNothing, "here")), "<s>[INST] q [/INST]");
  EXPECT_EQ(text(prompts.response(kAsked, said("yes"), kNothing, "here")), "<s>[INST] q [/INST][ yes </s>]");
  EXPECT_EQ(text(prompts.response(kAsked, said(" yes\n"), kNothing, "here")),
            "<s>[INST] q [/INST][ yes </s>]");
  EXPECT_EQ(text(prompts.response(kAsked, "yes", kNothing, "here")), "<s>[INST] q [/INST][ yes </s>]");
  const Json turns = Json::array({{{"role", "user"}, {"content", "a"}},
                                  {{"role", "assistant"}, {"content", "b"}},
                                  {{"role", "user"}, {"content", "q"}}});
  EXPECT_EQ(text(prompts.response(turns, said("yes"), kNothing, "here")),
            "<s>[INST] a [/INST] b </s>[INST] q [/INST][ yes </s>]");
}

// Text after the end token is not part of the response.
TEST_F(Prompts, AResponseEndsWithItsEndToken) {
  const PromptEncoder prompts = encoder(
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
  EXPECT_EQ(text(prompts.response(kAsked, said("yes"), kNothing, "here")),
            "<|im_start|>user\nq<|im_end|>\n<|im_start|>assistant\n[yes<|im_end|>]");
}

TEST_F(Prompts, TemplatesAreGivenToolsAndOtherNames) {
  const PromptEncoder prompts = encoder(
      "{% for t in tools or [] %}{{ t | tojson }}{% endfor %}{{ style }}{% for m in messages %}{{ "
      "'<|im_start|>' + "
      "(m.content or '') }}{% for c in m.tool_calls or [] %}{{ c.function | tojson }}{% endfor %}{{ "
      "'<|im_end|>' }}{% endfor %}");
  const Json tools = Json::array({{{"z", 1}, {"a", 2}}}),
             line = {{"tools", tools}, {"chat_template_kwargs", {{"style", "x"}}}},
             as_text = {{"tools", tools.dump()}, {"chat_template_kwargs", R"({"style": "x"})"}};
  EXPECT_EQ(text(prompts.prompt(kAsked, line, "here")), R"({"z": 1, "a": 2}x<|im_start|>q<|im_end|>)");
  EXPECT_EQ(prompts.prompt(kAsked, as_text, "here"), prompts.prompt(kAsked, line, "here"));
  const Json call =
      Json::array({{{"role", "assistant"},
                    {"tool_calls",
                     Json::array({{{"function", {{"name", "f"}, {"arguments", {{"y", 1}, {"b", 2}}}}}}})}}});
  EXPECT_EQ(
      text(prompts.response(kAsked, call, line, "here")),
      R"({"z": 1, "a": 2}x<|im_start|>q<|im_end|>[<|im_start|>{"name": "f", "arguments": {"y": 1, "b": 2}}<|im_end|>])");
  for (const char* name : {"messages", "tools", "add_generation_prompt", "eos_token"})
    EXPECT_THROW(prompts.prompt(kAsked, {{"chat_template_kwargs", {{name, 1}}}}, "here"), Error) << name;
  EXPECT_THROW(prompts.prompt(kAsked, {{"tools", 3}}, "here"), Error);
  EXPECT_THROW(encoder(kLlama2).response(kAsked, call, line, "here"), Error) << "it writes no calls";
}

// A text prompt and its response are encoded together, without a token in between. A token that spans both
// belongs to the response.
TEST_F(Prompts, TextsAreEncodedTogether) {
  const PromptEncoder prompts(sources_);
  for (const auto& [prompt, response] :
       {std::pair<std::string, std::string>{"the fox ", "ran"}, {"the f", "ox"}, {"a", " b"}, {"", "b"}}) {
    const ChatExample example = prompts.response(prompt, response, kNothing, "here");
    std::vector<int32_t> ids =
        prompts.prompt(prompt.empty() ? response : prompt + response, kNothing, "here");
    if (prompt.empty()) ids.insert(ids.begin(), 0);  // the BOS token of the model represents the empty text
    ids.push_back(1);
    EXPECT_EQ(example.ids, ids) << prompt;
    const std::vector<int32_t> before = prompts.prompt(prompt, kNothing, "here");
    for (size_t i = 0, same = 1; i < ids.size(); ++i) {
      same = same != 0 && i < before.size() && before[i] == ids[i] ? 1 : 0;
      EXPECT_EQ(example.weights[i], 1 - same) << prompt << " " << i;
    }
  }
}

TEST_F(Prompts, ResponsesOfOtherShapesAreRefused) {
  const PromptEncoder prompts = encoder(kLlama2);
  const Json two = Json::array({said("a")[0], said("b")[0]}),
             user = Json::array({{{"role", "user"}, {"content", "a"}}});
  for (const Json& wrong : {said(""), two, user, Json::array(), Json::array({"a"}), Json(3), Json("")})
    EXPECT_THROW(prompts.response(kAsked, wrong, kNothing, "here"), Error) << wrong;
  for (const Json& wrong : {said("a"), Json::array(), Json::array({"a"}), Json(3), Json(nullptr)})
    EXPECT_THROW(prompts.response(wrong, "a", kNothing, "here"), Error) << wrong;
}

}  // namespace
}  // namespace gpt::test
