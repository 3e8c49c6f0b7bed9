#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/ranges.h"
#include "command.h"
#include "convert/adapter_files.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "serve/api.h"
#include "serve/api_error.h"
#include "serve/http/http_server.h"
#include "serve/line_log.h"
#include "serve/models/model_follower.h"
#include "speculation_flags.h"

namespace gpt {
namespace {

constexpr const char* kServeFooter = R"(Examples:
  gpt serve model                                 then open http://127.0.0.1:8080 in a browser
  gpt serve model.gguf --dtype q8_0 --n-ctx 4096 --kv-memory 4
  gpt serve big=runs/a small=runs/b --adapter formal=tuned
  gpt serve big=runs/a --draft runs/b             (or --speculate ngram: likely tokens are computed together)
  gpt serve model --host 0.0.0.0 --api-key-file keys

Any client of OpenAI's programming interface can use it: chat completions, completions, embeddings, with
streaming, at http://127.0.0.1:8080/v1; GET /openapi.json describes all of it, GET /metrics is for Prometheus. A model is named after its file
or folder, unless NAME=PATH says otherwise; MODEL:ADAPTER is the model with an adapter, and both share batches.
Only this machine can reach it unless --host says otherwise, and then clients need a key: --api-key-file has one
a line. Log lines are JSON; texts are logged with --log-requests only. SIGTERM or Ctrl-C lets the requests under
way end, a second one does not.)";

struct ServeArguments {
  std::vector<std::string> models, adapters, drafts, hosts;
  SpeculationFlags speculation;
  std::string folder, tokenizer, format, dtype = "fp32", kv_dtype, repack = "auto", host = "127.0.0.1",
                                         key_file, access_log;
  bool in_place = false, insecure = false, log_requests = false;
  int64_t port = 8080, n_ctx = 0, sequences = 32, step_rows = 256, max_queue = 256, rate = 0, max_models = 4,
          lora_rank = 0;
  double kv_memory = 1, drain_time = 30;  // in GiB and seconds
  serve::RequestLimits request;
  serve::ServerLimits server;
  MachineOptions machine;
};

// Splits "NAME=PATH" into name and path. For a path alone, the name is its last component, without the
// extension of a model file.
std::pair<std::string, std::string> named_path(const std::string& text) {
  const size_t equals = text.find('=');
  if (equals != std::string::npos && equals > 0 && text.find('/') > equals)
    return {text.substr(0, equals), text.substr(equals + 1)};
  std::filesystem::path path = std::filesystem::absolute(text).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  const std::string extension = path.extension().string();
  const bool is_file = extension == ".gguf" || extension == ".safetensors" || extension == ".bin" ||
                       extension == ".pt" || extension == ".pth";
  return {is_file ? path.stem().string() : path.filename().string(), text};
}

// Adds the adapter of "[MODEL:]NAME=DIR[=SCALE]" or "DIR". Without a model name, the adapter belongs to the
// first model.
void add_adapter(std::vector<serve::ServedModelOptions>& models, const std::string& text) {
  if (models.empty()) fail_usage("--adapter {}: there is no model for it", text);
  auto [name, rest] = named_path(text);
  size_t of = 0;
  if (const size_t colon = name.find(':'); colon != std::string::npos) {
    const auto* model = find_by(models, &serve::ServedModelOptions::name, name.substr(0, colon));
    if (model == nullptr) fail_usage("--adapter {}: there is no model {}", text, name.substr(0, colon));
    of = static_cast<size_t>(model - models.data());
    name = name.substr(colon + 1);
  }
  const AdapterChoice choice = parse_adapter(rest);
  models[of].adapters.push_back({name, choice.path, choice.scale});
}

// Sets the draft model from "[MODEL=]PATH". Without a model name, it belongs to the first model.
void add_draft(std::vector<serve::ServedModelOptions>& models, const std::string& text) {
  const auto [name, path] = named_path(text);
  check_draft(path);
  size_t of = 0;
  if (path != text) {
    const auto* model = find_by(models, &serve::ServedModelOptions::name, name);
    if (model == nullptr) fail_usage("--draft {}: there is no model {}", text, name);
    of = static_cast<size_t>(model - models.data());
  }
  if (!models[of].draft.empty())
    fail_usage("--draft: expected one draft model for {}, found {} and {}", models[of].name, models[of].draft,
               path);
  models[of].draft = path;
}

// Sets up speculative decoding. A model with a draft model uses it; --speculate ngram applies to the other
// models.
void set_speculation(serve::ServedModelOptions& model, const SpeculationFlags& flags) {
  using Source = Speculation::Source;
  const std::optional<Source> asked =
      flags.source.empty() ? std::nullopt : std::optional(parse_speculation(flags.source));
  if (asked == Source::off && !model.draft.empty())
    fail_usage("--speculate off: {} has a --draft model; leave one of the two out", model.name);
  if (asked == Source::draft && model.draft.empty())
    fail_usage("--speculate draft: {0} has no draft model; name one with --draft {0}=PATH", model.name);
  Speculation& speculation = model.worker.speculation;
  speculation.source = !model.draft.empty() ? Source::draft : asked.value_or(Source::off);
  speculation.max_tokens = flags.draft_tokens;
}

// Describes the drafter of a model for the startup lines.
std::string proposals_of(const serve::ServedModelOptions& model) {
  if (!model.draft.empty()) return fmt::format("; proposals of {}", model.draft);
  return model.worker.speculation.source == Speculation::Source::ngram ? "; proposals of n-grams" : "";
}

void check(const ServeArguments& a) {
  check_range("--port", a.port, 0, 65535);
  check_range("--sequences", a.sequences, 1, 1024);
  check_range("--step-rows", a.step_rows, 1, 8192);
  check_range("--draft-tokens", a.speculation.draft_tokens, 1, kMostProposals);
  check_range("--max-queue", a.max_queue, 1, 1 << 20);
  check_range("--max-models", a.max_models, 1, 1024);
  check_range("--max-lora-rank", a.lora_rank, 0, 4096);
  check_range("--rate", a.rate, 0, 1 << 20);
  check_range("--max-n", a.request.n, 1, 1024);
  check_range("--max-body", a.server.body_bytes, 1024, int64_t{1} << 30);
  check_range("--max-connections", a.server.connections, 1, 1 << 20);
  check_range("--max-unsent", a.server.unsent_bytes, 65536, int64_t{1} << 40);
  check_range("--max-unsent-total", a.server.total_unsent_bytes, a.server.unsent_bytes, int64_t{1} << 40);
  if (!(a.server.read_rate >= 1 && a.server.read_rate <= 1e12))
    fail_usage("--min-read-rate: expected 1 to 1e12 bytes per second, found {}", a.server.read_rate);
  for (const auto& [flag, seconds] : {std::pair("--request-time", a.server.total_time),
                                      {"--header-time", a.server.header_time},
                                      {"--body-time", a.server.body_time},
                                      {"--idle-time", a.server.idle_time},
                                      {"--write-time", a.server.write_time}}) {
    if (!(seconds > 0 && seconds <= 1e6))
      fail_usage("{}: expected seconds up to 1e6, found {}", flag, seconds);
  }
  if (!(a.drain_time >= 0 && a.drain_time <= 1e6))
    fail_usage("--drain-time: expected seconds up to 1e6, found {}", a.drain_time);
  if (!(a.kv_memory > 0 && a.kv_memory <= 1 << 20))
    fail_usage("--kv-memory: expected GiB up to {}, found {}", 1 << 20, a.kv_memory);
}

// Writes a note while the server runs. Skips the note if standard error is a full pipe that may have no
// reader, because writing would block.
void write_note_if_read(const std::string& text) {
  pollfd ready{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&ready, 1, 0) != 0) write_note(text);
}

serve::ServedModelOptions model_options(const ServeArguments& a, bool several_keys, const std::string& name,
                                        const std::string& path) {
  serve::ServedModelOptions o{.name = name, .path = path, .tokenizer = a.tokenizer, .chat_format = a.format};
  o.adapter_rank = a.lora_rank;
  o.n_ctx = a.n_ctx;
  o.sequences = static_cast<int>(a.sequences);
  o.kv_bytes = static_cast<int64_t>(a.kv_memory * 0x1p30);
  o.dtype = parse_dtype("--dtype", a.dtype);
  o.kv_dtype = parse_kv_dtype(a.kv_dtype, o.dtype);
  o.in_place = a.in_place;
  o.repack = chosen_repack(a.repack);
  o.isa = chosen_isa();
  // If there are several clients, none of them may occupy the whole queue.
  o.worker = {.step_rows = a.step_rows,
              .max_waiting = a.max_queue,
              .max_of_client = several_keys ? std::max<int64_t>(a.max_queue / 2, 1) : a.max_queue};
  o.note = write_note_if_read;
  return o;
}

std::vector<serve::ServedModelOptions> first_models(const ServeArguments& a, bool several_keys) {
  auto all = transformed(a.models, [&](const std::string& text) {
    const auto [name, path] = named_path(text);
    return model_options(a, several_keys, name, path);
  });
  for (const std::string& adapter : a.adapters)
    add_adapter(all, adapter);
  for (const std::string& draft : a.drafts)
    add_draft(all, draft);
  for (serve::ServedModelOptions& o : all)
    set_speculation(o, a.speculation);
  return all;
}

// Raises the soft limit of file descriptors to the hard limit, because every connection needs a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

class Service {
 public:
  explicit Service(const ServeArguments& a)
      : a_(a),
        keys_(a.key_file.empty() ? serve::KeyRing({}) : serve::KeyRing::read(a.key_file)),
        log_(a.access_log, write_note_if_read),
        server_(a.host, static_cast<int>(a.port), a.server,
                [this](serve::HttpRequest request, std::shared_ptr<serve::Responder> responder) {
                  api_->handle(std::move(request), std::move(responder));
                }) {
    if (!server_.is_loopback() && keys_.empty() && !a.insecure)
      fail_usage(
          "--host {}: other machines could use the model without a key; give --api-key-file FILE, or "
          "--insecure if that is what you want",
          a.host);
  }

  int run() {
    load_models();
    api_ = std::make_unique<serve::Api>(models_, api_options());
    server_.set_timeout_event(
        "data: " +
        serve::ApiError(504, "the response took longer than this server allows", {}, "timeout").body() +
        "\n\n");
    server_.on_signal([this](int count) { on_signal(count); });
    const serve::ModelFollower follower(models_, {.note = write_note_if_read});
    const bool chats = std::ranges::any_of(
        models_.all(), &serve::ServedModel::has_chat_template,
        [](const auto& model) -> const auto& { return *model; });
    write_note(
        fmt::format("listening on {}\nopen it in a browser{}\n", server_.url(), chats ? " to chat" : ""));
    server_.run();
    install_ending_signals();  // a signal now ends the program at once, even while a model is being loaded
    models_.stop();
    return 0;
  }

 private:
  void load_models() {
    const auto begin = Clock::now();
    threads_ = std::make_shared<ThreadPool>(chosen_threads(a_.machine));
    for (serve::ServedModelOptions& options : first_models(a_, !keys_.empty())) {
      options.threads = threads_;
      const auto made = std::make_shared<serve::ServedModel>(options);
      models_.add(made);
      const serve::ServedModel& model = *made;
      write_note(fmt::format("{}: {} tokens of context, {} sequences, key/value cache for {} tokens{}{}\n",
                             model.name(), format_thousands(model.n_ctx()), a_.sequences,
                             format_thousands(model.cache_blocks() * KvCache::kBlock),
                             model.has_chat_template() ? "" : "; no chat", proposals_of(options)));
    }
    write_note(fmt::format("loaded in {}\n", format_duration(seconds_since(begin))));
  }

  serve::ApiOptions api_options() {
    serve::ApiOptions options{.limits = a_.request, .keys = keys_, .hosts = a_.hosts};
    if (server_.is_loopback()) {
      for (const char* host : {"localhost", "127.0.0.1", "[::1]"})
        options.hosts.emplace_back(host);
    }
    options.folder = {a_.folder, a_.max_models, [this](const std::string& name, const std::string& path) {
                        auto options = model_options(a_, !keys_.empty(), name, path);
                        options.threads = threads_;
                        return options;
                      }};
    options.per_minute = a_.rate;
    options.log_bodies = a_.log_requests;
    options.log = [this](const std::string& line) { log_.write(line); };
    options.connections = [this] { return server_.connections(); };
    return options;
  }

  void on_signal(int count) {
    if (count > 1) std::_Exit(kInterruptedStatus);  // ends at once, without waiting for other threads
    write_note_if_read("ending: no new requests, those under way go on; once more to quit at once\n");
    api_->drain();
    drain_until_ = Clock::now() +
                   std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(a_.drain_time));
    drain();
  }

  // Polls until all requests are finished, then stops the server. After drain_time, the remaining requests
  // fail.
  void drain() {
    constexpr double kLook = 0.02;
    if (api_->in_flight() == 0 && !server_.busy()) return server_.stop();
    if (Clock::now() > drain_until_) {
      models_.stop();
      return server_.after(1, [this] { server_.stop(); });
    }
    server_.after(kLook, [this] { drain(); });
  }

  const ServeArguments& a_;
  serve::KeyRing keys_;
  serve::LineLog log_;
  std::shared_ptr<const ThreadPool> threads_;  // shared by all models
  serve::HttpServer server_;  // declared first, because it must outlive the objects that answer its requests
  serve::ModelSet models_;
  std::unique_ptr<serve::Api> api_;
  Clock::time_point drain_until_;
};

void add_model_options(CLI::App& app, ServeArguments& a) {
  add_repeated(app, "--adapter,--lora", a.adapters, "LoRA adapter that requests may name; may be repeated")
      ->type_name("[NAME=]DIR[=SCALE]");
  add_value(app, "--models-dir", a.folder, "DIR", "clients may have models and adapters from there loaded");
  add_shown(app, "--max-models", a.max_models, "N", "that are loaded at once");
  add_value(app, "--max-lora-rank", a.lora_rank, "N",
            "of adapters that are loaded later (the largest of --adapter)");
  add_value(app, "--tokenizer", a.tokenizer, "FILE", "instead of the model's");
  add_value(app, "--template", a.format, "nanochat|chatml|chatml-qwen2|llama3|llama2|FILE.jinja",
            "format of conversations (the model's)");
  add_value(app, "--n-ctx", a.n_ctx, "N", "tokens of context (the model's, at most 8192)");
  add_shown(app, "--sequences", a.sequences, "N", "sequences that are computed together");
  add_shown(app, "--kv-memory", a.kv_memory, "GIB", "of cached keys and values, for each model");
  add_shown(app, "--dtype", a.dtype, "fp32|bf16|fp16|q8_0|q4_0", "type of the products with weights");
  add_value(app, "--kv-dtype", a.kv_dtype, "fp32|bf16|fp16|int8|q4_0",
            "type of cached keys and values (what suits --dtype)");
  app.add_flag("--in-place", a.in_place, "with --dtype bf16: read bf16 weights where the file has them");
  add_repack_option(app, a.repack);
  add_shown(app, "--step-rows", a.step_rows, "N", "most tokens in one step of the model");
  app.option_defaults()->group("speculative decoding");
  add_repeated(app, "--draft", a.drafts,
               "smaller model of the same vocabulary that proposes tokens; may be repeated")
      ->type_name("[MODEL=]PATH");
  add_speculation_options(app, a.speculation);
  app.option_defaults()->group("Options");
}

void add_network_options(CLI::App& app, ServeArguments& a) {
  add_shown(app, "--host", a.host, "ADDRESS", "where to listen");
  add_shown(app, "--port", a.port, "N", "0: any free one, which is printed");
  add_value(app, "--api-key-file", a.key_file, "FILE", "keys of clients, one a line");
  app.add_flag("--insecure", a.insecure, "other machines need no key");
  add_repeated(app, "--allow-host", a.hosts, "a name of this server beside localhost; may be repeated")
      ->type_name("NAME");
  add_value(app, "--access-log", a.access_log, "FILE", "log lines go there (standard error)");
  app.add_flag("--log-requests", a.log_requests, "log requests with their texts");
}

void add_limit_options(CLI::App& app, ServeArguments& a) {
  app.option_defaults()->group("limits");
  add_shown(app, "--max-queue", a.max_queue, "N", "sequences that wait; more get 429");
  add_value(app, "--rate", a.rate, "N", "requests of a key in a minute (any number)");
  add_shown(app, "--max-n", a.request.n, "N", "answers to a prompt");
  add_shown(app, "--max-body", a.server.body_bytes, "BYTES", "of a request");
  add_shown(app, "--max-connections", a.server.connections, "N", "open at once");
  add_shown(app, "--request-time", a.server.total_time, "SECONDS", "for an answer");
  add_shown(app, "--header-time", a.server.header_time, "SECONDS", "for a request's head to come");
  add_shown(app, "--body-time", a.server.body_time, "SECONDS", "for its body to come");
  add_shown(app, "--idle-time", a.server.idle_time, "SECONDS", "between two requests");
  add_shown(app, "--write-time", a.server.write_time, "SECONDS", "for a client that does not read");
  add_shown(app, "--max-unsent", a.server.unsent_bytes, "BYTES",
            "limit of unsent response bytes per connection");
  add_shown(app, "--max-unsent-total", a.server.total_unsent_bytes, "BYTES",
            "limit of unsent bytes in total; beyond it the slowest readers are disconnected");
  add_shown(app, "--min-read-rate", a.server.read_rate, "BYTES",
            "per second that a client must read, --write-time aside");
  add_shown(app, "--drain-time", a.drain_time, "SECONDS", "for requests under way at the end");
  app.option_defaults()->group("Options");
}

}  // namespace

Command add_serve_command(CLI::App& root) {
  auto a = std::make_shared<ServeArguments>();
  CLI::App* app = add_command(root, "serve", "answer requests as OpenAI's servers do", kServeFooter);
  app->add_option("-m,--model,MODEL", a->models, "[NAME=]PATH: model folder, run folder or .gguf");
  add_network_options(*app, *a);
  add_model_options(*app, *a);
  add_limit_options(*app, *a);
  add_machine_options(*app, a->machine);
  return {app, [a] {
            if (a->folder.empty())
              require_argument(a->models.empty() ? "" : named_path(a->models.front()).second, "MODEL",
                               "serve");
            if (!a->folder.empty() && !std::filesystem::is_directory(a->folder))
              fail_usage("--models-dir: expected a folder, found {}", a->folder);
            check(*a);
            raise_descriptor_limit();
            return Service(*a).run();
          }};
}

}  // namespace gpt
