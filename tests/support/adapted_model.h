#pragma once

#include <algorithm>
#include <memory>

#include "model/adapter_settings.h"
#include "support/small_models.h"

namespace gpt::test {

// Returns the roles of all weight matrices of a layer.
inline std::vector<Role> all_matrices() {
  return {Role::q_weight,         Role::k_weight,       Role::v_weight,        Role::out_weight,
          Role::gate_proj_weight, Role::up_proj_weight, Role::down_proj_weight};
}

inline void fill_normal(const TensorView& view, double scale, RandomStream& random) {
  for (int64_t r = 0; r < view.rows(); ++r) {
    for (int64_t c = 0; c < view.cols(); ++c)
      set(view, r, c, static_cast<double>(static_cast<float>(scale * random.normal())));
  }
}

// Returns one low-rank product for each matrix with one of these roles. If `fused`, the query, key and value
// matrices of a layer share one product.
inline std::vector<LowRank> products_for(const ParamTable& model, const std::vector<Role>& roles,
                                         int64_t rank, bool fused = false) {
  std::vector<LowRank> products;
  for (int id = 0; id < model.model_count(); ++id) {
    const ParamSpec& w = model[id];
    if (w.layer < 0 || w.shape.size() != 2 || std::ranges::find(roles, w.role) == roles.end()) continue;
    if (fused && (w.role == Role::k_weight || w.role == Role::v_weight)) {
      products.back().last = id;
    } else {
      products.push_back({id, id, rank, 0.7});
    }
  }
  return products;
}

// An adapter for `model` with random weights.
struct RandomAdapter {
  RandomAdapter(const Model& model, DType dtype, uint64_t seed,
                const std::vector<Role>& roles = all_matrices(), int64_t rank = 3)
      : adapter(std::make_shared<Adapter>(model.table, products_for(model.table, roles, rank))) {
    adapter->allocate(dtype, device());
    RandomStream random(seed, RandomSite::test, 2);
    for (const TensorView& view : adapter->weights)
      fill_normal(view, 0.3, random);
  }

  std::shared_ptr<Adapter> adapter;
};

// A frozen model with a trainable adapter whose weights are random.
struct RandomAdaptedModel : AdaptedModel {
  RandomAdaptedModel(const Model& base, DType dtype, uint64_t seed,
                     const std::vector<Role>& roles = all_matrices(), bool fused = false, double dropout = 0)
      : AdaptedModel(base, base.config,
                     Adapter(base.table, products_for(base.table, roles, 3, fused), dropout), {}, device(),
                     dtype) {
    RandomStream random(seed, RandomSite::test, 2);
    for (const TensorView& view : adapter.weights)
      fill_normal(view, 0.3, random);
  }
};

}  // namespace gpt::test
