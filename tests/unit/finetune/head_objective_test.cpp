// Tests the losses of task heads. Compares their gradients with finite differences in double and with
// PyTorch. Any split into micro-batches must give the same gradients.

#include "finetune/head_objective.h"

#include <gtest/gtest.h>

#include <cstring>

#include "grad/finite_difference.h"
#include "io/safetensors.h"
#include "model/model_files.h"
#include "model/training_graph.h"
#include "support/backend.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

using Answer = HeadShape::Answer;
constexpr int64_t kTokens = 12;
constexpr double kAux = 0.5;

// Rows in the format that HeadTask writes.
struct Rows {
  std::vector<int32_t> ids, targets;
  std::vector<float> weights, labels;

  void add(const std::vector<int32_t>& row, double weight, float label, bool auxiliary, int64_t group) {
    const int64_t n = std::ssize(row);
    for (int64_t t = 0; t < kTokens; ++t) {
      const bool counts = auxiliary && t + 1 < n;
      ids.push_back(t < n ? row[static_cast<size_t>(t)] : 0);
      targets.push_back(counts ? row[static_cast<size_t>(t + 1)] : -1);
      const double aux = kAux * weight / static_cast<double>((n - 1) * group);
      weights.push_back(static_cast<float>(t + 1 == n ? weight : aux));
    }
    labels.push_back(label);
  }
  int64_t samples() const { return std::ssize(labels); }
  TrainBatch batch(int64_t first) const {
    return {.ids = ids.data() + first * kTokens,
            .targets = targets.data() + first * kTokens,
            .weights = weights.data() + first * kTokens,
            .labels = labels.data() + first,
            .first_sample = first};
  }
};

Rows random_rows(const HeadShape& shape, int64_t samples, int64_t vocab) {
  RandomStream random(3, RandomSite::test);
  Rows rows;
  for (int64_t b = 0; b < samples; ++b) {
    const auto length = static_cast<size_t>(3 + random.below(kTokens - 2));
    std::vector<int32_t> row = random_ids(static_cast<int64_t>(length), vocab - 1, static_cast<uint64_t>(b));
    row.back() = shape.extract;
    const int64_t classes = shape.answer == Answer::choice ? shape.samples : shape.outputs;
    const int64_t example = b / shape.samples;
    const float label = shape.answer == Answer::number ? 0.3f * static_cast<float>(example)
                                                       : static_cast<float>(example % classes);
    rows.add(row, 0.5 + static_cast<double>(example % 3), label, shape.auxiliary, shape.samples);
  }
  return rows;
}

// A model with a head, and the gradients that a graph computes for all rows in micro-batches.
class Trainee {
 public:
  Trainee(const ModelConfig& config, const HeadShape& shape, DType dtype, Isa isa)
      : objective(shape),
        model(config, objective.parameters(config)),
        weights(model.table, dtype, "test weights", device()),
        grads(model.table, dtype, "test gradients", device()),
        dtype_(dtype),
        isa_(isa) {
    model.weights.assign(weights.views().begin(), weights.views().end());
  }

  void randomise() {
    for (int id = 0; id < model.table.count(); ++id) {
      RandomStream random(1, RandomSite::test, 0, static_cast<uint64_t>(id));
      const double gain = model.table[id].init.kind == InitRule::Kind::ones ? 1 : 0;
      for (int64_t r = 0; r < weights[id].rows(); ++r) {
        for (int64_t c = 0; c < weights[id].cols(); ++c)
          set(weights[id], r, c, static_cast<float>(gain + 0.3 * random.normal()));
      }
    }
  }
  double run(const Rows& rows, int64_t micro_batch) {
    TrainingGraph graph(model, micro_batch, kTokens, {.dtype = dtype_, .objective = &objective}, backend());
    double weight = 0;
    for (int64_t at = 0; at < rows.samples(); at += micro_batch)
      weight += objective.weight(rows.batch(at), micro_batch * kTokens);
    StepState step{.step = 5, .seed = 7, .loss_weight = 1 / weight};
    DeviceArray<StepState> state(device());
    const DeviceSpan<StepState> shared = state.share({&step, 1});
    for (int64_t at = 0; at < rows.samples(); at += micro_batch)
      graph.forward_backward(rows.batch(at), grads, at > 0, shared);
    state.download({&step, 1});
    return step.loss / weight;
  }
  std::vector<Variable> variables() const {
    std::vector<Variable> all;
    for (int id = 0; id < model.table.count(); ++id)
      all.push_back({model.table[id].name, weights[id], copy_values(grads[id])});
    return all;
  }

  HeadObjective objective;
  Model model;
  ParamBuffer weights, grads;

 private:
  Backend backend() { return test::backend(pool_, isa_); }

  DType dtype_;
  Isa isa_;
  ThreadPool pool_{1};
};

struct Shape {
  const char* name;
  const char* config;
  HeadShape head;
};
void PrintTo(const Shape& s, std::ostream* out) {
  *out << s.name;
}
const Shape kShapes[] = {
    {"classify", "gpt2", {.answer = Answer::label, .outputs = 3}},
    {"classify_post_norm", "openai-gpt", {.answer = Answer::label, .outputs = 2}},
    {"classify_alone", "llama", {.answer = Answer::label, .outputs = 3, .auxiliary = false}},
    {"similar", "gpt2", {.answer = Answer::label, .outputs = 3, .samples = 2}},
    {"number", "nanochat", {.answer = Answer::number, .samples = 2}},
    {"choose", "gpt2", {.answer = Answer::choice, .samples = 3}},
    {"choose_alone", "gpt2", {.answer = Answer::choice, .samples = 3, .dropout = 0, .auxiliary = false}},
};

class HeadGradient : public testing::TestWithParam<Shape> {
 protected:
  static ModelConfig config() {
    ModelConfig c = make_config({"head", GetParam().config, R"({"dropout": 0.1})"});
    c.n_ctx = kTokens;
    return c;
  }
  static HeadShape shape() {
    HeadShape s = GetParam().head;
    s.extract = static_cast<int32_t>(config().vocab_size - 1);
    return s;
  }
};

TEST_P(HeadGradient, AgreesWithFiniteDifferences) {
  if (is_shadow()) GTEST_SKIP() << "differences reach into the weights";
  Trainee t(config(), shape(), DType::f64, Isa::ref);
  t.randomise();
  const Rows rows = random_rows(shape(), 6, config().vocab_size);
  t.run(rows, 6);
  const std::vector<Variable> variables = t.variables();
  Trainee probe(config(), shape(), DType::f64, Isa::ref);
  probe.model.weights = t.model.weights;
  GradientCheck([&] { return probe.run(rows, 6); }, 1).run(variables, 12);
}

// Rows have different lengths and weights, so parts of a batch contribute differently.
TEST_P(HeadGradient, IsTheSameForAnyMicroBatches) {
  Trainee whole(config(), shape(), DType::f64, Isa::ref);
  whole.randomise();
  const Rows rows = random_rows(shape(), 12, config().vocab_size);
  const double loss = whole.run(rows, 12);
  for (const int64_t micro_batch : {6, 3, 2, 1}) {
    if (micro_batch % shape().samples != 0) continue;
    Trainee parts(config(), shape(), DType::f64, Isa::ref);
    parts.randomise();
    EXPECT_NEAR(parts.run(rows, micro_batch), loss, 1e-12) << micro_batch;
    for (int id = 0; id < whole.model.table.count(); ++id) {
      const std::vector<double> a = copy_values(*MappedView(whole.grads[id], Access::read));
      const std::vector<double> b = copy_values(*MappedView(parts.grads[id], Access::read));
      for (size_t i = 0; i < a.size(); ++i)
        ASSERT_NEAR(a[i], b[i], 1e-11) << whole.model.table[id].name << ", micro-batches of " << micro_batch;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, HeadGradient, testing::ValuesIn(kShapes),
                         [](const auto& param) { return std::string(param.param.name); });

// Compares with PyTorch in float64 (scripts/golden/make_heads.py).
class HeadGolden : public testing::TestWithParam<Shape> {
 protected:
  static constexpr const char* kFolder = GPT_SOURCE_DIR "/tests/golden/heads";

  template <class T>
  std::vector<T> golden(const std::string& key) const {
    const TensorInfo* tensor = file_.find(std::string(GetParam().name) + "." + key);
    if (tensor == nullptr) throw std::logic_error("no golden " + key);
    std::vector<T> numbers(tensor->bytes.size() / sizeof(T));
    std::memcpy(numbers.data(), tensor->bytes.data(), tensor->bytes.size());
    return numbers;
  }
  Rows rows(int64_t group) const {
    const auto ids = golden<int32_t>("ids"), lengths = golden<int32_t>("lengths");
    const auto labels = golden<float>("labels"), weights = golden<float>("weights");
    Rows rows;
    for (size_t b = 0; b < lengths.size(); ++b) {
      const auto begin = ids.begin() + static_cast<int64_t>(b) * kTokens;
      const size_t example = b / static_cast<size_t>(group);
      rows.add({begin, begin + lengths[b]}, weights[example], labels[example], true, group);
    }
    return rows;
  }
  void expect_agrees(DType dtype, Isa isa, double tolerance);

  SafetensorsFile file_{std::string(kFolder) + "/golden.safetensors"};
};

// Returns the largest difference relative to the largest value.
double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double error = 0, top = 1e-30;
  for (size_t i = 0; i < got.size(); ++i) {
    error = std::max(error, std::abs(got[i] - want[i]));
    top = std::max(top, std::abs(want[i]));
  }
  return error / top;
}

void HeadGolden::expect_agrees(DType dtype, Isa isa, double tolerance) {
  const LoadedModel loaded(kFolder);
  HeadShape shape = GetParam().head;
  shape.extract = static_cast<int32_t>(loaded.model().config.vocab_size - 1);
  shape.dropout = 0;
  Trainee t(loaded.model().config, shape, dtype, isa);
  loaded.copy_to(t.weights);
  ASSERT_EQ(loaded.ignored().size(), 1u) << "score.weight is the head of a task";
  const TensorInfo& score = *loaded.ignored()[0].tensor;
  const int head = t.model.table.model_count();
  for (int64_t i = 0; i < t.weights[head].size(); ++i) {
    float x;
    std::memcpy(&x, score.bytes.data() + static_cast<size_t>(i) * sizeof x, sizeof x);
    set(t.weights[head], i / t.weights[head].cols(), i % t.weights[head].cols(), x);
  }
  const Rows all = rows(shape.samples);
  EXPECT_NEAR(t.run(all, all.samples()), golden<double>("loss")[0], tolerance);
  for (const NamedTensor& tensor :
       named_weights(t.model, t.grads.views(), *export_family(t.model.config).namings[0], DType::f64)) {
    std::vector<double> got;
    tensor.write([&](std::span<const std::byte> bytes) {
      const size_t at = got.size();
      got.resize(at + bytes.size() / sizeof(double));
      std::memcpy(got.data() + at, bytes.data(), bytes.size());
    });
    EXPECT_LE(distance(got, golden<double>("grad." + tensor.name)), tolerance) << tensor.name;
  }
  std::vector<double> dhead = golden<double>("grad.score.weight"), got;
  for (int64_t i = 0; i < t.grads[head].size(); ++i)
    got.push_back(get(t.grads[head], i / t.grads[head].cols(), i % t.grads[head].cols()));
  EXPECT_LE(distance(got, dhead), tolerance) << "the head";
}

TEST_P(HeadGolden, AgreesWithPyTorch) {
  expect_agrees(DType::f64, Isa::ref, 1e-6);
  for (const Isa isa : available_isas())
    expect_agrees(DType::f32, isa, 1e-3);
}

const Shape kGolden[] = {
    {"classify", "", {.answer = Answer::label, .outputs = 3}},
    {"weighted", "", {.answer = Answer::label, .outputs = 3}},
    {"similar", "", {.answer = Answer::label, .outputs = 3, .samples = 2}},
    {"number", "", {.answer = Answer::number, .samples = 2}},
    {"choose", "", {.answer = Answer::choice, .samples = 3}},
};
INSTANTIATE_TEST_SUITE_P(All, HeadGolden, testing::ValuesIn(kGolden),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace gpt::test
