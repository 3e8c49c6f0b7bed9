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
  const gpt::Tokenizer& tokenizer() const;  // throws unsupported without one
  std::string chat_format() const;
  gpt::ChatSource chat_source() const;                                 // throws unsupported without one
  gpt::ChatTemplate chat_template() const;                             // the same
  const gpt::WeightedAdapter& adapter(const std::string& name) const;  // checked
  // For products in a type, once: the sessions of a model share it.
  void claim_packed(gpt::DType dtype, bool in_place) const;
  void load_adapters();
  gpt::grammar::GrammarCache& grammars() const;  // throws unsupported without a tokenizer
  // The ids of a text that begins; warns through the context's log.
  std::vector<int32_t> text_ids(std::string_view text, bool bos, bool special) const;
  // The ids of a text that does not begin, with the same warnings.
  std::vector<int32_t> later_ids(std::string_view text, bool special) const;

  std::shared_ptr<Context::Impl> context;
  Claim claim;
  gpt::LoadedModel loaded;
  ModelOptions options;
  std::shared_ptr<const Tokenizer::Impl> text;  // null: none
  ModelFacts facts;
  struct NamedAdapter {
    std::string name;
    Claim claim;
    gpt::WeightedAdapter adapter;
  };
  std::vector<NamedAdapter> adapters;
  mutable std::mutex mutex;
  mutable std::map<std::pair<gpt::DType, bool>, Claim> packed;
  mutable std::unique_ptr<gpt::grammar::GrammarCache> known_grammars;  // made when first needed
};

}  // namespace gptcpp
