#include "run/run_model.h"

#include "base/error.h"
#include "convert/gguf_vocab.h"
#include "io/gguf.h"
#include "model/model_files.h"
#include "run/resume.h"
#include "train/param_groups.h"

namespace gpt {
namespace {

// The config of the model to train: the given one, or that of --init-from with the given dropout.
ModelConfig choose_model(const TrainRequest& request, const LoadedModel* init, const RunData& data) {
  ModelConfig config = request.config.model;
  if (init != nullptr) {
    config = init->model().config;
    require_shape(request.config.model, config);
    if (request.tokenizer_given) require_tokenizer(request.config.train.tokenizer, *data.tokenizer);
    config.dropout = request.config.model.dropout;
    config.embd_dropout = request.config.model.embd_dropout;
    config.attn_dropout = request.config.model.attn_dropout;
    config.resid_dropout = request.config.model.resid_dropout;
  }
  config.vocab_size = vocabulary_size(config.vocab_size, *data.tokenizer);
  if (request.resume) {  // the run's config has no ids
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

TrainStep::Options step_options_of_run(const TrainRequest& request, const Model& model) {
  TrainStep::Options options =
      step_options(request.config.train, model.table, model.config.n_ctx, *request.processes);
  options.graph.objective = request.objective;
  const int64_t group = request.objective->group();
  if (options.micro_batch % group != 0) {
    fail_usage(
        "config key \"micro_batch\": expected a multiple of {}, the samples that belong together, found {}",
        group, options.micro_batch);
  }
  return options;
}

}  // namespace gpt
