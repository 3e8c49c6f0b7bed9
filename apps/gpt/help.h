#pragma once

#include <memory>

namespace CLI {
class FormatterBase;
}  // namespace CLI

namespace gpt {

// Returns the formatter of help texts, which are at most 80 columns wide. --help shows the common options
// and --help-all shows all options. Both show the default of each option.
std::shared_ptr<CLI::FormatterBase> help_formatter();

}  // namespace gpt
