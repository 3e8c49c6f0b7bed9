#include <nlohmann/json.hpp>

#include "text/byte_level.h"
#include "text/tokenizer_kinds.h"
#include "text/vocab_data.h"

namespace gpt {
namespace {

class ByteTokenizer final : public Tokenizer {
 public:
  std::string_view kind() const override { return "byte"; }
  int64_t vocab_size() const override { return 256; }

  std::vector<int32_t> encode(std::string_view text) const override {
    std::vector<int32_t> ids(text.size());
    for (size_t i = 0; i < text.size(); ++i)
      ids[i] = static_cast<unsigned char>(text[i]);
    return ids;
  }

  std::string token_bytes(int32_t id) const override {
    if (id < 0 || id > 255) detail::fail_token_id(id, 256);
    return std::string(1, static_cast<char>(id));
  }

  // As a byte-level BPE without merges, in which every byte is its own id.
  VocabData vocab_data() const override {
    VocabData data{.model = "gpt2", .pre = "gpt-2"};
    for (int32_t id = 0; id < vocab_size(); ++id)
      data.tokens.push_back(detail::in_alphabet(token_bytes(id)));
    data.types.assign(data.tokens.size(), static_cast<int32_t>(VocabData::TokenType::normal));
    return data;
  }

  std::string to_json() const override {
    auto vocab = nlohmann::json::object();
    for (int b = 0; b < 256; ++b) {
      const char byte = static_cast<char>(b);
      vocab[detail::in_alphabet({&byte, 1})] = b;
    }
    return detail::json_without_merges(std::move(vocab), detail::byte_level_json(false),
                                       detail::byte_level_json(false))
        .dump(1);
  }
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer() {
  return std::make_unique<ByteTokenizer>();
}

}  // namespace gpt
