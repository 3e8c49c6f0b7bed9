// Trains a small model on a string within seconds, and saves the model.   train FOLDER

#include <gpt/gpt.hpp>
#include <iostream>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: train FOLDER\n";
    return 2;
  }
  std::string text;
  for (int i = 0; i < 200; ++i)
    text += "The quick brown fox jumps over the lazy dog. ";
  try {
    gptcpp::Trainer trainer(gptcpp::Context(),
                            {{"preset", "tiny"},
                             {"n_layer", "2"},
                             {"n_embd", "64"},
                             {"n_head", "4"},
                             {"n_ctx", "64"},
                             {"steps", "100"},
                             {"warmup", "10"},
                             {"lr", "3e-3"}},
                            text);
    trainer.run(100, [](const gptcpp::TrainProgress& p) {
      if (p.step % 20 == 0) std::cout << "step " << p.step << ": loss " << p.loss << "\n";
      return true;  // continue
    });
    trainer.save(argv[1]);
  } catch (const gptcpp::Error& error) {
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
}
