#include "model/param_table.h"

#include <gtest/gtest.h>

#include "model/families/tensor_names.h"
#include "support/small_models.h"

namespace gpt::test {
namespace {

TEST(ParamTable, FindsEveryParameterByRoleAndLayer) {
  for (const SmallConfig& small : small_configs()) {
    const ParamTable table(make_config(small));
    for (int id = 0; id < table.count(); ++id)
      EXPECT_EQ(table.find(table[id].role, table[id].layer), id) << small.name << " " << table[id].name;
    EXPECT_EQ(table.find(Role::q_weight), -1);
    EXPECT_EQ(table.find(Role::q_weight, 0, 0), -1);
  }
}

TEST(ParamTable, LayersThatReadOthersKeysProjectQueriesOnly) {
  ModelConfig c = make_config(small_config("toy_shared_kv"));
  const ParamTable table(c);
  for (const Role role : {Role::k_weight, Role::v_weight, Role::k_bias, Role::v_bias}) {
    EXPECT_GE(table.find(role, 2), 0);
    EXPECT_EQ(table.find(role, 3), -1);
  }
  EXPECT_GE(table.find(Role::q_bias, 3), 0);
  EXPECT_GE(table.find(Role::q_norm_gain, 3), 0);
  EXPECT_EQ(table.find(Role::k_norm_gain, 3), -1);
  EXPECT_TRUE(layer_configs(c)[1].kv_shared);
  EXPECT_FALSE(layer_configs(c)[0].kv_shared);
  const auto refused = [&](auto change) {
    ModelConfig wrong = c;
    change(wrong);
    EXPECT_THROW(complete(wrong), Error);
  };
  refused([](ModelConfig& m) { m.layers[3].kv_layer = 3; });
  refused([](ModelConfig& m) { m.layers[3].kv_layer = 4; });
  refused([](ModelConfig& m) { m.layers[5].kv_layer = 3; });  // layer 3 has no KV cache
  refused([](ModelConfig& m) { m.layers[3].n_kv_head = 4; });
  refused([](ModelConfig& m) { m.layers[3].head_dim = m.layers[3].rope->head_dim = 6; });
  refused([](ModelConfig& m) { m.middle_layer = 7; });
}

TEST(ParamTable, FindsExpertsAndTheirNames) {
  std::vector<ParamSpec> specs;
  for (const int64_t layer : {0, 1}) {
    for (const int64_t expert : {0, 1, 2})
      specs.push_back({.name = std::to_string(layer) + "." + std::to_string(expert),
                       .role = Role::up_proj_weight,
                       .layer = layer,
                       .shape = {4, 4},
                       .init = {},
                       .decay = true,
                       .contiguous_with_previous = false,
                       .component = Component::mlp,
                       .expert = expert});
  }
  const ParamTable table(specs);
  EXPECT_EQ(table.find(Role::up_proj_weight, 1, 2), 5);
  EXPECT_EQ(table.find(Role::up_proj_weight, 1, 3), -1);
  EXPECT_EQ(table.find(Role::up_proj_weight, 1), -1);
  const Naming naming = {.outside = {},
                         .block = "model.layers.{0}.",
                         .linear = {nullptr, "mlp.experts.{2}.up_proj.{1}", nullptr, nullptr}};
  EXPECT_EQ(file_place(naming, {}, table[5]).tensor, "model.layers.1.mlp.experts.2.up_proj.weight");
}

}  // namespace
}  // namespace gpt::test
