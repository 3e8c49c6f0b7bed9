#include "verify/compute.h"

#include <algorithm>
#include <cstring>

#include "model/inference.h"
#include "tensor/device.h"
#include "tensor/element.h"
#include "train/train_step.h"

namespace gpt {
namespace {

// The optimizer settings of all golden files.
constexpr OptimizerSettings kAdamW = {.beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .weight_decay = 0.1};
constexpr double kLearningRate = 1e-3;
constexpr double kClip = 1.0;
constexpr int kSteps = 4;

Computed to_computed(const TensorView& values, Shape shape) {
  const MappedView access(values, Access::read);
  const TensorView& view = *access;
  Computed out{std::move(shape), {}, false};
  out.values.reserve(static_cast<size_t>(view.size()));
  for (int64_t r = 0; r < view.rows(); ++r) {
    for (int64_t c = 0; c < view.cols(); ++c)
      out.values.push_back(element(view, r, c));
  }
  return out;
}

Computed scalars(const std::vector<double>& values) {
  return {{static_cast<int64_t>(values.size())}, values, false};
}

// Adds parameters to the result, with the tensor names and the layout of the model's own files.
void add_params(ComputedSet& out, const std::string& prefix, const LoadedModel& loaded,
                std::span<const TensorView> values) {
  const Model& model = loaded.model();
  for (int id = 0; id < model.table.count(); ++id) {
    const ParamSpec& spec = model.table[id];
    const FilePlace place = file_place(loaded.naming(), model.config, spec);
    Computed& tensor = out[prefix + place.tensor];
    tensor.shape = place.file_shape;
    tensor.values.resize(static_cast<size_t>(checked_size(place.file_shape, place.tensor)));
    const MappedView access(values[static_cast<size_t>(id)], Access::read);
    const TensorView& v = *access;
    const bool matrix = spec.shape.size() == 2;
    const int64_t rows = spec.shape[0], cols = matrix ? spec.shape[1] : 1;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t c = 0; c < cols; ++c) {
        const int64_t row = place.first_row + r;
        const int64_t index = place.transposed ? c * place.file_shape[1] + row : row * cols + c;
        tensor.values[static_cast<size_t>(index)] = matrix ? element(v, r, c) : element(v, 0, r);
      }
    }
  }
}

// Keeps the attention weights of every layer, each [B,H,T,T].
class AttentionWeights : public Observer {
 public:
  AttentionWeights(const ModelConfig& c, int64_t batch, int64_t n_tokens, DType dtype, Device* device)
      : size_(batch * c.n_head * n_tokens * n_tokens * static_cast<int64_t>(dtype_size(dtype))),
        memory_(static_cast<size_t>(c.n_layer * size_), "attention weights", device),
        first_(memory_.view(0, dtype, Shape{batch, c.n_head, n_tokens, n_tokens})) {}

  void on_tensor(int64_t, std::string_view, const TensorView&) override {}
  TensorView attention_weights(int64_t layer) override {
    TensorView view = first_;
    view.data = memory_.data() + layer * size_;
    return view;
  }

 private:
  int64_t size_;
  Buffer memory_;
  TensorView first_;
};

class Run {
 public:
  Run(const std::string& path, const GoldenInputs& inputs, DType dtype, Isa isa, int threads,
      MakeBackend make)
      : pool_(threads),
        backend_(make(pool_, dtype == DType::f64 ? Isa::ref : isa)),
        loaded_(path, dtype == DType::f64 ? DType::f64 : DType::f32, MatrixOrder::rows, {},
                backend_.device.get()),
        inputs_(inputs),
        compute_(dtype),
        dtype_(dtype == DType::f64 ? DType::f64 : DType::f32) {}

  ComputedSet all(bool& incremental_equal) {
    check_inputs();
    forward(incremental_equal);
    greedy();
    if (!inputs_.targets.empty()) train();
    return std::move(out_);
  }

 private:
  const ModelConfig& config() const { return loaded_.model().config; }

  void check_inputs() const {
    if (inputs_.n_tokens > config().n_ctx) {
      fail("golden input_ids: expected at most n_ctx = {} tokens, found {}", config().n_ctx,
           inputs_.n_tokens);
    }
    for (const std::vector<int32_t>* list : {&inputs_.ids, &inputs_.targets}) {
      for (int32_t id : *list) {
        if (id >= config().vocab_size || (id < 0 && list == &inputs_.ids)) {
          fail("golden input_ids or targets: id {} is out of range for a vocabulary of {}", id,
               config().vocab_size);
        }
      }
    }
  }

  void forward(bool& incremental_equal) {
    const int64_t T = inputs_.n_tokens, B = inputs_.batch, V = config().vocab_size;
    Inference inference(loaded_.model(), backend_,
                        {.slots = 2, .max_rows = B * T, .dtype = dtype_, .weights = compute_});
    Buffer full(static_cast<size_t>(B * T * V) * dtype_size(dtype_), "logits");
    Buffer last(static_cast<size_t>(B * V) * dtype_size(dtype_), "logits");
    const TensorView logits = make_view(full.data(), dtype_, {B * T, V});
    const TensorView incremental = make_view(last.data(), dtype_, {B, V});
    AttentionWeights attention(config(), B, T, dtype_, backend_.device.get());
    inference.observe(inputs_.ids, B, attention, logits);
    for (int64_t layer = 0; layer < config().n_layer; ++layer) {
      out_["attention." + std::to_string(layer)] =
          to_computed(attention.attention_weights(layer), {B, config().n_head, T, T});
    }
    incremental_equal = true;
    for (int64_t b = 0; b < B; ++b) {
      const auto ids = std::span(inputs_.ids).subspan(static_cast<size_t>(b * T), static_cast<size_t>(T));
      inference.reset(0);
      inference.append_all(0, ids, logits.slice_rows(b * T, T));
      feed_in_chunks(inference, ids, incremental.slice_rows(b, 1));
      incremental_equal &=
          std::memcmp(incremental.slice_rows(b, 1).data, logits.slice_rows(b * T + T - 1, 1).data,
                      static_cast<size_t>(V) * dtype_size(dtype_)) == 0;
    }
    out_["logits"] = to_computed(logits, {B, T, V});
    out_["incremental_logits"] = to_computed(incremental, {B, V});
  }

  void feed_in_chunks(Inference& inference, std::span<const int32_t> ids, const TensorView& logits) {
    const size_t chunks[] = {1, 7, 2, std::max<size_t>(1, ids.size() / 3)};
    inference.reset(1);
    for (size_t at = 0, i = 0; at < ids.size(); ++i) {
      const size_t n = std::min(ids.size() - at, i < std::size(chunks) ? chunks[i] : 1);
      const Inference::Append part{1, ids.subspan(at, n)};
      inference.append({&part, 1}, logits);
      at += n;
    }
  }

  void greedy() {
    const int64_t V = config().vocab_size;
    Inference inference(
        loaded_.model(), backend_,
        {.slots = 1, .max_rows = std::max<int64_t>(1, inputs_.prompt), .dtype = dtype_, .weights = compute_});
    Buffer memory(static_cast<size_t>(V) * dtype_size(dtype_), "logits");
    const TensorView logits = make_view(memory.data(), dtype_, {1, V});
    std::vector<int32_t> next(inputs_.ids.begin(), inputs_.ids.begin() + inputs_.prompt);
    Computed& out = out_["greedy"];
    out.integer = true;
    while (static_cast<int64_t>(out.values.size()) < inputs_.greedy &&
           inference.length(0) + static_cast<int64_t>(next.size()) <= config().n_ctx) {
      const Inference::Append part{0, next};
      inference.append({&part, 1}, logits);
      int32_t best = 0;
      for (int32_t v = 1; v < V; ++v) {
        if (element(logits, 0, v) > element(logits, 0, best)) best = v;
      }
      out.values.push_back(best);
      next.assign(1, best);
    }
    out.shape = {static_cast<int64_t>(out.values.size())};
  }

  void train() {
    const Model& model = loaded_.model();
    ParamBuffer weights(model.table, dtype_, "weights", backend_.device.get());
    loaded_.copy_to(weights);
    ModelConfig config = model.config;
    config.dropout = config.embd_dropout = config.attn_dropout = config.resid_dropout = 0;
    Model trained(config);
    trained.weights.assign(weights.views().begin(), weights.views().end());
    TrainStep step(trained, weights, make_adamw(trained.table, kAdamW), backend_,
                   {.batch_size = inputs_.batch,
                    .micro_batch = inputs_.batch,
                    .n_ctx = inputs_.n_tokens,
                    .graph = {.dtype = compute_},
                    .clip_norm = kClip});
    const auto fill = [&](int64_t, int64_t, const TrainStep::Samples& samples) {
      std::copy(inputs_.ids.begin(), inputs_.ids.end(), samples.ids);
      std::copy(inputs_.targets.begin(), inputs_.targets.end(), samples.targets);
    };
    StepInputs start{.lr = kLearningRate};
    std::vector<double> losses, norms;
    for (; start.step < kSteps; ++start.step) {
      step.compute_gradients(start, fill);
      losses.push_back(step.state().loss);
      norms.push_back(step.state().norm);
      if (start.step == 0) {
        out_["loss"] = scalars({losses[0]});
        add_params(out_, "grad.", loaded_, step.grads().views());
      }
      step.update();
    }
    out_["adamw.loss"] = scalars(losses);
    out_["adamw.grad_norm"] = scalars(norms);
    add_params(out_, "adamw.param.", loaded_, weights.views());
  }

  ThreadPool pool_;
  Backend backend_;
  LoadedModel loaded_;
  const GoldenInputs& inputs_;
  DType compute_;  // dtype of matmuls, and of activations in training
  DType dtype_;    // dtype of all other values: fp32 or fp64
  ComputedSet out_;
};

}  // namespace

ComputedSet compute_golden(const std::string& model_path, const GoldenInputs& inputs, DType dtype, Isa isa,
                           int threads, bool& incremental_equal, MakeBackend make_backend) {
  return Run(model_path, inputs, dtype, isa, threads, make_backend).all(incremental_equal);
}

}  // namespace gpt
