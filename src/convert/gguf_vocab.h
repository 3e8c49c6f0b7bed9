#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "text/chat_formats.h"
#include "text/vocab_data.h"

namespace gpt {

// The tokenizer that a GGUF file describes; nothing when it has none. Throws Error when keys are of a wrong
// kind; the rest is tokenizer_of's to check.
std::optional<VocabData> gguf_vocab(const GgufFile& file);

// The tokenizer of the GGUF file at `path`. Throws Error, also when there is none.
std::unique_ptr<Tokenizer> gguf_tokenizer(const std::string& path);

// The reverse. A vocabulary smaller than the model's is filled up to vocab_size with unused tokens, because
// llama.cpp wants one for each row of the embedding.
void add_vocab(GgufMetadata& metadata, VocabData data, int64_t vocab_size);

// The ids of BOS, EOS and the others that there are.
void add_special_ids(GgufMetadata& metadata, const SpecialIds& ids);

// The chat templates in the file, by name.
ChatTemplates gguf_chat_templates(const GgufFile& file);
// The reverse.
void add_chat_templates(GgufMetadata& metadata, const ChatTemplates& templates);

}  // namespace gpt
