#include <algorithm>
#include <charconv>
#include <cstdio>
#include <new>

#include "gpt/gpt.h"
#include "gpt/gpt.hpp"

using gptcpp::Code;
using gptcpp::Error;

// Defines a handle struct with the given members, and the function that frees the handle.
#define GPT_HANDLE(name, members)              \
  struct gpt_##name {                          \
    members                                    \
  };                                           \
  void gpt_##name##_free(gpt_##name* handle) { \
    delete handle;                             \
  }
GPT_HANDLE(context, gptcpp::Context value;)
GPT_HANDLE(model, gptcpp::Model value;)
GPT_HANDLE(tokenizer, gptcpp::Tokenizer value;)
GPT_HANDLE(session, gptcpp::Session value;)
GPT_HANDLE(chat, gptcpp::Chat value;)
GPT_HANDLE(engine, gptcpp::Engine value; std::vector<gpt_event> events;)
GPT_HANDLE(trainer, gptcpp::Trainer value;)

namespace {

thread_local char last_error[1024] = "";

gpt_status failed(Code code, const char* text) noexcept {
  std::snprintf(last_error, sizeof last_error, "%s", text);
  return static_cast<gpt_status>(code);
}

// Runs the body of a C function and converts its exceptions to a status and the text of gpt_last_error.
template <class F>
gpt_status guarded(F&& f) noexcept {
  try {
    f();
    return GPT_OK;
  } catch (const Error& error) {
    return failed(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return failed(Code::out_of_memory, "not enough memory");
  } catch (const std::exception& error) {
    return failed(Code::internal, error.what());
  } catch (...) {
    return failed(Code::internal, "unknown exception");
  }
}

[[noreturn]] void invalid(const std::string& name, const std::string& message) {
  throw Error(Code::invalid_argument, name + ": " + message, name);
}

template <class T>
T& require(T* pointer, const char* name) {
  if (pointer == nullptr) invalid(name, "expected a pointer, found NULL");
  return *pointer;
}

// Creates a handle from the value that `make` returns and stores it in *handle.
template <class Handle, class F>
gpt_status make_handle(Handle** handle, const char* name, F&& make) noexcept {
  return guarded([&] {
    Handle*& out = require(handle, name);
    out = new Handle{make()};
  });
}

std::string_view text_of(const char* text, size_t size) {
  if (size > 0) require(text, "text");
  return {text == nullptr ? "" : text, size};
}

template <class T>
std::span<const T> span_of(const T* data, size_t count) {
  if (count > 0) require(data, "ids");
  return {data, count};
}

// The "key=value" strings of a call. `take` reads an option into a variable; `end` rejects the options that
// were not taken.
class Options {
 public:
  explicit Options(gpt_options list) {
    for (; list != nullptr && *list != nullptr; ++list) {
      const std::string_view entry = *list;
      const size_t equals = entry.find('=');
      if (equals == std::string_view::npos)
        invalid("options", "expected key=value, found \"" + std::string(entry) + "\"");
      left_.emplace_back(entry.substr(0, equals), entry.substr(equals + 1));
    }
  }

  template <class T>
  Options& take(const char* key, T& field) {
    std::erase_if(left_, [&](const auto& entry) { return entry.first == key && (read(entry, field), true); });
    return *this;
  }
  void end() const {
    if (!left_.empty()) invalid(left_[0].first, "unknown option");
  }
  const std::vector<std::pair<std::string, std::string>>& left() const { return left_; }

 private:
  using Entry = std::pair<std::string, std::string>;
  static void read(const Entry& entry, std::string& field) { field = entry.second; }
  static void read(const Entry& entry, std::vector<std::string>& field) { field.push_back(entry.second); }
  // Parses NAME=PATH or NAME=PATH=SCALE.
  static void read(const Entry& entry, std::vector<gptcpp::AdapterOptions>& field) {
    const std::string& text = entry.second;
    const size_t name = text.find('=');
    if (name == std::string::npos || name == 0)
      invalid(entry.first, "expected NAME=PATH or NAME=PATH=SCALE, found \"" + text + "\"");
    const size_t scale = text.find('=', name + 1);
    gptcpp::AdapterOptions& adapter = field.emplace_back();
    adapter.name = text.substr(0, name);
    adapter.path = text.substr(name + 1, scale == std::string::npos ? scale : scale - name - 1);
    if (scale != std::string::npos) read({entry.first, text.substr(scale + 1)}, adapter.scale);
  }
  static void read(const Entry& entry, bool& field) {
    if (entry.second != "true" && entry.second != "false")
      invalid(entry.first, "expected true or false, found \"" + entry.second + "\"");
    field = entry.second == "true";
  }
  static void read(const Entry& entry, gptcpp::ContextPolicy& field) {
    constexpr const char* kNames[] = {"stop", "crop", "slide"};
    field = static_cast<gptcpp::ContextPolicy>(number_of(entry, kNames));
  }
  static void read(const Entry& entry, gptcpp::TopPRule& field) {
    field = static_cast<gptcpp::TopPRule>(number_of(entry, gptcpp::kTopPRules));
  }
  // Returns the index of the value in `names`.
  static std::ptrdiff_t number_of(const Entry& entry, std::span<const char* const> names) {
    const auto found = std::find(names.begin(), names.end(), entry.second);
    if (found != names.end()) return found - names.begin();
    std::string expected;
    for (const char* const& name : names)
      expected += std::string(&name == &names.front() ? "" : &name == &names.back() ? " or " : ", ") + name;
    invalid(entry.first, "expected " + expected + ", found \"" + entry.second + "\"");
  }
  static void read(const Entry& entry, std::map<int32_t, double>& field) {
    const size_t equals = entry.second.find('=');
    if (equals == std::string::npos)
      invalid(entry.first, "expected ID=VALUE, found \"" + entry.second + "\"");
    int32_t id = 0;
    read({entry.first, entry.second.substr(0, equals)}, id);
    read({entry.first, entry.second.substr(equals + 1)}, field[id]);
  }
  template <class Number>
  static void read(const Entry& entry, Number& field) {
    const char* const end = entry.second.data() + entry.second.size();
    const auto [stop, error] = std::from_chars(entry.second.data(), end, field);
    if (error != std::errc() || stop != end)
      invalid(entry.first, "expected a number, found \"" + entry.second + "\"");
  }

  std::vector<Entry> left_;
};

// Parses the options of GenerateOptions. Functions that take a prompt also accept the option "special", which
// is stored in *special. If `special` is null, the option is rejected.
gptcpp::GenerateOptions generate_options(gpt_options list, bool* special = nullptr) {
  gptcpp::GenerateOptions o;
  Options options(list);
  if (special != nullptr) options.take("special", *special);
  gptcpp::visit_sampling(
      o.sampling, [&](const gptcpp::SamplingField& field, auto& value) { options.take(field.name, value); });
  options.take("max_tokens", o.max_tokens)
      .take("seed", o.seed)
      .take("number", o.number)
      .take("stop", o.stops);
  options.take("ignore_eos", o.ignore_eos).take("adapter", o.adapters);
  options.take("grammar", o.grammar).take("json_schema", o.json_schema).take("regex", o.regex).end();
  return o;
}

// Reads the options that sessions and engines have in common.
template <class T>
void take_common(Options& options, T& o) {
  options.take("n_ctx", o.n_ctx).take("dtype", o.dtype).take("kv_dtype", o.kv_dtype);
  options.take("in_place", o.in_place)
      .take("repack", o.repack)
      .take("policy", o.policy)
      .take("speculate", o.speculate);
  options.take("draft", o.draft).take("draft_tokens", o.draft_tokens).take("threads", o.threads);
}

gptcpp::SessionOptions session_options(gpt_options list) {
  gptcpp::SessionOptions o;
  Options options(list);
  take_common(options, o);
  options.end();
  return o;
}

gptcpp::OnPiece on_piece_of(gpt_on_piece on_piece, void* user) {
  if (on_piece == nullptr) return {};
  return [=](const gptcpp::Piece& p) { return on_piece(user, p.text.data(), p.text.size(), p.id) != 0; };
}

void finish_with(gpt_finish* finish, const gptcpp::Result& result) {
  if (finish != nullptr) *finish = static_cast<gpt_finish>(result.finish);
}

template <class T>
void copy_out(std::span<const T> found, T* out, size_t capacity, size_t* count) {
  size_t& n = require(count, "count");
  if (capacity > 0) std::copy_n(found.begin(), std::min(capacity, found.size()), &require(out, "out"));
  n = found.size();
}

template <class T>
void show(std::span<T> found, std::remove_const_t<T> const** out, const char* name, size_t* count) {
  size_t& n = require(count, "count");
  require(out, name) = found.data();
  n = found.size();
}

}  // namespace

uint32_t gpt_api_version(void) {
  return GPT_API_VERSION;
}

const char* gpt_status_text(gpt_status status) {
  const char* const texts[] = {
      "ok",        "invalid argument", "not found",     "read or write error", "out of memory",
      "cancelled", "unsupported",      "internal error"};
  static_assert(std::size(texts) == GPT_INTERNAL + 1);
  const auto at = static_cast<size_t>(status);
  return at < std::size(texts) ? texts[at] : "unknown status";
}

const char* gpt_last_error(void) {
  return last_error;
}

gpt_status gpt_context_new(gpt_options list, gpt_on_log log, void* user, gpt_context** context) {
  return make_handle(context, "context", [&] {
    gptcpp::ContextOptions o;
    Options options(list);
    options.take("threads", o.threads).take("instruction_set", o.instruction_set);
    options.take("memory_limit", o.memory_limit).end();
    if (log != nullptr) {
      o.log = [=](gptcpp::LogLevel level, std::string_view line) {
        log(user, static_cast<int>(level), line.data(), line.size());
      };
    }
    return gptcpp::Context(o);
  });
}

gpt_status gpt_cancel(const gpt_context* context) {
  return guarded([&] { require(context, "context").value.cancel(); });
}

gpt_status gpt_resume(const gpt_context* context) {
  return guarded([&] { require(context, "context").value.resume(); });
}

gpt_status gpt_model_load(const gpt_context* context, const char* path, gpt_options list, gpt_model** model) {
  return make_handle(model, "model", [&] {
    gptcpp::ModelOptions o;
    Options options(list);
    options.take("tokenizer", o.tokenizer).take("chat_format", o.chat_format);
    options.take("adapter", o.adapters).end();
    return gptcpp::Model(require(context, "context").value, &require(path, "path"), o);
  });
}

gpt_status gpt_model_fact(const gpt_model* model, const char* name, int64_t* value) {
  return guarded([&] {
    const gptcpp::ModelFacts& f = require(model, "model").value.facts();
    const std::pair<std::string_view, int64_t> facts[] = {{"parameters", f.parameters},
                                                          {"vocab_size", f.vocab_size},
                                                          {"n_ctx", f.n_ctx},
                                                          {"n_layer", f.n_layer},
                                                          {"n_head", f.n_head},
                                                          {"n_embd", f.n_embd},
                                                          {"bytes", f.bytes},
                                                          {"has_tokenizer", f.has_tokenizer},
                                                          {"has_chat_format", !f.chat_format.empty()}};
    const std::string_view wanted = &require(name, "name");
    const auto found =
        std::find_if(std::begin(facts), std::end(facts), [&](auto& fact) { return fact.first == wanted; });
    if (found == std::end(facts)) invalid("name", "unknown fact " + std::string(wanted));
    require(value, "value") = found->second;
  });
}

gpt_status gpt_tokenizer_of(const gpt_model* model, gpt_tokenizer** tokenizer) {
  return make_handle(tokenizer, "tokenizer", [&] { return require(model, "model").value.tokenizer(); });
}

gpt_status gpt_tokenizer_load(const char* path, gpt_tokenizer** tokenizer) {
  return make_handle(tokenizer, "tokenizer", [&] {
    const std::string name = &require(path, "path");
    return name == "byte" ? gptcpp::Tokenizer::bytes() : gptcpp::Tokenizer::load(name);
  });
}

gpt_status gpt_tokenizer_train(const gpt_context* context, const char* text, size_t size, gpt_options list,
                               gpt_tokenizer** tokenizer) {
  return make_handle(tokenizer, "tokenizer", [&] {
    gptcpp::Tokenizer::TrainOptions o;
    Options options(list);
    options.take("vocab_size", o.vocab_size).take("pattern", o.pattern);
    options.take("special_token", o.special_tokens).end();
    return gptcpp::Tokenizer::train(require(context, "context").value, text_of(text, size), o);
  });
}

gpt_status gpt_tokenizer_save(const gpt_tokenizer* tokenizer, const char* path) {
  return guarded([&] { require(tokenizer, "tokenizer").value.save(&require(path, "path")); });
}

namespace {

gpt_status encode(const gpt_tokenizer* tokenizer, const char* text, size_t size, bool special, int32_t* ids,
                  size_t capacity, size_t* count) {
  return guarded([&] {
    const std::vector<int32_t> found =
        require(tokenizer, "tokenizer").value.encode(text_of(text, size), special);
    copy_out<int32_t>(found, ids, capacity, count);
  });
}

}  // namespace

gpt_status gpt_encode(const gpt_tokenizer* tokenizer, const char* text, size_t size, int32_t* ids,
                      size_t capacity, size_t* count) {
  return encode(tokenizer, text, size, false, ids, capacity, count);
}

gpt_status gpt_encode_special(const gpt_tokenizer* tokenizer, const char* text, size_t size, int32_t* ids,
                              size_t capacity, size_t* count) {
  return encode(tokenizer, text, size, true, ids, capacity, count);
}

gpt_status gpt_decode(const gpt_tokenizer* tokenizer, const int32_t* ids, size_t count, char* text,
                      size_t capacity, size_t* size) {
  return guarded([&] {
    const std::string found = require(tokenizer, "tokenizer").value.decode(span_of(ids, count));
    copy_out<char>(found, text, capacity, size);
  });
}

gpt_status gpt_session_new(const gpt_model* model, gpt_options options, gpt_session** session) {
  return make_handle(session, "session", [&] {
    return gptcpp::Session(require(model, "model").value, session_options(options));
  });
}

gpt_status gpt_feed(gpt_session* session, const char* text, size_t size) {
  return guarded([&] { require(session, "session").value.feed(text_of(text, size)); });
}

gpt_status gpt_feed_special(gpt_session* session, const char* text, size_t size) {
  return guarded([&] { require(session, "session").value.feed(text_of(text, size), true); });
}

gpt_status gpt_feed_ids(gpt_session* session, const int32_t* ids, size_t count) {
  return guarded([&] { require(session, "session").value.feed(span_of(ids, count)); });
}

gpt_status gpt_generate(gpt_session* session, gpt_options options, gpt_on_piece on_piece, void* user,
                        gpt_finish* finish) {
  return guarded([&] {
    gptcpp::Session& s = require(session, "session").value;
    finish_with(finish, s.generate(generate_options(options), on_piece_of(on_piece, user)));
  });
}

gpt_status gpt_logits(gpt_session* session, const float** logits, size_t* count) {
  return guarded([&] {
    const std::span<const float> found = require(session, "session").value.logits();
    show(found, logits, "logits", count);
  });
}

gpt_status gpt_ids(const gpt_session* session, const int32_t** ids, size_t* count) {
  return guarded([&] {
    const std::vector<int32_t>& found = require(session, "session").value.ids();
    show(std::span(found), ids, "ids", count);
  });
}

gpt_status gpt_truncate(gpt_session* session, size_t count) {
  return guarded([&] { require(session, "session").value.truncate(count); });
}

gpt_status gpt_chat_new(const gpt_model* model, const char* system, gpt_options options, gpt_chat** chat) {
  return make_handle(chat, "chat", [&] {
    return gptcpp::Chat(require(model, "model").value, system == nullptr ? "" : system,
                        session_options(options));
  });
}

gpt_status gpt_chat_say(gpt_chat* chat, const char* message, gpt_options options, gpt_on_piece on_piece,
                        void* user, gpt_finish* finish) {
  return guarded([&] {
    gptcpp::Chat& c = require(chat, "chat").value;
    finish_with(finish,
                c.say(&require(message, "message"), generate_options(options), on_piece_of(on_piece, user)));
  });
}

gpt_status gpt_chat_reset(gpt_chat* chat) {
  return guarded([&] { require(chat, "chat").value.reset(); });
}

gpt_status gpt_engine_new(const gpt_model* model, gpt_options list, gpt_engine** engine) {
  return make_handle(engine, "engine", [&] {
    gptcpp::EngineOptions o;
    Options options(list);
    take_common(options, o);
    options.take("slots", o.slots).take("cache_tokens", o.cache_tokens).end();
    return gptcpp::Engine(require(model, "model").value, o);
  });
}

gpt_status gpt_submit(gpt_engine* engine, const char* prompt, size_t size, gpt_options options,
                      int64_t* request) {
  return guarded([&] {
    gptcpp::Engine& e = require(engine, "engine").value;
    int64_t& number = require(request, "request");
    bool special = false;
    const gptcpp::GenerateOptions o = generate_options(options, &special);
    number = e.submit(text_of(prompt, size), o, special);
  });
}

gpt_status gpt_cancel_request(gpt_engine* engine, int64_t request) {
  return guarded([&] {
    if (!require(engine, "engine").value.cancel(request))
      invalid("request", "there is no active request with this number");
  });
}

gpt_status gpt_step(gpt_engine* engine, const gpt_event** events, size_t* count, int* idle) {
  return guarded([&] {
    gpt_engine& e = require(engine, "engine");
    const gpt_event*& out = require(events, "events");
    size_t& n = require(count, "count");
    int& is_idle = require(idle, "idle");
    e.events.clear();
    for (const gptcpp::Event& event : e.value.step()) {
      const gpt_finish finish = event.finish ? static_cast<gpt_finish>(*event.finish) : GPT_FINISH_NONE;
      e.events.push_back({sizeof(gpt_event), event.request, event.piece.id, finish, event.piece.text.data(),
                          event.piece.text.size(), event.error.data(), event.error.size()});
    }
    out = e.events.data();
    n = e.events.size();
    is_idle = e.value.idle() ? 1 : 0;
  });
}

gpt_status gpt_trainer_new(const gpt_context* context, gpt_options settings, const char* text, size_t size,
                           gpt_trainer** trainer) {
  return make_handle(trainer, "trainer", [&] {
    const Options options(settings);
    gptcpp::Settings all;
    for (const auto& [key, value] : options.left())
      all[key] = value;
    return gptcpp::Trainer(require(context, "context").value, all, std::string(text_of(text, size)));
  });
}

gpt_status gpt_trainer_run(gpt_trainer* trainer, int64_t steps, gpt_on_step on_step, void* user,
                           int64_t* steps_done) {
  return guarded([&] {
    const int64_t n = require(trainer, "trainer").value.run(steps, [&](const gptcpp::TrainProgress& p) {
      return on_step == nullptr || on_step(user, p.step, p.loss) != 0;
    });
    if (steps_done != nullptr) *steps_done = n;
  });
}

gpt_status gpt_trainer_validation_loss(gpt_trainer* trainer, double* loss) {
  return guarded([&] {
    const std::optional<double> found = require(trainer, "trainer").value.validation_loss();
    if (!found) throw Error(Code::unsupported, "there is no validation text", "val_fraction");
    require(loss, "loss") = *found;
  });
}

gpt_status gpt_trainer_save(const gpt_trainer* trainer, const char* folder) {
  return guarded([&] { require(trainer, "trainer").value.save(&require(folder, "folder")); });
}
