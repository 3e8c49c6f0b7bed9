// The native model family of gpt.cpp. It supports every option under its gpt.cpp name.

#include "model/families/family.h"

namespace gpt {

constexpr Naming kNaming = {
    .outside = {"wte.{1}", "wpe.{1}", "final_norm.{1}", "head.{1}"},
    .block = "blocks.{0}.",
    .norms = {"norm1.{1}", "norm2.{1}"},
    .qkv = {"attn.q.{1}", "attn.k.{1}", "attn.v.{1}"},
    .linear = {"attn.out.{1}", "mlp.fc.{1}", "mlp.proj.{1}", "mlp.gate.{1}"},
};

constinit const Family family::own = {
    .name = "gpt.cpp",
    .namings = {&kNaming},
};

}  // namespace gpt
