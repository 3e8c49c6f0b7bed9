#pragma once

#include <memory>
#include <optional>
#include <string>

#include "io/gguf.h"
#include "io/gguf_writer.h"
#include "text/chat_formats.h"
#include "text/vocab_data.h"

namespace gpt {

// Returns the tokenizer that a GGUF file describes, or nothing if the file has none. Throws Error when keys
// have the wrong type. tokenizer_of checks everything else.
std::optional<VocabData> gguf_vocab(const GgufFile& file);

// Loads the tokenizer of the GGUF file at `path`. Throws Error if the file has no tokenizer, or if the
// tokenizer cannot be loaded.
std::unique_ptr<Tokenizer> gguf_tokenizer(const std::string& path);

// Writes a tokenizer to the metadata. If the vocabulary has fewer than vocab_size tokens, it is padded with
// unused tokens, because llama.cpp requires a token for each row of the embedding.
void add_vocab(GgufMetadata& metadata, VocabData data, int64_t vocab_size);

// Writes the ids of BOS, EOS and the other special tokens that exist.
void add_special_ids(GgufMetadata& metadata, const SpecialIds& ids);

// Returns the chat templates in the file, by name.
ChatTemplates gguf_chat_templates(const GgufFile& file);
// Writes the chat templates to the metadata.
void add_chat_templates(GgufMetadata& metadata, const ChatTemplates& templates);

}  // namespace gpt
