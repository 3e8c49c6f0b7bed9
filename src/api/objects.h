#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>

#include "api/context.h"
#include "chat/model_text.h"
#include "infer/cached_model.h"
#include "infer/engine.h"

namespace gptcpp {

struct Tokenizer::Impl {
  std::unique_ptr<const gpt::Tokenizer> tokenizer;
};

struct Model::Impl {
  Impl(const Context& context, const std::string& path, const ModelOptions& options);
  const gpt::ModelConfig& config() const { return loaded.model().config; }
  const gpt::Tokenizer& tokenizer() const;  // throws unsupported without one
  gpt::ChatFormat chat_format() const;      // the same
  void claim_packed(
      gpt::DType dtype) const;  // for products in a type, once; the sessions of a model share it
  std::vector<int32_t> text_ids(std::string_view text) const;  // of a text that begins a sequence

  std::shared_ptr<Context::Impl> context;
  Claim claim;
  gpt::LoadedModel loaded;
  ModelOptions options;
  std::shared_ptr<const Tokenizer::Impl> text;  // null: none
  ModelFacts facts;
  mutable std::mutex mutex;
  mutable std::map<gpt::DType, Claim> packed;
};

// A model that computes, with threads and memory of its own.
class Decoder {
 public:
  Decoder(std::shared_ptr<const Model::Impl> model, const EngineOptions& options, bool slide = false);
  const Model::Impl& model() const { return *model_; }
  gpt::Request request(std::vector<int32_t> prompt, const GenerateOptions& options) const;  // checked

 private:
  std::shared_ptr<const Model::Impl> model_;
  gpt::Inference::Options options_;
  Claim claim_;

 public:
  gpt::ThreadPool pool;
  gpt::Inference inference;
  gpt::CachedModel cached;
};

// The text of one request as its tokens arrive; nothing without a tokenizer.
class PieceStream {
 public:
  PieceStream(const Model::Impl& model, const std::vector<std::string>& stops, bool drop_blank = false);
  // What an event adds; a token that ended the text is none of it. After the last one also what was held
  // back.
  std::string push(const gpt::Event& event);
  bool stopped() const { return stream_ && stream_->stopped(); }

 private:
  std::optional<gpt::TextStream> stream_;
};

bool ends_text(const gpt::Event& event);  // its token is no part of it
Finish finish_of(gpt::FinishReason reason);

}  // namespace gptcpp
