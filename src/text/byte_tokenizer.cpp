#include <nlohmann/json.hpp>

#include "text/tokenizer_kinds.h"
#include "text/utf8.h"

namespace gpt {
namespace detail {

const std::array<char32_t, 256>& byte_level_alphabet() {
  static const std::array<char32_t, 256> alphabet = [] {
    std::array<char32_t, 256> table{};
    char32_t next = 0x100;
    for (char32_t b = 0; b < 256; ++b) {
      const bool printable = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
      table[b] = printable ? b : next++;
    }
    return table;
  }();
  return alphabet;
}

}  // namespace detail

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

  std::string to_json() const override {
    auto vocab = nlohmann::json::object();
    for (size_t b = 0; b < 256; ++b) {
      std::string symbol;
      append_utf8(symbol, detail::byte_level_alphabet()[b]);
      vocab[symbol] = b;
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
