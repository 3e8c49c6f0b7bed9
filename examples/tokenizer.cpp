// Converts a text to token ids and back.   tokenizer TEXT [TOKENIZER]
// Without TOKENIZER, trains a tokenizer on the text.

#include <gpt/gpt.hpp>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: tokenizer TEXT [TOKENIZER]\n";
    return 2;
  }
  try {
    const std::string text = argv[1];
    const auto tokenizer = argc > 2 ? gptcpp::Tokenizer::load(argv[2])
                                    : gptcpp::Tokenizer::train(gptcpp::Context(), text, {.vocab_size = 300});
    const std::vector<int32_t> ids = tokenizer.encode(text);
    for (const int32_t id : ids)
      std::cout << id << " \"" << tokenizer.token_bytes(id) << "\"\n";
    const bool same = tokenizer.decode(ids) == text;
    std::cout << text.size() << " bytes, " << ids.size() << " tokens, " << (same ? "the same" : "another")
              << " text again\n";
    return same ? 0 : 1;
  } catch (const gptcpp::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
