// Tests training of an adapter on a frozen base model of any dtype.

#include <gtest/gtest.h>

#include <deque>

#include "kernels/quant.h"
#include "model/model_files.h"
#include "support/adapted_model.h"
#include "support/backend.h"
#include "support/temp_dir.h"
#include "train/train_step.h"

namespace gpt::test {
namespace {

TEST(AdapterTraining, LearnsOnAFrozenBase) {
  constexpr int64_t kBatch = 4, kTokens = 8;
  const ModelConfig c = make_config({"adapted", "llama", R"({"n_embd": 32, "d_ff": 96})"});
  for (const DType stored : {DType::f32, DType::bf16, DType::q8_0}) {
    RandomModel base(c, DType::f32);
    std::deque<Buffer> memory_of_base;
    for (int id = 0; id < base.model.table.count(); ++id) {
      if (base.model.table[id].shape.size() != 2 || stored == DType::f32) continue;
      const TensorView from = base.weights[id];
      Buffer& memory_of = memory_of_base.emplace_back(
          static_cast<size_t>(from.rows() * row_bytes(stored, from.cols())), "a frozen matrix", device());
      const TensorView to = memory_of.view(0, stored, from.dims());
      base.model.weights[static_cast<size_t>(id)] = to;
      const MappedView source(from, Access::read),
          bytes(memory_of.view(0, DType::i8, Shape{static_cast<int64_t>(memory_of.size())}), Access::write);
      for (int64_t r = 0; r < from.rows(); ++r) {
        for (int64_t i = 0; stored == DType::bf16 && i < from.cols(); ++i)
          bytes->as<bf16>()[r * from.cols() + i] = to_bf16(source->row<float>(r)[i]);
        if (stored == DType::q8_0)
          quantize_row(stored, source->row<float>(r), from.cols(),
                       bytes->as<int8_t>() + r * row_bytes(stored, from.cols()));
      }
    }
    RandomAdaptedModel a(base.model, DType::f32, 3);
    ThreadPool pool(2);
    TrainStep step(
        a.model, a.weights, make_adamw(a.model.table, {}), backend(pool, best_isa()),
        {.batch_size = kBatch, .micro_batch = 2, .n_ctx = kTokens, .graph = {.adapter = &a.adapter}});
    const TrainStep::FillBatch fill = [&](int64_t first, int64_t rows, const TrainStep::Samples& samples) {
      const std::vector<int32_t> all = random_ids(kBatch * kTokens + 1, c.vocab_size, 3);
      std::copy_n(all.begin() + first * kTokens, rows * kTokens, samples.ids);
      std::copy_n(all.begin() + first * kTokens + 1, rows * kTokens, samples.targets);
    };
    StepInputs start{.lr = 1e-2};
    double first = 0;
    int64_t packed = 0;
    for (; start.step < 30; ++start.step) {
      step.compute_gradients(start, fill);
      if (start.step == 0) first = step.state().loss;
      if (start.step == 0) packed = a.model.packed->bytes();
      step.update();
    }
    EXPECT_LT(step.state().loss, 0.9 * first) << dtype_name(stored);
    EXPECT_EQ(a.model.packed->bytes(), packed);
    EXPECT_EQ(step.state().updates, 30);
  }
}

// Trains an adapter for three steps on the base model in a folder. Returns its weights.
std::vector<float> learned(const std::string& folder, MatrixOrder order, DType dtype, Isa isa) {
  constexpr int64_t kBatch = 2, kTokens = 8;
  const LoadedModel base(folder, std::nullopt, order, {}, device());
  RandomAdaptedModel a(base.model(), DType::f32, 3, all_matrices(), /*fused=*/true);
  ThreadPool pool(2);
  TrainStep step(a.model, a.weights, make_adamw(a.model.table, {}), backend(pool, isa),
                 {.batch_size = kBatch,
                  .micro_batch = kBatch,
                  .n_ctx = kTokens,
                  .graph = {.dtype = dtype, .adapter = &a.adapter, .packs_per_use = true}});
  const TrainStep::FillBatch fill = [&](int64_t, int64_t, const TrainStep::Samples& samples) {
    const std::vector<int32_t> all = random_ids(kBatch * kTokens + 1, base.model().config.vocab_size, 3);
    std::copy_n(all.begin(), kBatch * kTokens, samples.ids);
    std::copy_n(all.begin() + 1, kBatch * kTokens, samples.targets);
  };
  StepInputs state{.lr = 1e-2};
  for (; state.step < 3; ++state.step) {
    step.compute_gradients(state, fill);
    step.update();
  }
  std::vector<float> numbers;
  for (const TensorView& view : a.adapter.weights) {
    const MappedView access(view, Access::read);
    numbers.insert(numbers.end(), access->as<float>(), access->as<float>() + view.size());
  }
  return numbers;
}

TEST(AdapterTraining, MatricesInTheOrderOfTheFileGiveTheSameBits) {
  for (const char* family : {"gpt2", "openai-gpt"}) {  // store their matrices as [in,out]
    for (const DType dtype : {DType::f32, DType::bf16}) {
      const RandomModel random(make_config({family, family, R"({"n_embd": 32, "d_ff": 96})"}), DType::f32);
      TempDir dir;
      write_model(dir.path(), random.model, random.model.weights, {.dtype = dtype});
      for (const Isa isa : available_isas()) {
        const std::vector<float> rows = learned(dir.path(), MatrixOrder::rows, dtype, isa);
        const std::vector<float> stored = learned(dir.path(), MatrixOrder::as_stored, dtype, isa);
        // The reference computes queries, keys and values in one matmul if they are stored in one matrix.
        double difference = 0;
        for (size_t i = 0; i < rows.size(); ++i)
          difference = std::max(difference, std::abs(double{stored[i]} - rows[i]));
        EXPECT_LE(difference, isa == Isa::ref ? 1e-4 : 0)
            << family << " " << dtype_name(dtype) << " " << isa_name(isa);
        EXPECT_NE(rows.front(), 0);
      }
    }
  }
}

}  // namespace
}  // namespace gpt::test
