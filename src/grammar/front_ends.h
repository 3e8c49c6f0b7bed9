#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "grammar/grammar.h"
#include "grammar/rules.h"

namespace gpt::grammar {

// Each function writes a grammar into `rules` and returns the root rule. The functions accept the same input
// and throw the same errors as the compile functions in grammar.h.
RuleId gbnf_rule(Rules& rules, std::string_view text);
RuleId regex_rule(Rules& rules, std::string_view pattern);
RuleId json_schema_rule(Rules& rules, const nlohmann::ordered_json& schema, const SchemaFrame& frame);
RuleId json_schema_text_rule(Rules& rules, std::string_view text, const SchemaFrame& frame);
RuleId json_object_rule(Rules& rules);

}  // namespace gpt::grammar
