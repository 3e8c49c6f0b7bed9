// Continues a text.   generate MODEL "Once upon a time" [TOKENS]

#include <cstdlib>
#include <gpt/gpt.hpp>
#include <iostream>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: generate MODEL PROMPT [TOKENS]\n";
    return 2;
  }
  try {
    const gptcpp::Model model(gptcpp::Context(), argv[1]);
    gptcpp::Session session(model);
    session.feed(std::string_view(argv[2]));
    std::cout << argv[2];
    session.generate({.max_tokens = argc > 3 ? std::atoll(argv[3]) : 100}, [](const gptcpp::Piece& piece) {
      std::cout << piece.text << std::flush;
      return true;  // continue
    });
    std::cout << "\n";
  } catch (const gptcpp::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
