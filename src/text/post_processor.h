#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "text/tokenizer.h"

namespace gpt::detail {

// Reads the tokens that a tokenizer.json adds before and after a text if special tokens are requested. The
// token before the text is returned as BOS, and the token after the text as EOS. add_bos and add_eos are set
// accordingly. A ByteLevel post-processor adds no tokens, because it only moves offsets. Throws Error for
// other kinds of post-processors, and for more than one token at the beginning or end.
SpecialIds read_post_processor(const nlohmann::json& root, const std::string& name);

// Returns the post_processor that adds the special tokens. Returns null if neither add_bos nor add_eos is
// true. `name_of` returns the text of a token.
nlohmann::json post_processor_json(const SpecialIds& special,
                                   const std::function<std::string(int64_t)>& name_of);

// Checks the general settings of a tokenizer.json. Throws Error for an unknown version and for keys that
// Hugging Face tokenizers does not know.
void check_settings(const nlohmann::json& root, const std::string& name);

}  // namespace gpt::detail
