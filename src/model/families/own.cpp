// gpt.cpp's own: every switch, under our names.

#include "model/families/family.h"

namespace gpt {
namespace {

constexpr Naming kNaming = {
    .wte = "wte.{1}",
    .wpe = "wpe.{1}",
    .norm1 = "blocks.{0}.norm1.{1}",
    .q = "blocks.{0}.attn.q.{1}",
    .k = "blocks.{0}.attn.k.{1}",
    .v = "blocks.{0}.attn.v.{1}",
    .out = "blocks.{0}.attn.out.{1}",
    .norm2 = "blocks.{0}.norm2.{1}",
    .gate = "blocks.{0}.mlp.gate.{1}",
    .fc = "blocks.{0}.mlp.fc.{1}",
    .proj = "blocks.{0}.mlp.proj.{1}",
    .final_norm = "final_norm.{1}",
    .head = "head.{1}",
};

}  // namespace

constinit const Family family::own = {
    .name = "gpt.cpp",
    .switches = "{}",
    .namings = {&kNaming},
};

}  // namespace gpt
