#pragma once

#include "command.h"

namespace gpt {

Command add_plan_command(CLI::App& root);

}  // namespace gpt
