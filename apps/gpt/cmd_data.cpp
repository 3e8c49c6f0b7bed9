#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/file.h"
#include "command.h"
#include "data/loader.h"
#include "data/preview.h"
#include "data/tales.h"
#include "options.h"
#include "output.h"
#include "train/run_data.h"

#include <numbers>

namespace gpt {
namespace {

constexpr const char* kFooter = R"(Examples:
  gpt data tales --bytes 1000000 --seed 1 --out tales.txt
  gpt data tales --bytes 500
  gpt data preview --data input.txt --tokenizer char --n-ctx 64)";

struct TalesArguments {
  int64_t bytes = 0, seed = 1, first_story = 0;
  std::string out;
};

struct PreviewArguments {
  std::vector<std::string> data;
  std::string tokenizer = "byte";
  double val_fraction = 0.1;
  int64_t seed = 1, n_ctx = 64, batch_size = 4;
};

int run_tales(const TalesArguments& a) {
  if (a.bytes == 0) fail_usage("--bytes is missing: say how much text to make, for example --bytes 1000000");
  if (a.seed < 0) fail_usage("--seed: expected a number of at least 0, found {}", a.seed);
  const TalesText tales = generate_tales(a.bytes, static_cast<uint64_t>(a.seed), a.first_story);
  if (a.out.empty()) {
    write_output(tales.text);
  } else {
    write_file_atomic(a.out, tales.text);
  }
  write_note(
      fmt::format("{} bytes of tales; entropy {:.4f} bits per byte (this text: {:.4f}): no model can do "
                  "better on average; "
                  "the next story is number {}\n",
                  tales.text.size(), tales_entropy_per_byte() / std::numbers::ln2,
                  tales.nats / std::numbers::ln2 / static_cast<double>(tales.text.size()), tales.next_story));
  return 0;
}

int run_preview(const PreviewArguments& a) {
  TrainConfig config;
  config.data = a.data;
  config.tokenizer = a.tokenizer;
  config.val_fraction = a.val_fraction;
  config.seed = a.seed;
  complete(config);
  if (a.n_ctx < 1 || a.n_ctx > 1 << 24) fail_usage("--n-ctx: expected 1 to {}, found {}", 1 << 24, a.n_ctx);
  if (a.batch_size < 1 || a.batch_size > 64)
    fail_usage("--batch-size: expected 1 to 64, found {}", a.batch_size);
  const RunData data = load_run_data(config, a.n_ctx, "");
  std::vector<int32_t> ids(static_cast<size_t>(a.batch_size * a.n_ctx)), targets(ids.size());
  const BatchLoader loader(data.train, a.n_ctx, static_cast<uint64_t>(a.seed), Sampling::random);
  loader.fill(0, 0, a.batch_size, a.batch_size, ids.data(), targets.data());
  write_output(data.preview +
               preview_batch(*data.tokenizer, ids.data(), targets.data(), a.batch_size, a.n_ctx));
  if (data.floor) write_output(fmt::format("entropy: {:.4f} nats per token\n", *data.floor));
  return 0;
}

CLI::App* add_tales(CLI::App& parent, TalesArguments& a) {
  CLI::App* app =
      parent.add_subcommand("tales", "print the built-in corpus: endless simple stories of known entropy");
  app->allow_extras();
  app->add_option("--bytes", a.bytes, "length of the text")->type_name("N");
  app->add_option("--seed", a.seed, "equal seeds give equal stories")->type_name("N")->capture_default_str();
  app->add_option("--first-story", a.first_story, "number of the first story")
      ->type_name("N")
      ->capture_default_str();
  app->add_option("--out", a.out, "write to a file instead of standard output")->type_name("FILE");
  return app;
}

CLI::App* add_preview(CLI::App& parent, PreviewArguments& a) {
  CLI::App* app = parent.add_subcommand("preview", "show a corpus, its split and a training batch");
  app->allow_extras();
  app->add_option("--data", a.data, "text files or folders, or tales, tales:BYTES")->type_name("PATH ...");
  app->add_option("--tokenizer", a.tokenizer, "byte, char, or a tokenizer.json")
      ->type_name("NAME")
      ->capture_default_str();
  app->add_option("--val-fraction", a.val_fraction, "part that is held out")
      ->type_name("X")
      ->capture_default_str();
  app->add_option("--seed", a.seed, "of the batch")->type_name("N")->capture_default_str();
  app->add_option("--n-ctx", a.n_ctx, "context length")->type_name("N")->capture_default_str();
  app->add_option("--batch-size", a.batch_size, "sequences")->type_name("N")->capture_default_str();
  return app;
}

}  // namespace

std::vector<Command> add_data_commands(CLI::App& root) {
  CLI::App* data = root.add_subcommand("data", "make and look at training text");
  data->allow_extras();
  data->require_subcommand(0, 1);
  data->footer(kFooter);
  auto tales = std::make_shared<TalesArguments>();
  auto preview = std::make_shared<PreviewArguments>();
  CLI::App* tales_app = add_tales(*data, *tales);
  CLI::App* preview_app = add_preview(*data, *preview);
  return {{tales_app, [tales] { return run_tales(*tales); }},
          {preview_app, [preview] { return run_preview(*preview); }}};
}

}  // namespace gpt
