#include "train/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "io/checkpoint_dir.h"
#include "io/json.h"
#include "io/printable.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/model_files.h"
#include "tensor/memory.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kObjectiveFile = "/objective.safetensors";  // the parameters of an objective of its own

void write_files(const std::string& folder, const Model& model, const ParamBuffer& weights,
                 const std::string& tokenizer_json) {
  write_model(folder, model, weights.views());
  std::vector<NamedTensor> own;
  for (int id = model.table.model_count(); id < model.table.count(); ++id)
    own.push_back(named_tensor(model.table[id].name, weights[id]));
  if (!own.empty()) write_safetensors(folder + kObjectiveFile, own);
  if (!tokenizer_json.empty()) write_file_atomic(folder + "/tokenizer.json", tokenizer_json);
}

constexpr const char* kBestFile = "/train_best.json";
constexpr std::array pending_names = {"nothing", "evaluation", "sample"};

Pending pending_of(const std::string& name, const std::string& path) {
  const auto found = std::find(pending_names.begin(), pending_names.end(), name);
  if (found == pending_names.end()) fail("{}: \"pending\": unknown {}", path, printable(name));
  return static_cast<Pending>(found - pending_names.begin());
}

json state_json(const RunState& s) {
  return {{"step", s.step},
          {"updates", s.updates},
          {"tokens", s.tokens},
          {"skipped", s.skipped},
          {"data_tokens", s.data.tokens},
          {"data_hash", s.data.train},
          {"val_data_hash", s.data.val},
          {"tokenizer_hash", s.data.tokenizer},
          {"data_sizes_hash", s.data.sizes},
          {"data_ids_hash", s.data.ids},
          {"data_folder", s.data_folder},
          {"config", json::parse(s.config)},
          {"pending", pending_names.at(static_cast<size_t>(s.pending))},
          {"best_val_loss", s.best_val_loss},
          {"best_step", s.best_step},
          {"stale_evaluations", s.stale_evaluations},
          {"train_seconds", s.train_seconds},
          {"eval_seconds", s.eval_seconds},
          {"sample_seconds", s.sample_seconds},
          {"save_seconds", s.save_seconds},
          {"setup_seconds", s.setup_seconds},
          {"peak_bytes", s.peak_bytes},
          {"loss_scale", s.loss_scale.scale},
          {"good_steps", s.loss_scale.good_steps},
          {"overflows", s.loss_scale.overflows},
          {"loss_history", s.losses},
          {"norm_history", s.norms}};
}

RunState state_from_json(const json& object, const std::string& path) {
  RunState s;
  try {
    s.step = object.at("step");
    s.updates = object.at("updates");
    s.tokens = object.at("tokens");
    s.skipped = object.at("skipped");
    s.data = {.tokens = object.at("data_tokens"),
              .train = object.value("data_hash", ""),
              .val = object.value("val_data_hash", ""),
              .tokenizer = object.value("tokenizer_hash", ""),
              .sizes = object.value("data_sizes_hash", ""),
              .ids = object.value("data_ids_hash", "")};
    s.data_folder = object.value("data_folder", "");
    s.config = object.value("config", json::object()).dump();
    s.pending = pending_of(object.value("pending", "nothing"), path);
    s.best_val_loss = object.at("best_val_loss");
    s.best_step = object.at("best_step");
    s.stale_evaluations = object.value("stale_evaluations", int64_t{0});
    s.train_seconds = object.at("train_seconds");
    s.eval_seconds = object.value("eval_seconds", 0.0);
    s.sample_seconds = object.value("sample_seconds", 0.0);
    s.save_seconds = object.value("save_seconds", 0.0);
    s.setup_seconds = object.value("setup_seconds", 0.0);
    s.peak_bytes = object.value("peak_bytes", int64_t{0});
    s.loss_scale = {.scale = object.value("loss_scale", 1.0),
                    .good_steps = object.value("good_steps", int64_t{0}),
                    .overflows = object.value("overflows", int64_t{0})};
    s.losses = object.at("loss_history").get<std::vector<double>>();
    s.norms = object.at("norm_history").get<std::vector<double>>();
  } catch (const json::exception& error) {
    fail("{}: not the state of a training run: {}", path, error.what());
  }
  if (s.step < 0 || s.updates < 0 || s.updates > s.step)
    fail("{}: step {} and updates {} cannot be", path, s.step, s.updates);
  if (!(s.loss_scale.scale > 0)) fail("{}: a loss scale of {} cannot be", path, s.loss_scale.scale);
  return s;
}

void copy_tensor(const SafetensorsFile& file, const std::string& name, const TensorView& to) {
  const TensorInfo* tensor = file.find(name);
  if (tensor == nullptr || tensor->dtype != to.dtype ||
      tensor->shape != Shape(to.dims().begin(), to.dims().end())) {
    fail("{}: expected a tensor \"{}\" of shape {}{}", file.path(), name, shape_string(to.dims()),
         tensor == nullptr ? ", found none" : ", found " + shape_string(tensor->shape));
  }
  std::memcpy(HostAccess(to)->data, tensor->bytes.data(), tensor->bytes.size());
}

void require_space_beside(const std::string& folder, uint64_t bytes) {
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  require_space(parent.empty() ? "." : parent, bytes, folder);
}

}  // namespace

uint64_t model_folder_bytes(const Model& model) {
  constexpr uint64_t kSmallFiles = uint64_t{1} << 16;
  return sizeof(float) * static_cast<uint64_t>(model.table.total()) + kSmallFiles;
}

uint64_t checkpoint_bytes(const Model& model, const OptimizerState& optimizer) {
  uint64_t bytes = model_folder_bytes(model);
  for (const OptimizerState::Named& part : optimizer.named())
    bytes += static_cast<uint64_t>(part.view.size()) * dtype_size(part.view.dtype);
  return bytes;
}

void save_model(const std::string& folder, const Model& model, const ParamBuffer& weights,
                const std::string& tokenizer_json, const std::optional<BestModel>& best) {
  require_space_beside(folder, model_folder_bytes(model) + tokenizer_json.size());
  DirectoryWriter writer(folder);
  write_files(writer.path(), model, weights, tokenizer_json);
  if (best) {
    const json record = {{"step", best->step}, {"val_loss", best->val_loss}};
    write_file_atomic(writer.path() + kBestFile, record.dump() + "\n");
  }
  writer.commit();
}

std::optional<BestModel> read_best(const std::string& folder) {
  recover_directory(folder);
  const std::string path = folder + kBestFile;
  if (!std::filesystem::exists(path)) return std::nullopt;
  try {
    const json record = read_json_file(path);
    return BestModel{record.at("step"), record.at("val_loss")};
  } catch (const json::exception&) {
    fail("{}: expected the step and the val_loss of the best model; delete the file to go on without", path);
  }
}

void save_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const OptimizerState& optimizer, const RunState& state,
                     const std::string& tokenizer_json) {
  require_space_beside(folder, checkpoint_bytes(model, optimizer) + tokenizer_json.size());
  DirectoryWriter writer(folder);
  write_files(writer.path(), model, weights, tokenizer_json);
  std::vector<NamedTensor> tensors;
  for (const OptimizerState::Named& part : optimizer.named())
    tensors.push_back(named_tensor(part.name, part.view));
  write_safetensors(writer.path() + "/train_state.safetensors", tensors);
  write_file_atomic(writer.path() + "/train_state.json", state_json(state).dump(1) + "\n");
  writer.commit();
}

RunState read_run_state(const std::string& folder) {
  const std::string path = folder + "/train_state.json";
  return state_from_json(read_json_file(path), path);
}

void load_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const OptimizerState& optimizer) {
  const LoadedModel loaded(folder);
  if (!(export_config(loaded.model().config) == export_config(model.config))) {
    fail("cannot resume: the model in {} does not have the configuration of the run", folder);
  }
  loaded.copy_to(weights);
  if (model.table.count() > model.table.model_count()) {
    const SafetensorsFile own(folder + kObjectiveFile);
    for (int id = model.table.model_count(); id < model.table.count(); ++id)
      copy_tensor(own, model.table[id].name, weights[id]);
  }
  const SafetensorsFile file(folder + "/train_state.safetensors");
  for (const OptimizerState::Named& part : optimizer.named())
    copy_tensor(file, part.name, part.view);
}

}  // namespace gpt
