#pragma once

// gpt.cpp as a library: load, tokenize, generate, serve many requests, train, save.
//
//   gptcpp::Context context;
//   gptcpp::Model model(context, "model-folder");
//   gptcpp::Session session(model);
//   session.feed("Once upon a time");
//   session.generate({.max_tokens = 50}, [](const gptcpp::Piece& piece) {
//     std::cout << piece.text;
//     return true;  // go on
//   });
//
// Lifetimes. Every object is a handle that keeps alive what it needs: a session its model, a model its
// context. A copy of a handle is the same object. What a callback is shown is valid until it returns, what
// `Engine::step` and `Session::logits` show until the next call. What was moved from can only be assigned to
// or destroyed.
//
// Threads. Context, Model and Tokenizer may be used by any number of threads concurrently. A Session, Chat,
// Engine or Trainer belongs to one thread at a time. All of a context compute with the same threads: a
// context of N threads starts N - 1 workers, once. A call computes on its caller's thread, so that no call
// waits for another one, and on the workers that other calls leave idle: alone it has all that it asks for.
// No result depends on the number of threads or on concurrent calls. A callback of a Session or Chat may read
// it, but not call what changes it (invalid_argument).
//
// Errors. Everything throws Error, and nothing else but what a callback throws. A call that throws has
// changed nothing that later results depend on, unless it says so. Nothing prints, exits, reads the
// environment or changes a signal.
//
// Binary interface. Standard-library types cross the boundary of the shared library, so a program must be
// compiled with the C++ standard library that the library was built with, and with the same settings of it
// that change layouts (_GLIBCXX_USE_CXX11_ABI, _GLIBCXX_DEBUG). Other compilers and languages use gpt.h.
//
// Cancelling. Context::cancel(), from any thread, ends calls under way with Code::cancelled; each says how
// soon.

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#ifndef GPTCPP_API
#define GPTCPP_API __attribute__((visibility("default")))
#endif

namespace gptcpp {

// What went wrong, in the numbers of gpt.h.
enum class Code {
  invalid_argument = 1,  // an option, a setting, an id or a text that cannot be taken
  not_found = 2,         // no such file or folder
  io = 3,                // a file that cannot be read, is damaged or does not fit; a disk that is full
  out_of_memory = 4,     // the limit of the context, or the machine's memory
  cancelled = 5,         // by Context::cancel
  unsupported = 6,       // what this model, machine or version does not have
  internal = 7           // a mistake in the library
};

class GPTCPP_API Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message, std::string object = "", std::string expected = "",
        std::string found = "", std::string hint = "");
  ~Error() override;
  Code code() const noexcept { return code_; }
  // Parts of the message, "" where they are unknown. A message names an option in backquotes: `n_ctx`.
  const std::string& object() const noexcept { return object_; }      // a parameter or a path
  const std::string& expected() const noexcept { return expected_; }  // "0 to 1024"
  const std::string& found() const noexcept { return found_; }        // "-1"
  const std::string& hint() const noexcept { return hint_; }          // what to do

 private:
  Code code_;
  std::string object_, expected_, found_, hint_;
};

enum class LogLevel { info, warning };

struct ContextOptions {
  // That sessions, engines and trainers share, their caller's included; 0: one per CPU; at most 1024.
  int threads = 0;
  // ref, avx2, avx512, avx512bf16 or amx; "": the widest that the machine has.
  std::string instruction_set = {};
  // Bytes that models, sessions, engines and trainers may take together, 0: no limit. What one will take is
  // known, or estimated, and refused before it is allocated. Files count in full, although they are mapped
  // where possible.
  int64_t memory_limit = 0;
  // One line, without its end; called by the thread that calls the library. Without it nothing is said.
  std::function<void(LogLevel, std::string_view line)> log = {};
};

// What models, sessions, engines and trainers share: threads, memory, a log, a way to stop.
class GPTCPP_API Context {
 public:
  explicit Context(const ContextOptions& options = {});

  // Ends all calls under way, and each one that follows until `resume`, with Code::cancelled. Any thread, and
  // signal handlers.
  void cancel() const noexcept;
  void resume() const noexcept;
  int64_t memory_used() const noexcept;  // bytes as the limit counts them

  struct Impl;
  const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// Text to ids and back.
class GPTCPP_API Tokenizer {
 public:
  static Tokenizer bytes();  // every byte is a token
  // A tokenizer.json or any other tokenizer's file that the program reads, or a folder or .gguf that has one.
  static Tokenizer load(const std::string& path);

  struct TrainOptions {
    // All ids: 256 bytes, merges, special tokens. It gets fewer where the text has no more pairs.
    int64_t vocab_size = 4096;
    // How texts are cut into words, as `gpt tokenizer train --pattern` names them.
    std::string pattern = "gpt2";
    std::vector<std::string> special_tokens = {};
  };
  // A byte-level BPE for a text. Cancelling: within 64 MiB of text, or a few merges.
  static Tokenizer train(const Context& context, std::string_view text, const TrainOptions& options);

  int64_t vocab_size() const;  // ids are 0 .. vocab_size() - 1
  // special: the names of special tokens in the text are these tokens. Throws invalid_argument for a text
  // that the vocabulary cannot express. Cannot be cancelled.
  std::vector<int32_t> encode(std::string_view text, bool special = false) const;
  std::string decode(std::span<const int32_t> ids) const;  // bytes: a single id need not be whole characters
  std::string token_bytes(int32_t id) const;
  void save(const std::string& path) const;  // a tokenizer.json; replaces a file in one go

  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  const std::shared_ptr<const Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

struct ModelFacts {
  std::string family;  // model_type of the config.json that can express it
  int64_t parameters = 0, vocab_size = 0;
  int64_t n_ctx = 0, n_layer = 0, n_head = 0, n_embd = 0;
  int64_t bytes = 0;  // of its files, as the memory limit counts them
  bool has_tokenizer = false;
  std::string tokenizer_problem;  // why its own cannot be used; it takes ids alone then
  std::string chat_format;        // "jinja" for a template of its own, "" where there is none that can be run
};

// A LoRA adapter beside a model. path: a folder as PEFT writes it, the run folder of a fine-tuning, or a
// .gguf.
struct AdapterOptions {
  std::string name;  // what GenerateOptions call it
  std::string path;
  double scale = 1;  // of what it adds
};

struct ModelOptions {
  std::string tokenizer = {};  // instead of the model's: byte, or what Tokenizer::load takes
  // Instead of the model's: nanochat, chatml, chatml-qwen2, llama3, llama2, or a .jinja file.
  std::string chat_format = {};
  std::vector<AdapterOptions> adapters = {};
};

// The weights of a model with its tokenizer. Never changes.
class GPTCPP_API Model {
 public:
  // path: a model folder of Hugging Face's, the run folder of a training, a .safetensors beside a
  // config.json, a .gguf, .pt or .bin. Files are mapped, and must not change while the model lives.
  // Cancelling: before and after.
  Model(const Context& context, const std::string& path, const ModelOptions& options = {});

  const ModelFacts& facts() const noexcept;
  Tokenizer tokenizer() const;  // throws unsupported where it has none
  // The ids of a text that something is generated after: behind the token that the model's texts begin with,
  // unless `bos` is false. An empty text is that token, else a newline. special: the names of special tokens
  // in the text are these tokens; else they are text, and the context's log gets a warning about them.
  std::vector<int32_t> prompt_ids(std::string_view text, bool bos = true, bool special = false) const;

  struct Impl;
  const std::shared_ptr<const Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

enum class Finish {
  length,   // max_tokens
  eos,      // the model ended the text
  stop,     // a stop string, the end of a chat's message, the callback, or nothing more fits the grammar
  context,  // the context is full
  error     // of an engine's request: no token could be drawn
};
GPTCPP_API const char* finish_name(Finish finish) noexcept;  // "length", "eos", ...

// How one text goes on. Equal options, seeds and texts give equal results.
struct GenerateOptions {
  int64_t max_tokens = 200;
  double temperature = 0.8;  // 0: always the likeliest
  int64_t top_k = 40;        // 0: off
  double top_p = 1, min_p = 0;
  // The last token that top_p keeps: "crossing", the one before which the sum does not exceed p; "reaching",
  // the one with which it reaches p.
  std::string top_p_rule = "crossing";
  double repetition_penalty = 1, presence_penalty = 0, frequency_penalty = 0;
  std::map<int32_t, double> logit_bias = {};
  uint64_t seed = 1;
  // Of the sample: others give other texts for the same seed. Draws are counted from the first of a call.
  uint64_t number = 0;
  std::vector<std::string> stops = {};  // the text ends before the first of these
  bool ignore_eos = false;
  int64_t logprobs = -1;  // -1: none; 0: of the drawn token; k: and of the k likeliest
  // Of the model's adapters, added up; none: the model alone. Texts with different ones share passes.
  std::vector<std::string> adapters = {};
  // What the text must be; at most one of them is not empty: a grammar in llama.cpp's GBNF, a JSON schema, a
  // regular expression. A text that is whole ends with `stop`, or with `eos` where more could follow; tokens
  // are drawn so that it is whole within max_tokens. Throws invalid_argument for what is malformed, not
  // supported (it is named), or needs more than max_tokens.
  std::string grammar = {}, json_schema = {}, regex = {};
};

// Throws what generating with these options would throw because of them before it begins, invalid_argument
// for most.
GPTCPP_API void check(const Model& model, const GenerateOptions& options);

// Natural logarithms of the model's own probabilities, before penalties and temperature.
struct TokenLogprob {
  int32_t id = -1;
  double logprob = 0;
};
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // likeliest first
};

// A token as it is drawn. `text` is valid UTF-8: what the token completes, often a word, sometimes nothing;
// bytes that are no text become U+FFFD. Without a tokenizer it is always empty.
struct Piece {
  int32_t id = -1;
  std::string_view text;
};
// False ends the text. The last call may have text that was held back, and no id (-1).
using OnPiece = std::function<bool(const Piece&)>;

struct Result {
  std::string text;          // without what ended it
  std::vector<int32_t> ids;  // what was drawn: without the model's end of text, with what made a stop string
  Finish finish = Finish::length;
  int32_t end_id = -1;             // the model's end of text, where that ended it
  std::vector<Logprobs> logprobs;  // of ids and end_id, if asked for
  // Ids that went through the model, and that did not have to, since they were known; 0 where texts share
  // passes.
  int64_t computed_tokens = 0, reused_tokens = 0;
  // Ids that were proposed (SessionOptions::speculate), and those of them that were drawn.
  int64_t draft_tokens = 0, accepted_tokens = 0;
};

// When the context is full.
enum class ContextPolicy {
  stop,  // the text ends
  crop,  // the last n_ctx ids are read anew for each token: exact, slow
  slide  // attention sees the last n_ctx positions: fast, models with rotary positions only
};

struct SessionOptions {
  int64_t n_ctx = 0;       // tokens of context; 0: the model's, at most 8192
  std::string dtype = {};  // of products: fp32 (the default), bf16, fp16, q8_0, q4_0
  // Of cached keys and values: fp32, bf16, fp16, int8, or q4_0 where head_dim is a multiple of 32; "": what
  // suits dtype.
  std::string kv_dtype = {};
  // With dtype bf16: weights are read where the file has them, slower, instead of from a copy in another
  // layout. All other types are read in place where they can be.
  bool in_place = false;
  // Weights that are read where the file has them are copied to memory with large pages, which is read
  // faster: auto, after the first tokens where they are in small pages and take at most half of the free
  // memory; never; always, at once. Their layout and all results stay the same. They belong to the model:
  // after one session or engine has copied them, all sessions read the copy, including those with never.
  std::string repack = "auto";
  ContextPolicy policy = ContextPolicy::stop;
  // Speculative decoding: one pass through the model computes several tokens that are likely to come. Only
  // the time changes, no result. speculate: off; ngram, which proposes what followed the last tokens when
  // they last stood in the text, so texts that repeat themselves or their prompt gain; draft, which has a
  // smaller model of the same vocabulary propose, that of the path `draft`; "": draft where there is one,
  // else off.
  std::string speculate = {}, draft = {};
  int64_t draft_tokens = 16;  // proposed for a text and pass at most, 1 to 64; as many as seem to pay
  int threads = 0;            // that compute, of the context's; 0: all of them
};

// One text that grows. What was read once is not computed again: after `truncate` and other words, only
// these.
class GPTCPP_API Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {});

  // Appends; computes nothing yet. The first text begins with the token that the model's texts begin with.
  // special: as in Model::prompt_ids.
  void feed(std::string_view text, bool special = false);
  void feed(std::span<const int32_t> ids);
  // Goes on with the text, and appends what it drew. An empty session begins as the model's texts do.
  // Cancelling: between tokens, and between 512 tokens of what was fed; what was drawn until then is
  // appended.
  Result generate(const GenerateOptions& options = {}, const OnPiece& on_piece = {});
  // The raw scores of the next token, [vocab_size]; softmax makes probabilities of them. At least one id must
  // have been fed. Cancelling: between 512 tokens of what was fed.
  // adapters: as in GenerateOptions.
  std::span<const float> logits(const std::vector<std::string>& adapters = {});

  const std::vector<int32_t>& ids() const noexcept;
  void truncate(size_t size);  // keeps the first ids; throws invalid_argument beyond their number

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

struct Message {
  std::string role, content;  // role: system, user or assistant
};

// The ids of a conversation in the format of the model, up to where the assistant's next message begins.
// Contents never become special tokens.
GPTCPP_API std::vector<int32_t> chat_prompt(const Model& model, std::span<const Message> messages);

// A conversation. When the context is full the oldest turns are forgotten, the system message never; so the
// policy of its options is stop.
class GPTCPP_API Chat {
 public:
  explicit Chat(const Model& model, const std::string& system = "", const SessionOptions& options = {});
  // The answer to a message. Cancelling: as Session::generate; then the message is answered by what there
  // was.
  Result say(const std::string& message, const GenerateOptions& options = {}, const OnPiece& on_piece = {});
  void reset();  // forgets the conversation

  const char* format() const noexcept;  // its name, as in ModelFacts
  int64_t n_ctx() const noexcept;
  // Of the last message that was answered, or begun to be: the ids that the answer goes on from, and how many
  // of the oldest turns were forgotten for it.
  const std::vector<int32_t>& prompt_ids() const noexcept;
  int64_t forgotten() const noexcept;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

struct EngineOptions {
  int slots = 8;      // texts that grow at once; others wait
  int64_t n_ctx = 0;  // as in SessionOptions
  // Memory of all together, in tokens, at least for one full text. 0: for all slots full, at most 1 GiB.
  int64_t cache_tokens = 0;
  std::string dtype = {}, kv_dtype = {};  // as in SessionOptions, like the rest
  bool in_place = false;
  std::string repack = "auto";
  ContextPolicy policy = ContextPolicy::stop;
  std::string speculate = {}, draft = {};
  int64_t draft_tokens = 16;
  int threads = 0;
};

// Throws what making an Engine with these options would throw because of them and the model's shape,
// invalid_argument or unsupported. A draft model is not opened, and memory not asked for.
GPTCPP_API void check(const Model& model, const EngineOptions& options);

// A new token of a request, or its end.
struct Event {
  int64_t request = 0;
  Piece piece;
  std::optional<Finish> finish;  // set in the request's last event
  std::string_view error;        // with Finish::error
  std::optional<Logprobs> logprobs;
};

// Many texts together: one pass through the model per step for all of them.
class GPTCPP_API Engine {
 public:
  explicit Engine(const Model& model, const EngineOptions& options = {});
  // Queues a request and returns its number: 0, 1, ... special: as in Model::prompt_ids.
  int64_t submit(std::string_view prompt, const GenerateOptions& options = {}, bool special = false);
  int64_t submit(std::span<const int32_t> prompt, const GenerateOptions& options = {});
  bool cancel(int64_t request);  // without further events; false when it has ended
  // One pass of at most 512 tokens through the model; none when idle, or where the last pass has computed
  // more tokens than one of a request, which come one by one. A step that gives no event has read prompts.
  // Cancelling: before the step, which is then not made.
  std::span<const Event> step();
  bool idle() const noexcept;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

// False ends the sample.
using OnSamplePiece = std::function<bool(int64_t prompt, int64_t sample, const Piece& piece)>;

// Goes on with every prompt n times, as many together as there are slots; the results by prompt, then by
// sample. Sample s of prompt p is number options.number + p · n + s. max_tokens may be 0. All prompts are
// checked before anything is generated. Cancelling: as Engine::step.
GPTCPP_API std::vector<Result> generate(const Model& model, std::span<const std::vector<int32_t>> prompts,
                                        const GenerateOptions& options = {}, int64_t n = 1,
                                        const EngineOptions& engine = {}, const OnSamplePiece& on_piece = {});

struct BeamOptions {
  int64_t width = 5;  // beams that are kept
  int64_t max_tokens = 200;
  double length_penalty = 0;            // beams are ranked by log-probability / length ^ penalty
  std::vector<std::string> stops = {};  // a text ends before the first of these; its ids do not
  bool ignore_eos = false;
  std::vector<std::string> adapters = {};  // as in GenerateOptions
};
struct Beam {
  Result result;
  double score = 0;
};
// The likeliest texts that beam search finds after a prompt, best first. Slots and memory are what the beams
// need. Cannot be cancelled.
GPTCPP_API std::vector<Beam> beam_search(const Model& model, std::span<const int32_t> prompt,
                                         const BeamOptions& options = {}, const SessionOptions& session = {});

// Keys and values as `gpt train` has its flags, with underscores: {"preset", "tiny"}, {"steps", "100"}, ...
// What is a list there is one value here: a file, or a folder of them.
using Settings = std::map<std::string, std::string>;

struct TrainProgress {
  int64_t step = 0;  // steps done
  double loss = 0;   // of the batch, nats per token
  double gradient_norm = 0, learning_rate = 0;
  bool skipped = false;  // the weights were left as they were
};

// A training run in memory. Its steps are those of `gpt train` with the same settings, bit for bit.
class GPTCPP_API Trainer {
 public:
  // text: what to learn from, UTF-8 unless the tokenizer takes bytes; "" where settings name "data": files,
  // folders, token shards or tales. Settings that say when to evaluate, sample, save or log have no effect.
  Trainer(const Context& context, const Settings& settings, const std::string& text = "");

  // Makes up to n of the steps that are left; returns how many. The callback is called after each; false ends
  // the call. Throws io where the loss or a gradient is no number. Cancelling: between two micro-batches; the
  // step is not made.
  int64_t run(int64_t n, const std::function<bool(const TrainProgress&)>& on_step = {});
  int64_t step() const noexcept;
  // The loss of the text that was held out (val_fraction), in nats per token; nothing where none was.
  // Cancelling: between batches.
  std::optional<double> validation_loss();
  // A folder that Model and every other program of this format load; replaced in one go.
  void save(const std::string& folder) const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

GPTCPP_API const char* version() noexcept;  // "0.1.0"

}  // namespace gptcpp
