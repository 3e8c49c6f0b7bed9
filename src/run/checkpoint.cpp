#include "run/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/format.h"
#include "base/json.h"
#include "base/printable.h"
#include "base/ranges.h"
#include "io/checkpoint_dir.h"
#include "io/safetensors.h"
#include "io/safetensors_writer.h"
#include "model/model_files.h"
#include "tensor/device.h"
#include "train/sharded_weights.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kObjectiveFile = "/objective.safetensors";  // parameters that belong to the objective

// Returns true if a run trains any parameter of the model itself, not only parameters of the objective.
bool trains_model(const Model& model) {
  const std::vector<ParamSpec>& specs = model.table.specs();
  return std::any_of(specs.begin(), specs.begin() + model.table.model_count(),
                     [](const ParamSpec& spec) { return spec.trainable; });
}

void write_files(const std::string& folder, const Model& model, const BesideModel& beside) {
  if (trains_model(model)) write_model(folder, model, model.weights);
  std::vector<NamedTensor> own;
  for (int id = model.table.model_count(); id < model.table.count(); ++id)
    own.push_back(named_tensor(model.table[id].name, model.weights[static_cast<size_t>(id)]));
  if (!own.empty()) {
    if (model.source != nullptr) model.source->begin(model.config.n_layer, model.config.n_layer);
    write_safetensors(folder + kObjectiveFile, own);
  }
  if (!beside.tokenizer_json.empty()) write_file_atomic(folder + "/tokenizer.json", beside.tokenizer_json);
  if (beside.write) beside.write(folder);
}

constexpr const char* kBestFile = "/train_best.json";
constexpr const char* kStateFile = "/train_state.safetensors";
constexpr std::array pending_names = {"nothing", "evaluation", "sample"};

Pending pending_of(const std::string& name, const std::string& path) {
  const auto found = std::find(pending_names.begin(), pending_names.end(), name);
  if (found == pending_names.end()) fail("{}: \"pending\": unknown value {}", path, printable(name));
  return static_cast<Pending>(found - pending_names.begin());
}

// Visits the keys of train_state.json except "config" and "pending". The third argument of `visit` is true
// for keys that all earlier versions of the program have written.
template <class State, class Visit>
void visit_state(State& s, Visit&& visit) {
  constexpr bool always = true;
  visit("step", s.step, always);
  visit("updates", s.history.updates, always);
  visit("tokens", s.tokens, always);
  visit("skipped", s.skipped, always);
  visit("data_tokens", s.data.tokens, always);
  visit("data_hash", s.data.train, !always);
  visit("val_data_hash", s.data.val, !always);
  visit("tokenizer_hash", s.data.tokenizer, !always);
  visit("data_sizes_hash", s.data.sizes, !always);
  visit("data_ids_hash", s.data.ids, !always);
  visit("base_hash", s.data.base, !always);
  visit("data_folder", s.data_folder, !always);
  visit("best_val_loss", s.best_val_loss, always);
  visit("best_step", s.best_step, always);
  visit("best_tie_loss", s.best_tie_loss, !always);
  visit("stale_evaluations", s.stale_evaluations, !always);
  visit("train_seconds", s.train_seconds, always);
  visit("eval_seconds", s.eval_seconds, !always);
  visit("sample_seconds", s.sample_seconds, !always);
  visit("save_seconds", s.save_seconds, !always);
  visit("setup_seconds", s.setup_seconds, !always);
  visit("peak_bytes", s.peak_bytes, !always);
  visit("loss_scale", s.history.loss_scale.scale, !always);
  visit("good_steps", s.history.loss_scale.good_steps, !always);
  visit("overflows", s.history.loss_scale.overflows, !always);
  visit("loss_history", s.history.losses, always);
  visit("norm_history", s.history.norms, always);
}

json state_json(const RunState& s) {
  json out = {{"config", json::parse(s.config)},
              {"pending", pending_names.at(static_cast<size_t>(s.pending))}};
  if (s.tuning != "{}") out["finetune"] = json::parse(s.tuning);
  visit_state(s, [&](const char* key, const auto& field, bool) { out[key] = field; });
  return out;
}

RunState state_from_json(const json& object, const std::string& path) {
  RunState s;
  try {
    visit_state(s, [&](const char* key, auto& field, bool always) {
      if (always || object.contains(key)) object.at(key).get_to(field);
    });
    s.config = object.value("config", json::object()).dump();
    s.tuning = object.value("finetune", json::object()).dump();
    s.pending = pending_of(object.value("pending", "nothing"), path);
  } catch (const json::exception& error) {
    fail("{}: not the state of a training run: {}", path, error.what());
  }
  const StepHistory& h = s.history;
  if (s.step < 0 || h.updates < 0 || h.updates > s.step)
    fail("{}: step {} and updates {} are inconsistent", path, s.step, h.updates);
  if (!(h.loss_scale.scale > 0))
    fail("{}: expected a positive loss scale, found {}", path, h.loss_scale.scale);
  return s;
}

void copy_tensor(const SafetensorsFile& file, const OptimizerState::Part& to) {
  const TensorInfo* tensor = file.find(to.name);
  if (tensor == nullptr || tensor->dtype != to.view.dtype || tensor->shape != to.shape) {
    fail("{}: expected a tensor \"{}\" of shape {}{}", file.path(), to.name, shape_string(to.shape),
         tensor == nullptr ? ", found none" : ", found " + shape_string(tensor->shape));
  }
  const size_t size = dtype_size(to.view.dtype);
  std::memcpy(MappedView(to.view, Access::write)->data,
              tensor->bytes.data() + static_cast<size_t>(to.begin) * size,
              static_cast<size_t>(to.view.size()) * size);
}

// Writes the optimizer state of all ranks to one file. Rank 0 creates the file with its full size, and each
// rank writes the part that it stores.
void write_together(const std::string& path, const OptimizerState& optimizer, Communicator& processes) {
  if (processes.rank() == 0)
    create_safetensors(path, transformed(optimizer.tensors(), [](const OptimizerState::Tensor& tensor) {
                         return NamedTensor{tensor.name, DType::f32, tensor.shape, {}};
                       }));
  barrier(processes, "creating the checkpoint file on rank 0");
  std::vector<TensorPart> parts;
  for (const OptimizerState::Part& part : optimizer.parts())
    parts.push_back({part.name, part.begin, part.view});
  fill_safetensors(path, parts);
  barrier(processes, "writing a checkpoint");
}

void require_space_beside(const std::string& folder, uint64_t bytes) {
  const std::string parent = std::filesystem::path(folder).parent_path().string();
  require_space(parent.empty() ? "." : parent, bytes, folder);
}

}  // namespace

uint64_t model_folder_bytes(const Model& model) {
  constexpr uint64_t kSmallFiles = uint64_t{1} << 16;
  int64_t elements = 0;
  for (int id = trains_model(model) ? 0 : model.table.model_count(); id < model.table.count(); ++id)
    elements += model.table[id].size();
  return sizeof(float) * static_cast<uint64_t>(elements) + kSmallFiles;
}

uint64_t checkpoint_bytes(const Model& model, const OptimizerState& optimizer) {
  return model_folder_bytes(model) + sum_of(optimizer.tensors(), [](const OptimizerState::Tensor& tensor) {
           return sizeof(float) * static_cast<uint64_t>(checked_size(tensor.shape, tensor.name));
         });
}

void save_model(const std::string& folder, const Model& model, const BesideModel& beside,
                const std::optional<BestModel>& best) {
  require_space_beside(folder, model_folder_bytes(model) + beside.tokenizer_json.size());
  DirectoryWriter writer(folder);
  write_files(writer.path(), model, beside);
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
    fail("{}: expected the step and the val_loss of the best model; delete the file to continue without them",
         path);
  }
}

namespace {

// Returns the step recorded in a model folder of a run. Returns nothing if the file does not exist or does
// not contain a step.
std::optional<int64_t> step_of(const std::string& folder, const char* file) {
  try {
    const json record = read_json_file(folder + file);
    return record.at("step").get<int64_t>();
  } catch (const std::exception&) {  // an unreadable record does not prevent loading the model
    return std::nullopt;
  }
}

}  // namespace

std::string run_model_note(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const std::string best = (fs::path(path) / "best").string(), last = (fs::path(path) / "last").string();
  if (!fs::is_directory(last, ignored)) return "";
  const auto best_step = step_of(best, kBestFile), last_step = step_of(last, "/train_state.json");
  if (fs::is_directory(best, ignored)) {
    if (!best_step || !last_step) return "";
    return fmt::format("{}: using {} of step {}; {} is from step {}", path, best,
                       format_thousands(*best_step), last, format_thousands(*last_step));
  }
  return last_step ? fmt::format("{}: using {} of step {}", path, last, format_thousands(*last_step)) : "";
}

void save_checkpoint(const std::string& folder, const Model& model, const OptimizerState& optimizer,
                     const RunState& state, const BesideModel& beside, Communicator& processes,
                     ShardedWeights* sharded) {
  const bool is_first = processes.rank() == 0;
  if (!is_first && optimizer.is_whole()) return;
  std::optional<DirectoryWriter> writer;
  {
    const LedWeights led(sharded);
    if (is_first) {
      require_space_beside(folder, checkpoint_bytes(model, optimizer) + beside.tokenizer_json.size());
      writer.emplace(folder);
      write_files(writer->path(), model, beside);
    }
  }
  const std::string temporary = is_first ? writer->path() : "";
  if (optimizer.is_whole()) {
    write_safetensors(temporary + kStateFile,
                      transformed(optimizer.parts(), [](const OptimizerState::Part& part) {
                        return named_tensor(part.name, part.view);
                      }));
  } else {
    write_together(gather(processes, temporary, "saving a checkpoint")[0] + kStateFile, optimizer, processes);
  }
  if (!is_first) return;
  write_file_atomic(writer->path() + "/train_state.json", state_json(state).dump(1) + "\n");
  writer->commit();
}

RunState read_run_state(const std::string& folder) {
  const std::string path = folder + "/train_state.json";
  return state_from_json(read_json_file(path), path);
}

void load_checkpoint(const std::string& folder, const Model& model, const ParamBuffer& weights,
                     const OptimizerState& optimizer, const std::function<void(int id)>& filled) {
  if (trains_model(model)) {
    const LoadedModel loaded(folder, std::nullopt, MatrixOrder::as_stored);
    if (!(export_config(loaded.model().config) == export_config(model.config)))
      fail("cannot resume: the model in {} does not have the configuration of the run", folder);
    loaded.copy_to(weights, filled);
  }
  if (model.table.count() > model.table.model_count()) {
    const SafetensorsFile own(folder + kObjectiveFile);
    for (int id = model.table.model_count(); id < model.table.count(); ++id) {
      copy_tensor(own, {model.table[id].name, model.table[id].shape, 0, weights[id]});
      if (filled) filled(id);
    }
  }
  const SafetensorsFile file(folder + kStateFile);
  for (const OptimizerState::Part& part : optimizer.parts())
    copy_tensor(file, part);
}

}  // namespace gpt
