#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "api/context.h"
#include "chat/model_text.h"
#include "convert/adapter_files.h"
#include "grammar/grammar_cache.h"
#include "model/model_source.h"

namespace gptcpp {

struct Tokenizer::Impl {
  std::unique_ptr<const gpt::Tokenizer> tokenizer;
};

struct Model::Impl {
  Impl(std::shared_ptr<Context::Impl> context, const std::string& path, const ModelOptions& options);
  Impl(std::shared_ptr<Context::Impl> context, gpt::ModelSource source, const ModelOptions& options);
  const gpt::ModelConfig& config() const { return loaded.model().config; }
  const gpt::Tokenizer& tokenizer() const;  // throws unsupported if there is no usable tokenizer
  std::string chat_format() const;
  gpt::ChatSource chat_source() const;      // throws unsupported if there is no chat format
  gpt::ChatTemplate chat_template() const;  // throws unsupported if there is no chat format
  // Throws invalid_argument for an unknown name.
  const gpt::WeightedAdapter& adapter(const std::string& name) const;
  // Reserves memory for the weights packed in `dtype`. Only the first call for a dtype reserves memory,
  // because all sessions of a model share the packed weights.
  void claim_packed(gpt::DType dtype, bool in_place) const;
  void load_adapters();
  gpt::grammar::GrammarCache& grammars() const;  // throws unsupported if there is no tokenizer
  // Returns the ids of a text that starts a sequence. Logs warnings about the text through the context.
  std::vector<int32_t> text_ids(std::string_view text, bool bos, bool special) const;
  // Returns the ids of a text that continues a sequence. Logs the same warnings as text_ids.
  std::vector<int32_t> later_ids(std::string_view text, bool special) const;

  std::shared_ptr<Context::Impl> context;
  Claim claim;
  gpt::LoadedModel loaded;
  ModelOptions options;
  std::shared_ptr<const Tokenizer::Impl> text;  // null if there is no tokenizer
  ModelFacts facts;
  struct NamedAdapter {
    std::string name;
    Claim claim;
    gpt::WeightedAdapter adapter;
  };
  std::vector<NamedAdapter> adapters;
  mutable std::mutex mutex;
  mutable std::map<std::pair<gpt::DType, bool>, Claim> packed;
  mutable std::unique_ptr<gpt::grammar::GrammarCache> known_grammars;  // created on first use
};

}  // namespace gptcpp
