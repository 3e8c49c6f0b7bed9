#include "model/objective.h"

#include "model/head_loss.h"

namespace gpt {
namespace {

class LanguageModelling : public Objective {
 public:
  void plan(Planner& planner, const ModelConfig& c, std::deque<TensorView>& memory) const override {
    HeadLoss::plan(planner, c, memory);
  }

  double weight(const TrainBatch& batch, int64_t rows) const override {
    double sum = 0;
    for (int64_t n = 0; n < rows; ++n) {
      if (batch.targets[n] >= 0) sum += batch.weights != nullptr ? double{batch.weights[n]} : 1;
    }
    return sum;
  }

  void run(const ObjectiveCall& call) const override {
    HeadLoss::run(call, call.memory[0], call.targets.weights, call.backward != nullptr);
  }
};

}  // namespace

const Objective& language_modelling() {
  static const LanguageModelling objective;
  return objective;
}

}  // namespace gpt
