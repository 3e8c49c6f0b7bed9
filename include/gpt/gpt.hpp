#pragma once

// C++ interface of libgptcpp: load models, tokenize, generate, serve concurrent requests, train, save.
//
//   gptcpp::Context context;
//   gptcpp::Model model(context, "model-folder");
//   gptcpp::Session session(model);
//   session.feed("Once upon a time");
//   session.generate({.max_tokens = 50}, [](const gptcpp::Piece& piece) {
//     std::cout << piece.text;
//     return true;  // false would end the generation
//   });
//
// Lifetimes. Every object is a reference-counted handle: a session keeps its model alive, and a model keeps
// its context alive. Copying a handle does not copy the object. Data passed to a callback is valid until the
// callback returns. Data returned by `Engine::step` and `Session::logits` is valid until the next call on the
// same object. A moved-from handle can only be destroyed or assigned to.
//
// Threads. Context, Model and Tokenizer are thread-safe. A Session, Chat, Engine or Trainer must only be used
// by one thread at a time. All objects of a context share its threads. A context with N threads starts N - 1
// workers when they are first needed. A call computes on the calling thread and on the workers that are idle,
// so a call never waits for another call to finish, and a call that runs alone has all threads. Results do
// not depend on the number of threads or on concurrent calls. A callback of a Session or Chat may call the
// const functions of that object. Its other functions throw invalid_argument.
//
// Errors. All functions report errors by throwing Error. Exceptions thrown by a callback are passed through
// unchanged. Unless documented otherwise, a call that throws changes nothing that later results depend on.
// The library never prints, exits, reads environment variables or changes signal handlers.
//
// Binary interface. C++ standard library types cross the boundary of the shared library. A program must
// therefore be compiled with the standard library that libgptcpp was built with, and with the same settings
// that affect type layouts (_GLIBCXX_USE_CXX11_ABI, _GLIBCXX_DEBUG). For other compilers and languages, use
// gpt.h.
//
// Cancellation. Context::cancel() can be called from any thread. Calls in flight then throw Code::cancelled.
// The comment of each function documents how soon it reacts.

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

#include "gpt/sampling.hpp"

#ifndef GPTCPP_API
#define GPTCPP_API __attribute__((visibility("default")))
#endif

namespace gptcpp {

// Error codes, with the same values as gpt_status in gpt.h.
enum class Code {
  invalid_argument = 1,  // an option, setting, id or text is invalid
  not_found = 2,         // no such file or folder
  io = 3,  // a file is unreadable, damaged or incompatible, the disk is full, or a value is NaN or infinite
  out_of_memory = 4,  // the memory limit of the context is exceeded, or the machine is out of memory
  cancelled = 5,      // Context::cancel() was called
  unsupported = 6,    // this model, machine or version does not support the feature
  internal = 7        // a bug in the library
};

class GPTCPP_API Error : public std::runtime_error {
 public:
  Error(Code code, const std::string& message, std::string object = "", std::string expected = "",
        std::string found = "", std::string hint = "");
  ~Error() override;
  Code code() const noexcept { return code_; }
  // The parts of the message; a part is "" if unknown. The message names options in backquotes: `n_ctx`.
  const std::string& object() const noexcept { return object_; }      // the option or path in question
  const std::string& expected() const noexcept { return expected_; }  // the expected value, e.g. "0 to 1024"
  const std::string& found() const noexcept { return found_; }        // the value found, e.g. "-1"
  const std::string& hint() const noexcept { return hint_; }          // how to fix the problem

 private:
  Code code_;
  std::string object_, expected_, found_, hint_;
};

enum class LogLevel { info, warning };

struct ContextOptions {
  // Number of threads shared by all sessions, engines and trainers of the context, including the calling
  // thread, at most 1024. 0: one per CPU.
  int threads = 0;
  // The instruction set of the CPU kernels: ref, avx2, avx512, avx512bf16 or amx. "": the best one that the
  // CPU supports.
  std::string instruction_set = {};
  // Maximum total memory of models, sessions, engines and trainers, in bytes. 0: no limit. The memory of an
  // object is computed or estimated before it is allocated; if the object does not fit, its constructor
  // throws out_of_memory. The tensors of model files count with their full size, although they are
  // memory-mapped if possible.
  int64_t memory_limit = 0;
  // Receives each log line, without the newline, on the thread that called the library. Empty: no logging.
  std::function<void(LogLevel, std::string_view line)> log = {};
};

// The threads, memory limit, log and cancellation flag that models, sessions, engines and trainers share.
class GPTCPP_API Context {
 public:
  explicit Context(const ContextOptions& options = {});

  // Makes all calls in flight, and every later call until `resume`, throw Code::cancelled. Can be called from
  // any thread and from signal handlers.
  void cancel() const noexcept;
  void resume() const noexcept;
  int64_t memory_used() const noexcept;  // bytes in use, as counted by ContextOptions::memory_limit

  struct Impl;
  const std::shared_ptr<Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<Impl> impl_;
};

// Converts text to token ids and back.
class GPTCPP_API Tokenizer {
 public:
  static Tokenizer bytes();  // returns a tokenizer in which every byte is a token
  // Loads a tokenizer.json or any other supported tokenizer file. `path` can also be a folder or a .gguf file
  // that contains one.
  static Tokenizer load(const std::string& path);

  struct TrainOptions {
    // Total number of ids: 256 bytes, merges and special tokens. The result is smaller if the text has too
    // few distinct pairs.
    int64_t vocab_size = 4096;
    // Name of the pre-tokenization pattern, as in `gpt tokenizer train --pattern`.
    std::string pattern = "gpt2";
    std::vector<std::string> special_tokens = {};
  };
  // Trains a byte-level BPE on a text. Cancellation takes effect within 64 MiB of text or a few merges.
  static Tokenizer train(const Context& context, std::string_view text, const TrainOptions& options);

  int64_t vocab_size() const;  // valid ids are 0 .. vocab_size() - 1
  // Returns the token ids of a text. special: encode the names of special tokens in the text as those tokens,
  // not as plain text. Throws invalid_argument if the vocabulary cannot represent the text. Cannot be
  // cancelled.
  std::vector<int32_t> encode(std::string_view text, bool special = false) const;
  // Returns the bytes of the tokens. A token may end inside a UTF-8 character.
  std::string decode(std::span<const int32_t> ids) const;
  std::string token_bytes(int32_t id) const;
  void save(const std::string& path) const;  // writes a tokenizer.json, atomically

  struct Impl;
  explicit Tokenizer(std::shared_ptr<const Impl> impl) noexcept : impl_(std::move(impl)) {}
  const std::shared_ptr<const Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

struct ModelFacts {
  std::string family;  // architecture of the model, as the model_type in config.json
  int64_t parameters = 0, vocab_size = 0;
  int64_t n_ctx = 0, n_layer = 0, n_head = 0, n_embd = 0;
  int64_t bytes = 0;  // size of the tensors in the model files, as counted by the memory limit
  bool has_tokenizer = false;
  // Why the model's own tokenizer is unusable, or "". A model without a usable tokenizer only accepts ids.
  std::string tokenizer_problem;
  // Name of the chat format: "jinja" for the model's own template, "" if there is no usable format.
  std::string chat_format;
};

// A LoRA adapter for a model. `path` is a PEFT folder, the run folder of `gpt finetune`, or a .gguf file.
struct AdapterOptions {
  std::string name;  // the name used in GenerateOptions::adapters
  std::string path;
  double scale = 1;  // multiplies the adapter's output
};

struct ModelOptions {
  std::string tokenizer = {};  // replaces the model's tokenizer: "byte", or a path as in Tokenizer::load
  // Replaces the model's chat format: nanochat, chatml, chatml-qwen2, llama3, llama2, or the path of a .jinja
  // file.
  std::string chat_format = {};
  std::vector<AdapterOptions> adapters = {};
};

// The weights of a model and its tokenizer. Immutable.
class GPTCPP_API Model {
 public:
  // Loads a model. `path` is a Hugging Face model folder, the run folder of a training run, a .safetensors
  // file next to a config.json, or a .gguf, .pt or .bin file. The files are memory-mapped and must not change
  // during the lifetime of the model. Cancellation is only checked before and after loading.
  Model(const Context& context, const std::string& path, const ModelOptions& options = {});

  const ModelFacts& facts() const noexcept;
  Tokenizer tokenizer() const;  // throws unsupported if the model has no usable tokenizer
  // Returns the ids of a prompt. The BOS token comes first if the model's texts start with one and `bos` is
  // true. For an empty text, returns only the BOS token, or a newline if the model has none. special: encode
  // the names of special tokens in the text as those tokens. Otherwise these names are plain text, and the
  // context's log receives a warning about them.
  std::vector<int32_t> prompt_ids(std::string_view text, bool bos = true, bool special = false) const;

  struct Impl;
  const std::shared_ptr<const Impl>& impl() const noexcept { return impl_; }

 private:
  std::shared_ptr<const Impl> impl_;
};

enum class Finish {
  length,  // max_tokens was reached
  eos,     // the model sampled an EOS token
  // A stop string was found, the chat message ended, a callback returned false, or the grammar is complete.
  stop,
  context,  // the context is full
  error     // only for requests of an Engine: no token could be sampled
};
GPTCPP_API const char* finish_name(Finish finish) noexcept;  // "length", "eos", ...

// Options for continuing a text. The same text, options and seed always give the same result.
struct GenerateOptions {
  int64_t max_tokens = 200;  // maximum new tokens
  uint64_t seed = 1;
  // Number of the sample: different numbers give independent samples for the same seed. The random number of
  // a token depends on the seed, this number and the token's index among the new tokens of the call.
  uint64_t number = 0;
  std::vector<std::string> stops = {};  // the text ends before the first of these strings
  bool ignore_eos = false;
  int64_t logprobs = -1;  // -1: none; 0: for the sampled token; k: also for the k most likely tokens
  // Names of the adapters to apply; their outputs are added up. Empty: only the base model. Texts with
  // different adapters share forward passes.
  std::vector<std::string> adapters = {};
  // Constrains the text to a grammar (llama.cpp's GBNF), a JSON schema or a regular expression. At most one
  // of the three may be set. When the text is complete it ends with Finish::stop, or with Finish::eos if the
  // grammar would allow more text. Sampling ensures that the text is complete within max_tokens. Throws
  // invalid_argument if the grammar is malformed, uses an unsupported feature (named in the message), or
  // needs more than max_tokens.
  std::string grammar = {}, json_schema = {}, regex = {};
  // The last member, because g++ 12 destroys the parts of a member twice if the initializer of a later member
  // throws.
  SamplingParams sampling = {};
};

// Validates options: throws the errors, mostly invalid_argument, that generation with these options would
// throw before the first token.
GPTCPP_API void check(const Model& model, const GenerateOptions& options);

// Natural logarithm of a token's probability under the model, before penalties and temperature.
struct TokenLogprob {
  int32_t id = -1;
  double logprob = 0;
};
struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> top;  // most likely first
};

// A newly sampled token. `text` is the valid UTF-8 that the token completes: often a word, sometimes nothing.
// Invalid bytes become U+FFFD. `text` is always empty if the model has no tokenizer.
struct Piece {
  int32_t id = -1;
  std::string_view text;
};
// Called for every new piece. Return false to end the text. The last call may pass text that was held back,
// with id -1.
using OnPiece = std::function<bool(const Piece&)>;

struct Result {
  std::string text;          // the generated text, without the stop string or EOS token that ended it
  std::vector<int32_t> ids;  // the sampled ids: without the EOS token, but with the tokens of a stop string
  Finish finish = Finish::length;
  int32_t end_id = -1;             // the EOS or end-of-message token that ended the text; -1 if none did
  std::vector<Logprobs> logprobs;  // one entry per id of `ids` and `end_id`, if requested
  // Number of ids that the model computed, and number of ids found in the KV cache. Both are 0 in results of
  // generate() and beam_search(), where several texts share forward passes.
  int64_t computed_tokens = 0, reused_tokens = 0;
  // With speculative decoding: number of draft tokens, and how many of them were accepted.
  int64_t draft_tokens = 0, accepted_tokens = 0;
};

// The behavior when the context is full.
enum class ContextPolicy {
  stop,  // the text ends
  crop,  // the last n_ctx ids are recomputed for every token: exact but slow
  slide  // attention covers the last n_ctx positions: fast; requires rotary positions
};

struct SessionOptions {
  int64_t n_ctx = 0;       // context length in tokens; 0: the model's context length, at most 8192
  std::string dtype = {};  // dtype of the weights in matmuls: fp32 (the default), bf16, fp16, q8_0 or q4_0
  // Dtype of the KV cache: fp32, bf16, fp16, int8, or q4_0 if head_dim is a multiple of 32. "": chosen to
  // suit `dtype`.
  std::string kv_dtype = {};
  // If true, bf16 weights are read directly from the mapped file. This is slower than reading a repacked
  // copy, which is the default. Only has an effect with dtype bf16: with other dtypes, weights are always
  // read from the mapped file if possible.
  bool in_place = false;
  // Whether to copy mapped weights into memory with huge pages, which is faster to read. "auto": copy after
  // the first tokens if the weights are in small pages and take at most half of the free memory. "never": do
  // not copy. "always": copy immediately. Layout and results do not change. The copy belongs to the model:
  // after one session or engine has made it, all sessions of the model read the copy, including those with
  // "never".
  std::string repack = "auto";
  ContextPolicy policy = ContextPolicy::stop;
  // Speculative decoding: a drafter proposes tokens and one forward pass verifies several of them. Results
  // are bit-identical to those without speculation. "off": disabled. "ngram": drafts the tokens that followed
  // the previous occurrence of the last tokens, which helps if a text repeats itself or its prompt. "draft":
  // uses a smaller model with the same vocabulary, loaded from the path `draft`. "": "draft" if `draft` is
  // set, else "off".
  std::string speculate = {}, draft = {};
  // Maximum number of draft tokens per text and pass, 1 to 64. Fewer are drafted if more would not pay.
  int64_t draft_tokens = 16;
  int threads = 0;  // number of the context's threads to use; 0: all
};

// A growing text with its KV cache. Every id is computed only once; after `truncate`, only the ids appended
// later are computed.
class GPTCPP_API Session {
 public:
  explicit Session(const Model& model, const SessionOptions& options = {});

  // Appends text to the session without computing anything yet. The BOS token is inserted before the first
  // text if the model's texts start with one. special: as in Model::prompt_ids.
  void feed(std::string_view text, bool special = false);
  void feed(std::span<const int32_t> ids);
  // Continues the text and appends the sampled ids. An empty session starts with the ids of an empty prompt
  // (see Model::prompt_ids). Can be cancelled between tokens, and between chunks of 512 ids of the prompt.
  // Tokens sampled before the cancellation are kept.
  Result generate(const GenerateOptions& options = {}, const OnPiece& on_piece = {});
  // Returns the logits of the next token, [vocab_size]. At least one id must have been fed. Can be cancelled
  // between chunks of 512 ids. adapters: as in GenerateOptions.
  std::span<const float> logits(const std::vector<std::string>& adapters = {});

  const std::vector<int32_t>& ids() const noexcept;
  void truncate(size_t size);  // keeps the first `size` ids; throws invalid_argument if there are fewer

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

struct Message {
  std::string role, content;  // role is "system", "user" or "assistant"
};

// Returns the ids of a conversation in the model's chat format, ending where the assistant's next message
// starts. Message contents are never encoded as special tokens.
GPTCPP_API std::vector<int32_t> chat_prompt(const Model& model, std::span<const Message> messages);

// A conversation. When the context is full, the oldest turns are dropped, but never the system message.
// SessionOptions::policy must therefore be ContextPolicy::stop.
class GPTCPP_API Chat {
 public:
  explicit Chat(const Model& model, const std::string& system = "", const SessionOptions& options = {});
  // Returns the model's response to a message. Can be cancelled like Session::generate; the partial response
  // then counts as the response.
  Result say(const std::string& message, const GenerateOptions& options = {}, const OnPiece& on_piece = {});
  void reset();  // forgets the conversation

  const char* format() const noexcept;  // name of the chat format, as in ModelFacts::chat_format
  int64_t n_ctx() const noexcept;
  // Return the prompt of the last response, complete or partial, and the number of oldest turns that were
  // dropped to make that prompt fit into the context.
  const std::vector<int32_t>& prompt_ids() const noexcept;
  int64_t forgotten() const noexcept;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

struct EngineOptions {
  int slots = 8;      // maximum texts generated concurrently; further requests are queued
  int64_t n_ctx = 0;  // as in SessionOptions
  // Size in tokens of the KV cache that all slots share; at least one full context. 0: one full context per
  // slot, but at most 1 GiB in total.
  int64_t cache_tokens = 0;
  std::string dtype = {}, kv_dtype = {};  // this field and all below: as in SessionOptions
  bool in_place = false;
  std::string repack = "auto";
  ContextPolicy policy = ContextPolicy::stop;
  std::string speculate = {}, draft = {};
  int64_t draft_tokens = 16;
  int threads = 0;
};

// Validates options: throws invalid_argument or unsupported if an Engine with these options cannot be
// constructed because of the options or the model's shape. Does not open the draft model or check for free
// memory.
GPTCPP_API void check(const Model& model, const EngineOptions& options);

// A new token of a request, or the end of the request.
struct Event {
  int64_t request = 0;
  Piece piece;
  std::optional<Finish> finish;  // set in the last event of a request
  std::string_view error;        // the message, with Finish::error
  std::optional<Logprobs> logprobs;
};

// Generates many texts concurrently (continuous batching): each step is one forward pass over all of them.
class GPTCPP_API Engine {
 public:
  explicit Engine(const Model& model, const EngineOptions& options = {});
  // Queues a request and returns its number: 0, 1, ... special: as in Model::prompt_ids.
  int64_t submit(std::string_view prompt, const GenerateOptions& options = {}, bool special = false);
  int64_t submit(std::span<const int32_t> prompt, const GenerateOptions& options = {});
  // Ends a request without further events. Returns false if the request has already ended.
  bool cancel(int64_t request);
  // Runs one forward pass over at most 512 tokens and returns the new events. No pass runs if the engine is
  // idle, or if the last pass verified several draft tokens of a request, which are returned one per step. A
  // step that only computes prompts returns no events. Cancellation is checked before the step; a cancelled
  // step has no effect.
  std::span<const Event> step();
  bool idle() const noexcept;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

// Called for every new piece of a sample. Return false to end the sample.
using OnSamplePiece = std::function<bool(int64_t prompt, int64_t sample, const Piece& piece)>;

// Generates n samples for every prompt, as many concurrently as there are slots. Returns the results ordered
// by prompt, then by sample. Sample s of prompt p has the number options.number + p · n + s. max_tokens may
// be 0. All prompts are checked before anything is generated. Can be cancelled before each step, like
// Engine::step.
GPTCPP_API std::vector<Result> generate(const Model& model, std::span<const std::vector<int32_t>> prompts,
                                        const GenerateOptions& options = {}, int64_t n = 1,
                                        const EngineOptions& engine = {}, const OnSamplePiece& on_piece = {});

struct BeamOptions {
  int64_t width = 5;  // number of beams
  int64_t max_tokens = 200;
  double length_penalty = 0;  // rank beams by log-probability / length ^ length_penalty
  // The text of a beam ends before the first of these strings; the ids include the tokens of that string.
  std::vector<std::string> stops = {};
  bool ignore_eos = false;
  std::vector<std::string> adapters = {};  // as in GenerateOptions
};
struct Beam {
  Result result;
  double score = 0;
};
// Returns the most likely continuations of a prompt that beam search finds, best first. The number of slots
// and the size of the KV cache follow from the number of beams. Cannot be cancelled.
GPTCPP_API std::vector<Beam> beam_search(const Model& model, std::span<const int32_t> prompt,
                                         const BeamOptions& options = {}, const SessionOptions& session = {});

// Flags of `gpt train`, written with underscores, and their values: {"preset", "tiny"}, {"steps", "100"}, ...
// A flag that takes a list has a single value here, for example one file or one folder of files.
using Settings = std::map<std::string, std::string>;

struct TrainProgress {
  int64_t step = 0;  // steps completed
  double loss = 0;   // loss of the batch, in nats per token
  double gradient_norm = 0, learning_rate = 0;
  bool skipped = false;  // true if the step left the weights unchanged
};

// A training run in memory. Its steps are bit-identical to those of `gpt train` with the same settings.
class GPTCPP_API Trainer {
 public:
  // text: the training text, UTF-8 unless the tokenizer accepts any bytes. "": the setting "data" names
  // files, folders, token shards or a data set such as "tales". Settings for evaluation, sampling, checkpoint
  // and logging intervals have no effect.
  Trainer(const Context& context, const Settings& settings, const std::string& text = "");

  // Runs up to n of the remaining steps and returns the number of steps completed. on_step is called after
  // each step; return false to end the call. Throws io if the loss or a gradient is NaN or infinite. Can be
  // cancelled between micro-batches; the interrupted step is discarded.
  int64_t run(int64_t n, const std::function<bool(const TrainProgress&)>& on_step = {});
  int64_t step() const noexcept;
  // Returns the loss on the held-out text (val_fraction) in nats per token, or nothing if no text is held
  // out. Can be cancelled between batches.
  std::optional<double> validation_loss();
  // Saves a folder that Model and other programs for the Hugging Face format can load. Replaces an existing
  // folder atomically.
  void save(const std::string& folder) const;

  struct Impl;

 private:
  std::shared_ptr<Impl> impl_;
};

GPTCPP_API const char* version() noexcept;  // "0.1.0"

}  // namespace gptcpp
