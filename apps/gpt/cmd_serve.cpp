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
#include "generation.h"
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
  gpt serve big=runs/a --draft runs/b             (speculative decoding; without a draft model: --speculate ngram)
  gpt serve model --host 0.0.0.0 --api-key-file keys

The server implements OpenAI's API for chat completions, completions and embeddings, with streaming, at
http://127.0.0.1:8080/v1. GET /openapi.json describes the API, and GET /metrics returns metrics for Prometheus. The name of a
model is NAME, or the name of its file or folder. MODEL:ADAPTER is the model with an adapter; both share batches. By default,
only this machine can reach the server. With --host, clients need an API key from --api-key-file. Log lines are JSON; they
contain texts only with --log-requests. SIGTERM or Ctrl-C completes the running requests and exits; a second one exits
immediately.)";

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
  if (models.empty()) fail_usage("--adapter {}: requires a MODEL", text);
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
    fail_usage("--speculate off: {} has a --draft model; leave out one of them", model.name);
  if (asked == Source::draft && model.draft.empty())
    fail_usage("--speculate draft: {0} has no draft model; name one with --draft {0}=PATH", model.name);
  Speculation& speculation = model.worker.speculation;
  speculation.source = !model.draft.empty() ? Source::draft : asked.value_or(Source::off);
  speculation.max_tokens = flags.draft_tokens;
}

// Describes the drafter of a model for the startup lines.
std::string proposals_of(const serve::ServedModelOptions& model) {
  if (!model.draft.empty()) return fmt::format("; drafts by {}", model.draft);
  return model.worker.speculation.source == Speculation::Source::ngram ? "; drafts by n-grams" : "";
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
          "--host {}: other machines could use the model without an API key; use --api-key-file FILE, or "
          "--insecure to allow this",
          a.host);
  }

  int run() {
    load_models();
    api_ = std::make_unique<serve::Api>(models_, api_options());
    server_.set_timeout_event(
        "data: " +
        serve::ApiError(504, "the response exceeded the time limit of the server", {}, "timeout").body() +
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
      write_note(fmt::format("{}: {} tokens of context, {} sequences, KV cache for {} tokens{}{}\n",
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
    write_note_if_read(
        "shutting down: completing the running requests; press Ctrl-C again to exit immediately\n");
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
  add(app,
      {.flags = "--adapter,--lora",
       .value = "[NAME=]DIR[=SCALE]",
       .help = "LoRA adapter that requests can name; can be repeated",
       .kind = ValueKind::model,
       .is_repeated = true,
       .common = true},
      a.adapters);
  add(app,
      {.flags = "--models-dir",
       .value = "DIR",
       .help = "Folder of models and adapters that clients can load",
       .kind = ValueKind::path,
       .aliases = "--model-dir"},
      a.folder);
  add(app,
      {.flags = "--max-models",
       .value = "N",
       .help = "Maximum number of models loaded at the same time",
       .aliases = "--models-max"},
      a.max_models);
  add(app,
      {.flags = "--max-lora-rank",
       .value = "N",
       .help = "Maximum rank of adapters that are loaded later",
       .fallback = "the largest rank of --adapter"},
      a.lora_rank);
  add_tokenizer_option(app, a.tokenizer);
  add_template_option(app, a.format, "the model's chat template");
}

void add_engine_options(CLI::App& app, ServeArguments& a) {
  add(app,
      {.flags = "--n-ctx",
       .value = "N",
       .help = "Context length in tokens",
       .fallback = "the model's, at most 8192",
       .common = true},
      a.n_ctx);
  add(app,
      {.flags = "--sequences",
       .value = "N",
       .help = "Maximum number of sequences that are computed together",
       .aliases = "--parallel|-np|--max-num-seqs",
       .common = true},
      a.sequences);
  add(app,
      {.flags = "--kv-memory",
       .value = "GIB",
       .help = "Size of the KV cache of each model in GiB",
       .common = true},
      a.kv_memory);
  add_dtype_options(app, a.dtype, a.kv_dtype, "");
  add(app,
      {.flags = "--in-place",
       .help = "With --dtype bf16: read memory-mapped bf16 weights directly instead of a copy"},
      a.in_place);
  add_repack_option(app, a.repack);
  add(app,
      {.flags = "--step-rows",
       .value = "N",
       .help = "Maximum number of tokens in a step of the model",
       .aliases = "--max-num-batched-tokens|--ubatch-size|-ub"},
      a.step_rows);
  app.option_defaults()->group("speculative decoding");
  add(app,
      {.flags = "--draft",
       .value = "[MODEL=]PATH",
       .help = "Smaller model with the same vocabulary that drafts tokens; can be repeated",
       .kind = ValueKind::model,
       .is_repeated = true,
       .aliases = kDraftAliases},
      a.drafts);
  add_speculation_options(app, a.speculation);
  app.option_defaults()->group("Options");
}

void add_network_options(CLI::App& app, ServeArguments& a) {
  add(app, {.flags = "--host", .value = "ADDRESS", .help = "Address to listen on", .common = true}, a.host);
  add(app,
      {.flags = "--port",
       .value = "N",
       .help = "Port to listen on. 0: any free port, which is printed",
       .common = true},
      a.port);
  add(app,
      {.flags = "--api-key-file",
       .value = "FILE",
       .help = "File with the API keys of clients, one per line",
       .kind = ValueKind::path,
       .common = true},
      a.key_file);
  add(app, {.flags = "--insecure", .help = "Serve other machines without API keys", .environment = false},
      a.insecure);
  add(app,
      {.flags = "--allow-host",
       .value = "NAME",
       .help = "Host name that requests may use in addition to localhost; can be repeated",
       .is_repeated = true},
      a.hosts);
  add(app,
      {.flags = "--access-log",
       .value = "FILE",
       .help = "File for the access log",
       .fallback = "standard error",
       .kind = ValueKind::path,
       .common = true},
      a.access_log);
  add(app, {.flags = "--log-requests", .help = "Log the texts of requests and responses", .common = true},
      a.log_requests);
}

void add_limit_options(CLI::App& app, ServeArguments& a) {
  app.option_defaults()->group("limits");
  const auto limit = [&](const char* flag, const char* value, auto& variable, const char* help) {
    add(app, {.flags = flag, .value = value, .help = help}, variable);
  };
  add(app,
      {.flags = "--max-queue",
       .value = "N",
       .help = "Maximum number of queued sequences. Further requests fail with status 429",
       .common = true},
      a.max_queue);
  limit("--rate", "N", a.rate, "Maximum number of requests per minute and API key. 0: unlimited");
  limit("--max-n", "N", a.request.n, "Maximum number of completions per prompt");
  limit("--max-body", "BYTES", a.server.body_bytes, "Maximum size of a request");
  limit("--max-connections", "N", a.server.connections, "Maximum number of open connections");
  limit("--request-time", "SECONDS", a.server.total_time, "Maximum time of a response");
  limit("--header-time", "SECONDS", a.server.header_time, "Maximum time to receive the header of a request");
  limit("--body-time", "SECONDS", a.server.body_time, "Maximum time to receive the body of a request");
  limit("--idle-time", "SECONDS", a.server.idle_time, "Maximum time between two requests of a connection");
  limit("--write-time", "SECONDS", a.server.write_time, "Maximum time that a client does not read");
  limit("--max-unsent", "BYTES", a.server.unsent_bytes,
        "Maximum number of unsent response bytes per connection");
  limit("--max-unsent-total", "BYTES", a.server.total_unsent_bytes,
        "Maximum number of unsent response bytes in total. Beyond it, the slowest readers are disconnected");
  limit("--min-read-rate", "BYTES", a.server.read_rate,
        "Minimum number of bytes per second that a client must read, apart from --write-time");
  limit("--drain-time", "SECONDS", a.drain_time, "Maximum time for running requests at shutdown");
  app.option_defaults()->group("Options");
}

}  // namespace

Command add_serve_command(CLI::App& root) {
  auto a = std::make_shared<ServeArguments>();
  CLI::App* app = add_command(root, "serve", "serve models with an OpenAI-compatible API", kServeFooter);
  add_model_option(*app, a->models, "Models as [NAME=]PATH: model folder, run folder or .gguf file");
  add_network_options(*app, *a);
  add_model_options(*app, *a);
  add_engine_options(*app, *a);
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
