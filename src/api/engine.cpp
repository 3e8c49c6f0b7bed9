#include <map>

#include "api/objects.h"

namespace gptcpp {

struct Engine::Impl {
  Impl(const Model& model, const EngineOptions& o)
      : decoder(model.impl(), {.slots = o.slots,
                               .n_ctx = o.n_ctx,
                               .cache_tokens = o.cache_tokens,
                               .dtype = o.dtype,
                               .kv_dtype = o.kv_dtype}),
        engine(decoder.cached, {}) {}
  int64_t submit(std::vector<int32_t> prompt, const GenerateOptions& options);
  void take(const gpt::Event& event, std::string& text);

  Decoder decoder;
  gpt::Engine engine;
  std::map<int64_t, PieceStream> streams;  // of the requests that have not ended
  std::vector<std::string> texts;          // of `events`
  std::vector<Event> events;
};

int64_t Engine::Impl::submit(std::vector<int32_t> prompt, const GenerateOptions& options) {
  PieceStream stream(decoder.model(), options.stops);
  gpt::Request request = decoder.request(std::move(prompt), options);
  const int64_t id = as_argument("prompt", [&] { return engine.submit(std::move(request)); });
  streams.emplace(id, std::move(stream));
  return id;
}

void Engine::Impl::take(const gpt::Event& inner, std::string& text) {
  const auto stream = streams.find(inner.request);
  text = stream->second.push(inner);
  Event event{.request = inner.request,
              .piece = {ends_text(inner) ? -1 : inner.id, text},
              .finish = {},
              .error = inner.error};
  if (inner.finish) event.finish = finish_of(*inner.finish);
  if (stream->second.stopped()) {
    event.finish = Finish::stop;
    engine.cancel(inner.request);
  }
  if (event.finish) streams.erase(stream);
  events.push_back(event);
}

Engine::Engine(const Model& model, const EngineOptions& options)
    : impl_(guarded([&] { return std::make_shared<Impl>(model, options); })) {}

int64_t Engine::submit(std::string_view prompt, const GenerateOptions& options) {
  return guarded([&] {
    auto ids = as_argument("prompt", [&] { return impl_->decoder.model().text_ids(prompt); });
    return impl_->submit(std::move(ids), options);
  });
}

int64_t Engine::submit(std::span<const int32_t> prompt, const GenerateOptions& options) {
  return guarded([&] { return impl_->submit({prompt.begin(), prompt.end()}, options); });
}

bool Engine::cancel(int64_t request) {
  return guarded([&] {
    impl_->streams.erase(request);
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
