#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "command.h"
#include "generation.h"
#include "infer/beam.h"
#include "infer/cached_model.h"
#include "options.h"
#include "output.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr const char* kFooter = R"(Examples:
  gpt generate run --prompt "ROMEO: " --max-tokens 300
  gpt generate run --prompt "Once" --greedy --stop "\n\n"     (--stop takes the characters as they are)
  gpt generate run --prompt "Once" --n 3 --temperature 1 --top-k 0 --top-p 0.95 --seed 7
  gpt generate model.safetensors --ids 15496,995 --beams 5 --json
  gpt generate run --prompt-file prompt.txt --ignore-eos --context slide
  gpt generate run --prompt "Once" --dtype q8_0               (weights quantised while they are loaded)

The default draws with temperature 0.8 from the 40 likeliest tokens. --context says what happens when the
context is full: stop ends the text, crop feeds the last n_ctx tokens anew for every token (exact, slow),
slide lets attention see the last n_ctx positions (fast; rotary positions only).
Without a tokenizer the new ids are printed, one sample a line; with one, prompt and continuation as text,
several samples separated by a line of dashes. An empty prompt means the model's BOS token, else a newline.)";

constexpr const char* kSeparator = "---------------\n";
constexpr int64_t kCacheBytes = int64_t{1} << 30;  // of cache for sequences that run side by side
constexpr int64_t kMaxSlots = 64;                  // more gain nothing on a CPU
constexpr int64_t kMaxSamples = 1 << 20;
constexpr int64_t kMaxTokens = int64_t{1} << 40;

json logprob_json(const TokenLogprob& entry, const Tokenizer* tokenizer) {
  json out = {{"id", entry.id}, {"logprob", entry.logprob}};
  if (tokenizer != nullptr) out["token"] = replace_invalid_utf8(bytes_of(*tokenizer, entry.id));
  return out;
}

json logprobs_json(const std::vector<Logprobs>& logprobs, const Tokenizer* tokenizer) {
  json list = json::array();
  for (const Logprobs& position : logprobs) {
    json entry = logprob_json(position.chosen, tokenizer);
    entry["top"] = json::array();
    for (const TokenLogprob& top : position.top)
      entry["top"].push_back(logprob_json(top, tokenizer));
    list.push_back(entry);
  }
  return list;
}

// A finished sample, from sampling or from beam search.
struct Sample {
  Completion completion;
  std::optional<double> score;  // of a beam
};

class Generation {
 public:
  explicit Generation(const GenerateArguments& arguments)
      : a_(arguments),
        machine_(arguments.machine),
        loaded_(arguments.model, std::nullopt, MatrixOrder::as_stored) {
    open_tokenizer();
    const ModelConfig& config = loaded_.model().config;
    prompts_ = read_prompts(a_, tokenizer_.get(), config);
    options_ = generate_options(a_, eos_ids(config), config.vocab_size);
    check();
    note_cropped_prompts();
  }

  void run() {
    const auto begin = Clock::now();
    Inference inference(loaded_.model(), machine_.backend, inference_options());
    CachedModel decoder(inference, options_.context == ContextPolicy::slide);
    const std::vector<Sample> samples = a_.beams > 0 ? search(decoder) : sample(decoder);
    if (a_.json) {
      write_output(samples_json(samples).dump(2, ' ', false, json::error_handler_t::replace) + "\n");
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
  void open_tokenizer() {
    try {
      tokenizer_ = chosen_tokenizer(loaded_, a_.tokenizer);
    } catch (const Error& error) {
      // Ids need no tokenizer; a kind that this program cannot read is no reason to refuse them.
      if (!a_.tokenizer.empty() || a_.ids.empty() || !a_.prompts.empty() || !a_.prompt_files.empty()) throw;
      write_note(fmt::format("note: going on with ids only: {}\n", error.what()));
    }
    if (tokenizer_ == nullptr && !a_.stops.empty()) {
      fail("--stop: this model has no tokenizer.json, so its output is no text; give one with --tokenizer");
    }
  }

  void check() const {
    if (a_.n < 1 || a_.n > kMaxSamples) fail_usage("--n: expected 1 to {}, found {}", kMaxSamples, a_.n);
    if (a_.max_tokens < 0 || a_.max_tokens > kMaxTokens) {
      fail_usage("--max-tokens: expected 0 to {}, found {}", kMaxTokens, a_.max_tokens);
    }
    if (a_.beams < 0 || a_.beams > 1024) fail_usage("--beams: expected 1 to 1024, found {}", a_.beams);
    if (a_.beams > 0 && a_.n > a_.beams)
      fail_usage("--n {}: beam search gives at most --beams {} texts", a_.n, a_.beams);
    if (a_.beams > 0 && !a_.drawing.empty())
      fail_usage("{}: beam search draws nothing; leave it out, or --beams", fmt::join(a_.drawing, ", "));
    if (a_.beams > 0 && a_.logprobs.has_value()) fail_usage("--logprobs: not with --beams");
    if (a_.logprobs.has_value() && !a_.json)
      fail_usage("--logprobs: needs --json, which has a place for them");
    StopStrings checked(a_.stops);
  }

  // With --context stop such prompts are refused.
  void note_cropped_prompts() const {
    const int64_t n_ctx = loaded_.model().config.n_ctx;
    if (options_.context != ContextPolicy::crop) return;
    for (size_t i = 0; i < prompts_.size(); ++i) {
      const int64_t size = std::ssize(prompts_[i].ids);
      if (size <= n_ctx) continue;
      write_note(fmt::format("note: {} has {}, the context {}: only the last {} are read\n",
                             prompts_.size() == 1 ? "the prompt" : fmt::format("prompt {}", i + 1),
                             format_amount(size, "token"), format_thousands(n_ctx), format_thousands(n_ctx)));
    }
  }

  Inference::Options inference_options() const {
    const ModelConfig& config = loaded_.model().config;
    int64_t longest = 0;
    for (const Prompt& prompt : prompts_)
      longest = std::max(longest, std::ssize(prompt.ids) + a_.max_tokens);
    // A context may be far larger than what is needed.
    const int64_t capacity = std::min(longest, config.n_ctx);
    Inference::Options options;
    options.capacity = capacity;
    options.slots = static_cast<int>(
        a_.beams > 0 ? a_.beams : std::clamp<int64_t>(std::ssize(prompts_) * a_.n, 1, kMaxSlots));
    set_types(options, a_);
    if (a_.beams == 0) {  // beams keep what they hold; samples can wait
      const int64_t one = KvCache::blocks_of_sequence(capacity) * KvCache::kBlock;
      const int64_t block_bytes = KvCache::bytes(config, KvCache::kBlock, *options.kv_dtype);
      const int64_t token_bytes = std::max<int64_t>(block_bytes / KvCache::kBlock, 1);  // none without blocks
      options.cache_tokens = std::max(one, std::min(kCacheBytes / token_bytes, options.slots * one));
    }
    options.max_rows = std::min(options.max_rows, std::max<int64_t>(capacity, options.slots));
    options.slide = options_.context == ContextPolicy::slide;
    return options;
  }

  std::vector<Sample> sample(CachedModel& decoder) {
    const int64_t total = std::ssize(prompts_) * a_.n;
    streams_ = !a_.json && total == 1;
    std::vector<TextStream> texts;
    for (int64_t i = 0; tokenizer_ != nullptr && i < total; ++i)
      texts.emplace_back(*tokenizer_, a_.stops);
    bool first = true;
    if (streams_ && tokenizer_ != nullptr) show_text(prompts_[0].text);
    const std::vector<std::vector<int32_t>> ids = prompt_ids();
    std::vector<Completion> completions = generate(decoder, ids, options_, [&](const TokenEvent& event) {
      const bool eos = event.finish == FinishReason::eos;
      if (tokenizer_ == nullptr) {
        if (streams_) write_output(fmt::format("{}{}", first ? "" : " ", event.id));
        first = false;
        return true;
      }
      TextStream& text = texts[static_cast<size_t>(event.prompt * a_.n + event.sample)];
      const std::string piece = eos ? "" : text.push(event.id);
      if (streams_) show_text(piece);
      return !text.stopped();
    });
    if (streams_) {
      if (tokenizer_ != nullptr) show_text(texts[0].finish());
      write_output("\n");
    }
    std::vector<Sample> samples;
    samples.reserve(completions.size());
    for (Completion& completion : completions)
      samples.push_back({std::move(completion), {}});
    return samples;
  }

  std::vector<Sample> search(CachedModel& decoder) {
    std::vector<Sample> samples;
    const BeamOptions options{.width = a_.beams,
                              .steps = a_.max_tokens,
                              .eos_ids = options_.eos_ids,
                              .length_penalty = a_.length_penalty,
                              .context = options_.context};
    for (size_t p = 0; p < prompts_.size(); ++p) {
      std::vector<Beam> beams = beam_search(decoder, prompts_[p].ids, options);
      for (size_t i = 0; i < beams.size() && i < static_cast<size_t>(a_.n); ++i) {
        Completion completion;
        completion.prompt = static_cast<int64_t>(p);
        completion.sample = static_cast<int64_t>(i);
        completion.ids = std::move(beams[i].ids);
        completion.finish = beams[i].finish;
        samples.push_back({std::move(completion), beams[i].score});
      }
    }
    return samples;
  }

  std::vector<std::vector<int32_t>> prompt_ids() const {
    std::vector<std::vector<int32_t>> ids;
    for (const Prompt& prompt : prompts_)
      ids.push_back(prompt.ids);
    return ids;
  }

  // The continuation as text, without the token that ended it and up to the first stop string.
  std::string text_of(const Completion& completion, bool& stopped) const {
    TextStream text(*tokenizer_, a_.stops);
    std::string out;
    const size_t shown = completion.ids.size() - (completion.finish == FinishReason::eos ? 1 : 0);
    for (size_t i = 0; i < shown && !text.stopped(); ++i)
      out += text.push(completion.ids[i]);
    out += text.finish();
    stopped = text.stopped();
    return out;
  }

  void print(const Sample& sample, bool first) const {
    if (tokenizer_ == nullptr) {
      write_output(fmt::format("{}\n", fmt::join(sample.completion.ids, " ")));
      return;
    }
    bool stopped = false;
    if (!first) write_output(kSeparator);
    show_text(prompts_[static_cast<size_t>(sample.completion.prompt)].text +
              text_of(sample.completion, stopped) + "\n");
  }

  json samples_json(const std::vector<Sample>& samples) const {
    json list = json::array();
    for (const Sample& sample : samples) {
      const Completion& c = sample.completion;
      const Prompt& prompt = prompts_[static_cast<size_t>(c.prompt)];
      json entry = {
          {"prompt_index", c.prompt}, {"sample", c.sample}, {"prompt_ids", prompt.ids}, {"ids", c.ids}};
      entry["finish_reason"] = finish_reason_name(c.finish);
      if (tokenizer_ != nullptr) {
        bool stopped = false;
        entry["prompt"] = replace_invalid_utf8(prompt.text);
        entry["text"] = text_of(c, stopped);
        if (stopped) entry["finish_reason"] = finish_reason_name(FinishReason::stop);
      }
      if (sample.score) entry["score"] = *sample.score;
      if (a_.logprobs.has_value()) entry["logprobs"] = logprobs_json(c.logprobs, tokenizer_.get());
      list.push_back(entry);
    }
    return {{"completions", list}};
  }

  void report_speed(const std::vector<Sample>& samples, double seconds) const {
    int64_t tokens = 0;
    for (const Sample& sample : samples)
      tokens += std::ssize(sample.completion.ids);
    write_note(fmt::format("{} in {}, {} tokens/s\n", format_amount(tokens, "token"),
                           format_duration(seconds),
                           format_rate(static_cast<double>(tokens) / std::max(seconds, 1e-9))));
  }

  const GenerateArguments& a_;
  Machine machine_;
  LoadedModel loaded_;
  std::unique_ptr<Tokenizer> tokenizer_;
  std::vector<Prompt> prompts_;
  GenerateOptions options_;
  bool streams_ = false;
};

void add_prompt_options(CLI::App& app, GenerateArguments& a) {
  app.add_option("-m,--model,MODEL", a.model, "model folder, run folder, .safetensors, .gguf, .pt or .bin");
  app.option_defaults()->group("prompt");
  add_repeated(app, "-p,--prompt,PROMPT", a.prompts, "text to continue; may be given several times")
      ->type_name("TEXT");
  add_repeated(app, "--prompt-file", a.prompt_files, "file to continue; - is standard input")
      ->type_name("FILE");
  add_repeated(app, "--ids", a.ids, "token ids to continue")->type_name("1,2,3");
  add_value(app, "--tokenizer", a.tokenizer, "FILE", "instead of the model's: byte, or a tokenizer.json");
}

void add_beam_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("sampling");
  add_shown(app, "--beams", a.beams, "X", "beam search of this width; --n texts are shown");
  add_shown(app, "--length-penalty", a.length_penalty, "X", "beams are ranked by log-probability / length^X");
}

// The flags of drawing that were typed; none has a meaning with --beams.
std::vector<std::string> drawing_flags(const CLI::App& app) {
  std::vector<std::string> names;
  for (const char* name :
       {"--temperature", "--top-k", "--top-p", "--top-p-rule", "--min-p", "--greedy", "--repetition-penalty",
        "--presence-penalty", "--frequency-penalty", "--logit-bias"}) {
    if (app.get_option(name)->count() > 0) names.emplace_back(name);
  }
  return names;
}

void add_end_options(CLI::App& app, GenerateArguments& a) {
  app.option_defaults()->group("output");
  add_shown(app, "-n,--max-tokens", a.max_tokens, "N", "new tokens per sample");
  add_repeated(app, "--stop", a.stops, "end before this text; may be given several times")->type_name("TEXT");
  app.add_flag("--ignore-eos,--no-eos", a.ignore_eos, "go on after the end-of-text token");
  app.add_flag("--no-bos", a.no_bos, "leave out the token that the tokenizer puts in front of texts");
  add_shown(app, "--context", a.context, "stop|crop|slide", "when the context is full");
  add_shown(app, "--n", a.n, "N", "samples per prompt");
  add_value(app, "--logprobs", a.logprobs, "K",
            "with --json: log-probabilities of each token and the K likeliest");
  app.option_defaults()->group("Options");
}

}  // namespace

Command add_generate_command(CLI::App& root) {
  auto a = std::make_shared<GenerateArguments>();
  CLI::App* app = add_command(root, "generate", "continue a text", kFooter);
  add_prompt_options(*app, *a);
  add_sampling_options(*app, *a);
  add_beam_options(*app, *a);
  add_end_options(*app, *a);
  add_json_option(*app, a->json);
  add_weight_options(*app, *a);
  add_machine_options(*app, a->machine);
  app->final_callback([a, app] { a->drawing = drawing_flags(*app); });  // before the environment is read
  return {app, [a] {
            require_argument(a->model, "MODEL", "generate");
            Generation(*a).run();
            return 0;
          }};
}

}  // namespace gpt
