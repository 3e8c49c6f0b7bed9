// Continues many texts concurrently, and prints each text when it is complete.   stream_many MODEL PROMPT...

#include <gpt/gpt.hpp>
#include <iostream>
#include <string>
#include <vector>

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: stream_many MODEL PROMPT...\n";
    return 2;
  }
  try {
    const gptcpp::Model model(gptcpp::Context(), argv[1]);
    gptcpp::Engine engine(model, {.slots = 4});
    std::vector<std::string> texts(argv + 2, argv + argc);
    for (const std::string& prompt : texts)
      engine.submit(prompt, {.max_tokens = 40});
    while (!engine.idle()) {
      for (const gptcpp::Event& event : engine.step()) {
        std::string& text = texts[static_cast<size_t>(event.request)];
        text += event.piece.text;
        if (event.finish) std::cout << event.request << ": " << text << "\n" << event.error;
      }
    }
  } catch (const gptcpp::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
