#include <algorithm>
#include <cmath>
#include <map>

#include "api/decoder.h"
#include "base/ranges.h"
#include "chat/conversation.h"

namespace gptcpp {
namespace {

// Runs `work`, then `then`, even if `work` throws.
template <class Work, class Then>
void finally(Work&& work, Then&& then) {
  try {
    work();
  } catch (...) {
    then();
    throw;
  }
  then();
}

}  // namespace

struct Session::Impl {
  Impl(const Model& model, const SessionOptions& options) : decoder(model.impl(), engine_options(options)) {}

  std::vector<int32_t> ids_of(std::string_view text, bool special) const {
    return ids.empty() ? decoder.model().text_ids(text, true, special)
                       : decoder.model().later_ids(text, special);
  }

  Decoder decoder;
  std::vector<int32_t> ids;
  std::vector<float> logits;
  bool in_use = false;
};

Session::Session(const Model& model, const SessionOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, options); })) {}

void Session::feed(std::string_view text, bool special) {
  InUse::check(impl_->in_use);
  if (text.empty()) return;
  const auto ids = as_argument("text", [&] { return impl_->ids_of(text, special); });
  impl_->ids.insert(impl_->ids.end(), ids.begin(), ids.end());
}

void Session::feed(std::span<const int32_t> ids) {
  InUse::check(impl_->in_use);
  const int64_t vocab_size = impl_->decoder.model().config().vocab_size;
  guarded([&] {
    for (const int32_t id : ids) {
      if (id < 0 || id >= vocab_size)
        gpt::fail_parameter("ids", "expected token ids from 0 to {}, found {}", vocab_size - 1, id);
    }
    impl_->ids.insert(impl_->ids.end(), ids.begin(), ids.end());
  });
}

Result Session::generate(const GenerateOptions& options, const OnPiece& on_piece) {
  return guarded([&] {
    const std::shared_ptr<Impl> s = impl_;  // keeps the object alive even if the callback resets the handle
    const InUse in_use(s->in_use);
    Answer answer(s->decoder.model(), options.stops);
    gpt::Request request = s->decoder.request(s->ids.empty() ? s->ids_of("", false) : s->ids, options);
    const std::vector<int32_t> prompt = request.prompt;
    finally([&] { generate_alone(s->decoder, std::move(request), on_piece, answer); },
            [&] {
              const std::vector<int32_t>& drawn = answer.result.ids;
              if (drawn.empty()) return;
              s->ids = prompt;
              s->ids.insert(s->ids.end(), drawn.begin(), drawn.end());
            });
    return std::move(answer.result);
  });
}

std::span<const float> Session::logits(const std::vector<std::string>& adapters) {
  return guarded([&] {
    Impl& s = *impl_;
    const InUse in_use(s.in_use);
    gpt::CachedModel& cached = s.decoder.cached;
    as_argument("ids", [&] { gpt::check_prompt(cached, s.ids, s.decoder.policy, "the text"); });
    const std::span<const int32_t> ids = gpt::opening_ids(cached, s.ids, s.decoder.policy);
    s.logits.resize(static_cast<size_t>(cached.vocab_size()));
    const auto adapter = s.decoder.adapter(adapters);
    cached.reset(0, *adapter);
    for (auto at = static_cast<size_t>(cached.reuse(0, ids)); at < ids.size();) {
      s.decoder.model().context->check_cancelled();
      const auto n = std::min(
          {ids.size() - at, static_cast<size_t>(cached.max_rows()), static_cast<size_t>(cached.room(0))});
      const gpt::SequenceModel::Append append{0, ids.subspan(at, n), at + n == ids.size()};
      cached.forward({&append, 1}, gpt::make_view(s.logits.data(), {1, cached.vocab_size()}));
      at += n;
    }
    if (!std::ranges::all_of(s.logits, [](float x) { return std::isfinite(x); }))
      gpt::fail("the model's logits are not finite: its weights are damaged, or too large for the dtype");
    return std::span<const float>(s.logits);
  });
}

const std::vector<int32_t>& Session::ids() const noexcept {
  return impl_->ids;
}

void Session::truncate(size_t size) {
  guarded([&] {
    InUse::check(impl_->in_use);
    if (size > impl_->ids.size())
      gpt::fail_parameter("size", "expected 0 to {}, the current number of ids, found {}", impl_->ids.size(),
                          size);
    impl_->ids.resize(size);
  });
}

std::vector<int32_t> chat_prompt(const Model& model, std::span<const Message> messages) {
  return as_argument("messages", [&] {
    const auto inner = gpt::transformed(messages, [](const Message& message) {
      return gpt::ChatMessage{message.role, message.content};
    });
    return model.impl()->chat_template().encode(inner, true);
  });
}

struct Chat::Impl {
  Impl(const Model& model, const std::string& system, const SessionOptions& options)
      : chat_template(model.impl()->chat_template()),
        decoder(model.impl(), engine_options(options)),
        conversation(chat_template, system, decoder.inference.capacity()) {
    if (options.policy != ContextPolicy::stop)
      gpt::fail_parameter("policy",
                          "expected stop, because a conversation that is too long drops its oldest turns");
    if (chat_template.end_id() >= decoder.model().config().vocab_size)
      gpt::fail("the tokenizer ends messages with token {}, which is not in the model's vocabulary",
                chat_template.end_id());
  }

  gpt::ChatTemplate chat_template;
  Decoder decoder;
  gpt::Conversation conversation;
  std::vector<int32_t> prompt;  // prompt of the last response
  bool in_use = false;
};

Chat::Chat(const Model& model, const std::string& system, const SessionOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, system, options); })) {}

Result Chat::say(const std::string& message, const GenerateOptions& options, const OnPiece& on_piece) {
  return guarded([&] {
    const std::shared_ptr<Impl> c = impl_;  // keeps the object alive even if the callback resets the handle
    const InUse in_use(c->in_use);
    Answer answer(c->decoder.model(), options.stops, c->chat_template.blank_before_answers());
    gpt::Request request = c->decoder.request({}, options);
    if (options.max_tokens == 0) gpt::fail_parameter("max_tokens", "expected a positive number, found 0");
    request.prompt = as_argument("message", [&] { return c->conversation.ask(message, options.max_tokens); });
    c->prompt = request.prompt;
    request.stop_ids = {c->chat_template.end_id()};
    finally([&] { generate_alone(c->decoder, std::move(request), on_piece, answer); },
            [&] { c->conversation.answer(answer.result.ids); });
    return std::move(answer.result);
  });
}

void Chat::reset() {
  InUse::check(impl_->in_use);
  impl_->conversation.reset();
}

const char* Chat::format() const noexcept {
  return impl_->chat_template.built_in() ? impl_->chat_template.name().c_str() : "jinja";
}
int64_t Chat::n_ctx() const noexcept {
  return impl_->decoder.inference.capacity();
}
const std::vector<int32_t>& Chat::prompt_ids() const noexcept {
  return impl_->prompt;
}
int64_t Chat::forgotten() const noexcept {
  return impl_->conversation.forgotten();
}

struct Engine::Impl {
  Impl(const Model& model, const EngineOptions& options)
      : decoder(model.impl(), options), engine(decoder.cached, {.speculation = decoder.speculation()}) {}
  int64_t submit(std::vector<int32_t> prompt, const GenerateOptions& options);
  void take(const gpt::Event& event, std::string& text);

  Decoder decoder;
  gpt::Engine engine;
  std::map<int64_t, Answer> answers;  // one for each unfinished request
  std::vector<std::string> texts;     // texts that `events` refers to
  std::vector<Event> events;
};

int64_t Engine::Impl::submit(std::vector<int32_t> prompt, const GenerateOptions& options) {
  Answer answer(decoder.model(), options.stops);
  gpt::Request request = decoder.request(std::move(prompt), options);
  const int64_t id = as_argument("prompt", [&] { return engine.submit(std::move(request)); });
  answers.emplace(id, std::move(answer));
  return id;
}

void Engine::Impl::take(const gpt::Event& inner, std::string& text) {
  const auto answer = answers.find(inner.request);
  text = answer->second.add(inner);
  Event event{.request = inner.request,
              .piece = {ends_text(inner) ? -1 : inner.id, text},
              .finish = {},
              .error = inner.error,
              .logprobs = {}};
  if (inner.logprobs != nullptr) event.logprobs = answer->second.result.logprobs.back();
  if (inner.finish) event.finish = finish_of(*inner.finish);
  if (answer->second.stopped()) {
    event.finish = Finish::stop;
    engine.cancel(inner.request);
  }
  if (event.finish) answers.erase(answer);
  events.push_back(event);
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, options); })) {}

int64_t Engine::submit(std::string_view prompt, const GenerateOptions& options, bool special) {
  return guarded([&] {
    auto ids = as_argument("prompt", [&] { return impl_->decoder.model().text_ids(prompt, true, special); });
    return impl_->submit(std::move(ids), options);
  });
}

int64_t Engine::submit(std::span<const int32_t> prompt, const GenerateOptions& options) {
  return guarded([&] { return impl_->submit({prompt.begin(), prompt.end()}, options); });
}

bool Engine::cancel(int64_t request) {
  return guarded([&] {
    impl_->answers.erase(request);
    return impl_->engine.cancel(request);
  });
}

std::span<const Event> Engine::step() {
  return guarded([&] {
    impl_->events.clear();
    impl_->decoder.model().context->check_cancelled();
    if (idle()) return std::span<const Event>();
    const std::span<const gpt::Event> events = impl_->engine.step();
    impl_->texts.resize(events.size());
    for (size_t i = 0; i < events.size(); ++i)
      impl_->take(events[i], impl_->texts[i]);
    return std::span<const Event>(impl_->events);
  });
}

bool Engine::idle() const noexcept {
  return impl_->engine.idle();
}

}  // namespace gptcpp
