#pragma once

#include <string>

#include "convert_output.h"

namespace gpt {

// Implements `gpt convert ADAPTER OUT`, which converts a PEFT folder to llama.cpp's adapter file, or back.
int convert_adapter(const ConvertArguments& arguments);

// Implements `gpt info ADAPTER`.
int describe_adapter(const std::string& path, bool json);

}  // namespace gpt
