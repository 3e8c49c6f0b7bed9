#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/tokenizer.h"

namespace gpt::detail {

// The tokens that a tokenizer.json puts in front of and behind a text when special tokens are asked for, as
// BOS and EOS with add_bos and add_eos; nothing for a ByteLevel, which only moves offsets. Throws Error for
// processors of other kinds and for more than one token at an end.
SpecialIds read_post_processor(const nlohmann::json& root, const std::string& name);

// The reverse: null unless add_bos or add_eos is true; name_of gives the text of a token.
nlohmann::json post_processor_json(const SpecialIds& special,
                                   const std::function<std::string(int64_t)>& name_of);

// Settings of a tokenizer.json that change what its texts become for everybody who reads it: throws Error
// where it is of another version or has keys that tokenizers does not know.
void check_settings(const nlohmann::json& root, const std::string& name);

}  // namespace gpt::detail
