#pragma once

#include <string>

#include "convert_output.h"

namespace gpt {

// `gpt convert ADAPTER OUT`: from PEFT's folder to llama.cpp's file, or back.
int convert_adapter(const ConvertArguments& arguments);

// `gpt info ADAPTER`.
int describe_adapter(const std::string& path, bool json);

}  // namespace gpt
