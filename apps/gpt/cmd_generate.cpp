#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "base/utf8.h"
#include "command.h"
#include "generation.h"
#include "infer/feed.h"
#include "input.h"
#include "options.h"
#include "output.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kGenerateFooter = R"(Examples:
  gpt generate run --prompt "ROMEO: " --max-tokens 300
  gpt generate run --prompt "Once" --greedy --stop "\n\n"     (backslashes in --stop are not interpreted)
  gpt generate run --prompt "Once" --n 3 --temperature 1 --top-k 0 --top-p 0.95 --seed 7
  gpt generate run --prompt "Answer: " --json-schema schema.json    (or --grammar rules.gbnf, --regex "[0-9]+")
  head -c 200 story.txt | gpt generate run
  gpt generate model.safetensors --ids 15496,995 --beams 5 --json
  gpt generate run --prompt-file prompt.txt --ignore-eos --context slide
  gpt generate model --adapter tuned --prompt "Once"                 (an adapter from gpt finetune, PEFT, or a .gguf file)
  gpt generate run --prompt "Once" --dtype q8_0               (quantizes the weights while loading)
  gpt generate big --draft small --prompt "Once"              (faster if the small model predicts well)

By default, tokens are sampled from the 40 most likely tokens with temperature 0.8. The output is the prompt and its
continuation; several samples are separated by a line of dashes. For a model without a tokenizer, the output is the new
token ids, one sample per line. Without a prompt, the text from standard input is continued, without its last newline. An
empty prompt is replaced by the model's BOS token, or by a newline if the model has none.)";

constexpr const char* kSeparator = "---------------\n";
constexpr int64_t kMaxSlots = 64;  // more slots are not faster on a CPU
constexpr int64_t kMaxSamples = 1 << 20;
constexpr int64_t kMaxTokens = int64_t{1} << 40;

// Returns the policy of a value of --context, which the parser has checked.
gptcpp::ContextPolicy context_policy(const std::string& name) {
  if (name == "stop") return gptcpp::ContextPolicy::stop;
  return name == "slide" ? gptcpp::ContextPolicy::slide : gptcpp::ContextPolicy::crop;
}

class Generation {
 public:
  explicit Generation(const GenerateArguments& arguments)
      : a_(arguments), model_(open_model(arguments)), facts_(model_.facts()) {
    if (facts_.has_tokenizer) tokenizer_ = model_.tokenizer();
    check_tokenizer();
    for (const std::string& prompt : a_.prompts)
      write_note(note_of_file(prompt, "--prompt-file"));
    prompts_ = read_prompts(
        a_, {[this](const std::string& text) { return model_.prompt_ids(text, !a_.no_bos, a_.special); },
             [this](int32_t id) { return bytes_of(id); }});
    options_ = generate_options(a_);
    policy_ = context_policy(a_.context);
    check();
    note_cropped_prompts();
  }

  void run() {
    const auto begin = Clock::now();
    const std::vector<Sample> samples = a_.beams > 0 ? search() : sample();
    if (a_.json) {
      show_json(samples_json(samples).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
    } else if (!streams_) {
      for (size_t i = 0; i < samples.size(); ++i)
        print(samples[i], i == 0);
    }
    const double seconds = seconds_since(begin);
    if (notes_are_on_terminal()) report_speed(samples, seconds);
    if (notes_are_on_terminal() && !a_.json && !a_.prompts.empty())
      write_next({"gpt", "trace", a_.model, a_.prompts.front()});
  }

 private:
  // A finished sample of sampling or beam search.
  struct Sample {
    int64_t prompt = 0, number = 0;
    gptcpp::Result result;
    std::optional<double> score;  // only for beam search
  };

  static gptcpp::Model open_model(const GenerateArguments& a) {
    if (!a.tokenizer.empty()) require_whole_tokenizer(a.tokenizer);
    return {gptcpp::Context(context_options(a.machine)),
            a.model,
            {.tokenizer = a.tokenizer, .adapters = adapter_options(a)}};
  }

  void check_tokenizer() const {
    // Ids need no tokenizer, so an unsupported tokenizer is only an error if there is a prompt as text.
    if (!facts_.tokenizer_problem.empty()) {
      if (a_.ids.empty() || !a_.prompts.empty() || !a_.prompt_files.empty())
        fail("{}", facts_.tokenizer_problem);
      write_note(fmt::format("note: using token ids only: {}\n", facts_.tokenizer_problem));
    }
    if (!tokenizer_ && !a_.options.stops.empty()) {
      fail(
          "--stop: this model has no tokenizer.json, so its output is token ids; name a tokenizer with "
          "--tokenizer");
    }
  }

  void check() const {
    gptcpp::check(model_, options_);
    check_range("--n", a_.n, 1, kMaxSamples);
    check_range("--max-tokens", options_.max_tokens, 0, kMaxTokens);
    if (a_.beams < 0 || a_.beams > 1024) fail_usage("--beams: expected 1 to 1024, found {}", a_.beams);
    if (a_.beams > 0 && a_.n > a_.beams)
      fail_usage("--n {}: beam search returns at most --beams {} texts", a_.n, a_.beams);
    if (a_.beams > 0 && !a_.drawing.empty())
      fail_usage("{0}: beam search does not sample; leave out {0} or --beams", fmt::join(a_.drawing, ", "));
    if (a_.beams > 0 && (!a_.draft.empty() || !a_.speculation.source.empty()))
      fail_usage("{}: cannot be combined with --beams", a_.draft.empty() ? "--speculate" : "--draft");
    if (a_.beams > 0 && a_.logprobs.has_value()) fail_usage("--logprobs: cannot be combined with --beams");
    if (a_.logprobs.has_value() && !a_.json) fail_usage("--logprobs: requires --json");
  }

  // Notes which prompts are longer than the context. With --context stop such prompts are rejected instead.
  void note_cropped_prompts() const {
    if (policy_ != gptcpp::ContextPolicy::crop) return;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const int64_t size = std::ssize(prompts_[i].ids);
      if (size <= facts_.n_ctx) continue;
      write_note(fmt::format("note: {} has {}, but the context has {}; only the last {} are used\n",
                             prompts_.size() == 1 ? "the prompt" : fmt::format("prompt {}", i + 1),
                             format_amount(size, "token"), format_thousands(facts_.n_ctx),
                             format_thousands(facts_.n_ctx)));
    }
  }

  // Returns the number of tokens that the longest prompt and its completion need. The model's context may be
  // much larger.
  int64_t needed_context() const {
    int64_t longest = 0;
    for (const Prompt& prompt : prompts_)
      longest = std::max(longest, std::ssize(prompt.ids) + options_.max_tokens);
    return std::min(longest, facts_.n_ctx);
  }

  std::vector<Sample> sample() {
    const int64_t total = std::ssize(prompts_) * a_.n;
    gptcpp::EngineOptions engine{.slots = static_cast<int>(std::clamp<int64_t>(total, 1, kMaxSlots)),
                                 .n_ctx = needed_context(),
                                 .policy = policy_};
    set_types(engine, a_);
    set_speculation(engine, a_);
    gptcpp::check(model_, engine);  // reports errors before the prompt is printed
    streams_ = !a_.json && total == 1;
    if (streams_ && tokenizer_) show_text(prompts_[0].text);
    const auto ids = transformed(prompts_, &Prompt::ids);
    bool first = true;
    const auto show_id = [&](int32_t id) {
      if (id >= 0) write_output(fmt::format("{}{}", std::exchange(first, false) ? "" : " ", id));
    };
    const auto show = [&](int64_t, int64_t, const gptcpp::Piece& piece) {
      if (!streams_) return true;
      if (tokenizer_) show_text(std::string(piece.text));
      if (!tokenizer_) show_id(piece.id);
      return true;
    };
    std::vector<gptcpp::Result> results = gptcpp::generate(model_, ids, options_, a_.n, engine, show);
    if (streams_ && !tokenizer_) show_id(results[0].end_id);
    if (streams_) write_output("\n");
    return transformed_indices(total, [&](int64_t i) {
      return Sample{i / a_.n, i % a_.n, std::move(results[static_cast<size_t>(i)]), {}};
    });
  }

  std::vector<Sample> search() {
    gptcpp::SessionOptions session{.n_ctx = needed_context(), .policy = policy_};
    set_types(session, a_);
    const gptcpp::BeamOptions options{.width = a_.beams,
                                      .max_tokens = options_.max_tokens,
                                      .length_penalty = a_.length_penalty,
                                      .stops = options_.stops,
                                      .ignore_eos = options_.ignore_eos,
                                      .adapters = options_.adapters};
    std::vector<Sample> samples;
    for (int64_t p = 0; p < std::ssize(prompts_); ++p) {
      const auto& ids = prompts_[static_cast<size_t>(p)].ids;
      std::vector<gptcpp::Beam> beams = gptcpp::beam_search(model_, ids, options, session);
      for (int64_t i = 0; i < std::min(std::ssize(beams), a_.n); ++i) {
        gptcpp::Beam& beam = beams[static_cast<size_t>(i)];
        samples.push_back({p, i, std::move(beam.result), beam.score});
      }
    }
    return samples;
  }

  // Returns the bytes of a token, or U+FFFD for ids that the model has and the tokenizer lacks.
  std::string bytes_of(int32_t id) const {
    if (!tokenizer_) return "";
    return id < tokenizer_->vocab_size() ? tokenizer_->token_bytes(id) : "\xef\xbf\xbd";
  }

  static std::vector<int32_t> all_ids(const gptcpp::Result& result) {
    std::vector<int32_t> ids = result.ids;
    if (result.end_id >= 0) ids.push_back(result.end_id);
    return ids;
  }

  void print(const Sample& sample, bool first) const {
    if (!tokenizer_) {
      write_output(fmt::format("{}\n", fmt::join(all_ids(sample.result), " ")));
      return;
    }
    if (!first) write_output(kSeparator);
    show_text(prompts_[static_cast<size_t>(sample.prompt)].text + sample.result.text + "\n");
  }

  json logprob_json(const gptcpp::TokenLogprob& token) const {
    json out = {{"id", token.id}, {"logprob", token.logprob}};
    if (tokenizer_) out["token"] = replace_invalid_utf8(bytes_of(token.id));
    return out;
  }

  json logprobs_json(const std::vector<gptcpp::Logprobs>& logprobs) const {
    const auto token = [this](const gptcpp::TokenLogprob& t) { return logprob_json(t); };
    return transformed(logprobs, [&](const gptcpp::Logprobs& position) {
      json entry = token(position.chosen);
      entry["top"] = transformed(position.top, token);
      return entry;
    });
  }

  json samples_json(const std::vector<Sample>& samples) const {
    const auto sample_json = [this](const Sample& sample) {
      const gptcpp::Result& result = sample.result;
      const Prompt& prompt = prompts_[static_cast<size_t>(sample.prompt)];
      json entry = {{"prompt_index", sample.prompt},
                    {"sample", sample.number},
                    {"prompt_ids", prompt.ids},
                    {"ids", all_ids(result)},
                    {"finish_reason", gptcpp::finish_name(result.finish)}};
      if (tokenizer_) {
        entry["prompt"] = replace_invalid_utf8(prompt.text);
        entry["text"] = result.text;
      }
      if (result.draft_tokens > 0) {
        entry["draft_tokens"] = result.draft_tokens;
        entry["accepted_tokens"] = result.accepted_tokens;
      }
      if (sample.score) entry["score"] = *sample.score;
      if (a_.logprobs.has_value()) entry["logprobs"] = logprobs_json(result.logprobs);
      return entry;
    };
    return {{"completions", transformed(samples, sample_json)}};
  }

  static void report_speed(const std::vector<Sample>& samples, double seconds) {
    const int64_t tokens = sum_of(samples, [](const Sample& s) { return std::ssize(all_ids(s.result)); });
    const auto sum = [&](int64_t gptcpp::Result::*field) {
      return sum_of(samples, [&](const Sample& s) { return s.result.*field; });
    };
    write_note(fmt::format(
        "{} in {}, {} tokens/s{}\n", format_amount(tokens, "token"), format_duration(seconds),
        format_rate(static_cast<double>(tokens) / std::max(seconds, 1e-9)),
        speculation_note(sum(&gptcpp::Result::draft_tokens), sum(&gptcpp::Result::accepted_tokens))));
  }

  const GenerateArguments& a_;
  gptcpp::Model model_;
  const gptcpp::ModelFacts& facts_;
  std::optional<gptcpp::Tokenizer> tokenizer_;
  std::vector<Prompt> prompts_;
  gptcpp::GenerateOptions options_;
  gptcpp::ContextPolicy policy_ = gptcpp::ContextPolicy::crop;
  bool streams_ = false;
};

void add_prompt_options(CLI::App& app, GenerateArguments& a) {
  add_model_option(app, a.model, "Model folder, run folder, .safetensors, .gguf, .pt or .bin file");
  app.option_defaults()->group("prompt");
  add(app,
      {.flags = "-p,--prompt,PROMPT",
       .value = "TEXT",
       .help = "Text to continue; can be repeated",
       .is_repeated = true,
       .aliases = "--start|--text",
       .common = true},
      a.prompts);
  add(app,
      {.flags = "--prompt-file",
       .value = "FILE",
       .help = "File to continue; - is standard input; can be repeated",
       .kind = ValueKind::path,
       .is_repeated = true,
       .aliases = "--file|-f",
       .common = true},
      a.prompt_files);
  add(app,
      {.flags = "--ids",
       .value = "1,2,3",
       .help = "Token ids to continue; can be repeated",
       .is_repeated = true},
      a.ids);
  add_tokenizer_option(app, a.tokenizer);
  add(app,
      {.flags = "--special",
       .help = "Encode names of special tokens in the prompts as these tokens",
       .aliases = kSpecialAliases},
      a.special);
}

void add_beam_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("sampling");
  add(app,
      {.flags = "--beams",
       .value = "N",
       .help = "Width of beam search, which returns the --n best texts. 0: off",
       .aliases = "--num-beams",
       .common = true},
      a.beams);
  add(app,
      {.flags = "--length-penalty",
       .value = "X",
       .help = "Exponent of the length in the score of a beam: log-probability / length^X"},
      a.length_penalty);
}

// Returns the sampling flags that were typed. None of them can be combined with --beams.
std::vector<std::string> sampling_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const char* name : {"--temperature", "--top-k", "--top-p", "--top-p-rule", "--min-p", "--greedy",
                           "--repetition-penalty", "--presence-penalty", "--frequency-penalty",
                           "--logit-bias", "--grammar", "--json-schema", "--regex"}) {
    if (app.get_option(name)->count() > 0) names.emplace_back(name);
  }
  return names;
}

void add_end_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("output");
  add(app,
      {.flags = "-n,--max-tokens",
       .value = "N",
       .help = "Maximum number of new tokens per sample",
       .aliases = kMaxTokensAliases,
       .common = true},
      a.options.max_tokens);
  add_stop_option(app, a.options.stops);
  add(app, {.flags = "--ignore-eos,--no-eos", .help = "Continue after the end-of-text token"},
      a.options.ignore_eos);
  add(app, {.flags = "--no-bos", .help = "Leave out the beginning-of-text token of the tokenizer"}, a.no_bos);
  add(app,
      {.flags = "--context",
       .help = "Action when the context is full. stop: end the text. crop: recompute the last n_ctx tokens "
               "for every "
               "token, which is exact but slow. slide: attend to the last n_ctx positions, which is fast but "
               "requires rotary positions",
       .choices = {"stop", "crop", "slide"}},
      a.context);
  add(app,
      {.flags = "--n",
       .value = "N",
       .help = "Number of samples per prompt",
       .aliases = "--num-samples|--num-return-sequences",
       .common = true},
      a.n);
  add(app,
      {.flags = "--logprobs",
       .value = "K",
       .help = "With --json: log-probabilities of each token and of the K most likely tokens"},
      a.logprobs);
  app.option_defaults()->group("Options");
}

}  // namespace

Command add_generate_command(CLI::App& root) {
  auto a = std::make_shared<GenerateArguments>();
  CLI::App* app = add_command(root, "generate", "continue a text", kGenerateFooter);
  add_prompt_options(*app, *a);
  add_sampling_options(*app, *a);
  add_grammar_options(*app, *a);
  add_beam_options(*app, *a);
  add_end_options(*app, *a);
  add_json_option(*app, a->json);
  add_weight_options(*app, *a);
  add_adapter_option(*app, a->adapters);
  add_speculation_options(*app, *a);
  add_machine_options(*app, a->machine);
  // Called before the environment is read.
  app->final_callback([a, app] { a->drawing = sampling_flags(*app); });
  return {app, [a] {
            require_argument(a->model, "MODEL", "generate");
            Generation(*a).run();
            return 0;
          }};
}

}  // namespace gpt
