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
