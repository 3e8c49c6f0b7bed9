#pragma once

#include <memory>

#include "model/adapter.h"
#include "support/small_models.h"

namespace gpt::test {

// Every matrix of a block, or q and v alone.
inline std::vector<Role> all_matrices() {
  return {Role::q_weight,    Role::k_weight,  Role::v_weight,   Role::out_weight,
          Role::gate_weight, Role::fc_weight, Role::proj_weight};
}

inline void fill_normal(const TensorView& view, double scale, RandomStream& random) {
  for (int64_t r = 0; r < view.rows(); ++r) {
    for (int64_t c = 0; c < view.cols(); ++c)
      set(view, r, c, static_cast<double>(static_cast<float>(scale * random.normal())));
  }
}

// An adapter of a model with random numbers.
struct RandomAdapter {
  RandomAdapter(const Model& model, DType dtype, uint64_t seed, std::vector<Role> roles = all_matrices(),
                int64_t rank = 3)
      : adapter(std::make_shared<Adapter>(model.table, std::move(roles), rank, 0.7)),
        weights(adapter->table, dtype, "test adapter", memory()) {
    adapter->weights.assign(weights.views().begin(), weights.views().end());
    RandomStream random(seed, RandomSite::test, 2);
    for (const TensorView& view : adapter->weights)
      fill_normal(view, 0.3, random);
  }

  std::shared_ptr<Adapter> adapter;
  ParamBuffer weights;
};

// A frozen model with an adapter that is trained. Its parameters are behind the model's.
struct AdaptedModel {
  AdaptedModel(const Model& base, DType dtype, uint64_t seed, std::vector<Role> roles = all_matrices())
      : adapter(base.table, std::move(roles), 3, 0.7), model(base.config, adapter.table.specs()) {
    for (int id = 0; id < model.table.model_count(); ++id)
      model.table.set_trainable(id, false);
    weights = ParamBuffer(model.table, dtype, "trained weights", memory());
    model.weights = base.weights;
    for (const TensorView& view : weights.views().last(static_cast<size_t>(adapter.table.count()))) {
      model.weights.push_back(view);
      adapter.weights.push_back(view);
    }
    RandomStream random(seed, RandomSite::test, 2);
    for (const TensorView& view : adapter.weights)
      fill_normal(view, 0.3, random);
  }
  AdaptedModel(const AdaptedModel&) = delete;

  Adapter adapter;
  Model model;
  ParamBuffer weights;
};

}  // namespace gpt::test
