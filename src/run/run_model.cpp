#include "run/run_model.h"

#include "base/error.h"
#include "convert/gguf_vocab.h"
#include "io/gguf.h"
#include "model/model_files.h"
#include "run/resume.h"
#include "train/param_groups.h"

namespace gpt {
namespace {

// Returns the config of the model to train. If the run starts from the model `init`, this is the config of
// `init` with the dropout rates of the request. Otherwise, it is the config of the request.
ModelConfig choose_model(const TrainRequest& request, const LoadedModel* init, const RunData& data) {
  ModelConfig config = request.config.model;
  if (init != nullptr) {
    config = init->model().config;
    require_shape(request.config.model, config);
    if (request.tokenizer_given) require_tokenizer(request.config.train.tokenizer, *data.tokenizer);
    copy_dropout(request.config.model, config);
  }
  config.vocab_size = vocabulary_size(config.vocab_size, *data.tokenizer);
  if (request.resume) {  // config.json of the run does not contain token ids
    const ModelConfig before = read_model_config(request.out + "/last/config.json");
    config.bos_token_id = before.bos_token_id;
    config.eos_token_ids = before.eos_token_ids;
  } else {
    name_document_token(config, data);
  }
  return config;
}

}  // namespace

std::string tokenizer_folder_of_run(const TrainRequest& request, const LoadedModel* init) {
  if (request.resume) return request.out + "/last";
  if (init == nullptr) return "";
  return init->gguf() != nullptr ? init->gguf()->path() : init->folder();
}

ChatTemplates chat_templates_of_run(const TrainRequest& request, const LoadedModel* init) {
  if (!request.resume && init == nullptr) return {};
  if (init != nullptr && init->gguf() != nullptr) return gguf_chat_templates(*init->gguf());
  return read_chat_templates(tokenizer_folder_of_run(request, init));
}

Model model_of_run(const TrainRequest& request, const LoadedModel* init, const RunData& data) {
  ModelConfig config = choose_model(request, init, data);
  complete(config);
  Model model(config, request.objective->parameters(config));
  freeze_parameters(request.config.train, model.table);
  return model;
}

void copy_dropout(const ModelConfig& from, ModelConfig& to) {
  to.dropout = from.dropout;
  to.embd_dropout = from.embd_dropout;
  to.attn_dropout = from.attn_dropout;
  to.resid_dropout = from.resid_dropout;
}

TrainStep::Options step_options_of_run(const TrainConfig& config, const ParamTable& table, int64_t n_ctx,
                                       const Objective& objective, Communicator& processes) {
  TrainStep::Options options = step_options(config, table, n_ctx, processes);
  options.graph.objective = &objective;
  if (options.micro_batch % objective.group() != 0) {
    fail_key("micro_batch", "expected a multiple of {}, the number of samples per group, found {}",
             objective.group(), options.micro_batch);
  }
  return options;
}

}  // namespace gpt
