#include "train/sample.h"

#include "infer/cached_model.h"
#include "infer/generate.h"
#include "text/utf8.h"

namespace gpt {

std::optional<std::string> sample_text(const Model& model, const Tokenizer& tokenizer, const Backend& backend,
                                       DType weights, uint64_t seed, int64_t step,
                                       const std::function<bool()>& interrupted) {
  std::vector<int32_t> prompt = {0};
  try {
    prompt = tokenizer.encode("\n");
  } catch (const Error&) {  // a vocabulary without newline
  }
  Inference inference(model, backend, {.slots = 1, .max_rows = 64, .weights = weights});
  CachedModel sequences(inference, false);
  const GenerateOptions options{.max_tokens = kSampleTokens,
                                .sampling = {.temperature = 0.8, .top_k = 40},
                                .seed = seed + static_cast<uint64_t>(step),
                                .context = ContextPolicy::crop};
  bool stopped = false;
  const std::vector<Completion> out =
      generate(sequences, std::vector<std::vector<int32_t>>{prompt}, options, [&](const TokenEvent&) {
        stopped = stopped || interrupted();
        return !stopped;
      });
  if (stopped) return {};
  std::string text;
  for (int32_t id : out.at(0).ids) {
    if (id < tokenizer.vocab_size()) text += tokenizer.token_bytes(id);
  }
  return replace_invalid_utf8(text);
}

}  // namespace gpt
