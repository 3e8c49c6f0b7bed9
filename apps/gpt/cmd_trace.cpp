#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <optional>

#include "base/error.h"
#include "base/file.h"
#include "base/parse.h"
#include "base/ranges.h"
#include "chat/model_text.h"
#include "command.h"
#include "generation.h"
#include "info_subject.h"
#include "options.h"
#include "output.h"
#include "report/progress.h"
#include "trace/demos.h"
#include "trace/figures.h"
#include "trace/page.h"
#include "trace/text.h"

namespace gpt {
namespace {

constexpr const char* kTraceFooter = R"(Examples:
  gpt trace run --prompt "The cat sat on the mat"
  gpt trace run --prompt "The cat" --block 2 --head 1      attention of one head
  gpt trace run --prompt "The cat" --block all --json
  gpt trace run --prompt-file chapter.txt --html trace.html   a web page with all details
  gpt trace run --prompt "The cat" --figure residual --svg stream.svg   an image
  gpt trace gpt2 --figure architecture --svg gpt2.svg      an image of a model or preset; needs no prompt
  gpt trace --demo activations --svg activations.svg
  gpt trace model.gguf --prompt "Once upon a time"         quantized weights are used directly)";

struct TraceArguments {
  std::string model, tokenizer, prompt, prompt_file, ids, html, svg, figure = "attention", demo, block = "0",
                                                                     dtype = "fp32";
  std::optional<int64_t> head, query;
  int64_t top_k = 5;
  bool has_prompt = false, special = false, figure_given = false, json = false;
  MachineOptions machine;
};

TraceRequest make_request(const TraceArguments& a) {
  TraceRequest r;
  r.model = a.model;
  const auto block = a.block == "all" ? -1 : parse_number<int64_t>(a.block).value_or(-2);
  if (block < -1 || a.block == "-1")
    fail_usage("--block: expected a number from 0 or \"all\", found \"{}\"", a.block.substr(0, 64));
  r.block = block;
  check_range("--top-k", a.top_k, 1, 1000);
  if (a.head && *a.head < 0) fail_usage("--head: expected a number from 0, found {}", *a.head);
  if (a.query && *a.query < 0) fail_usage("--query: expected a number from 0, found {}", *a.query);
  r.head = a.head.value_or(-1);
  r.query = a.query.value_or(-1);
  r.top_k = a.top_k;
  const TerminalStyle style =
      terminal_style(output_is_terminal(), [](const char* name) -> const char* { return std::getenv(name); });
  r.colour = style.colour;
  r.unicode = style.unicode;
  return r;
}

std::vector<int32_t> traced_ids(const TraceArguments& a, const Tokenizer* tokenizer,
                                const ModelConfig& config) {
  if (a.has_prompt + !a.prompt_file.empty() + !a.ids.empty() != 1)
    fail_usage("trace: expected one of --prompt, --prompt-file and --ids; see gpt trace --help");
  GenerateArguments g;
  if (a.has_prompt) g.prompts = {a.prompt};
  if (!a.prompt_file.empty()) g.prompt_files = {a.prompt_file};
  if (!a.ids.empty()) g.ids = {a.ids};
  const PromptReader reader{
      [&](const std::string& text) {
        const std::vector<int32_t> ids = prompt_ids(text, tokenizer, config, false, a.special);
        for (const std::string& warning : prompt_warnings(text, ids, tokenizer, a.special, "--special"))
          write_note(fmt::format("note: {}\n", warning));
        return ids;
      },
      [](int32_t) { return ""; }};
  return read_prompts(g, reader).front().ids;
}

// Returns the last component of a path. Pages may be published and should not reveal paths of this machine.
std::string shown_name(const std::string& model) {
  const std::filesystem::path path = std::filesystem::path(model).lexically_normal();
  return path.has_filename() ? path.filename().string() : path.parent_path().filename().string();
}

std::vector<std::string> demo_names() {
  std::vector<std::string> names = {"all"};
  for (const Demo& demo : demos())
    names.emplace_back(demo.name);
  return names;
}

std::string demo_list() {
  return sum_of(demos(), [](const Demo& demo) {
    return fmt::format("  {:<12} {}{}\n", demo.name, demo.title,
                       demo.needs_model ? " (needs MODEL and a prompt)" : "");
  });
}

void write_picture(const std::string& file, const std::string& svg) {
  write_file_atomic(file, svg);
  write_note(fmt::format("wrote {}\n", file));
}

// Writes the picture of a demonstration.
void draw_demo(const TraceArguments& a, const Demo& demo, const DemoContext& context) {
  if (demo.picture == nullptr) {
    std::string drawn;
    for (const Demo& d : demos())
      drawn += d.picture != nullptr ? fmt::format(" {}", d.name) : "";
    fail_usage("--demo {}: has no image; demonstrations with an image:{}", demo.name, drawn);
  }
  write_picture(a.svg, demo.picture(context));
}

// Shows one demonstration, or all of those whose inputs are available.
void show_demos(const TraceArguments& a, const DemoContext& context) {
  if (a.demo == "all" && !a.svg.empty()) fail_usage("--svg: expected one demonstration, found --demo all");
  for (const Demo& demo : demos()) {
    if (a.demo != "all" && a.demo != demo.name) continue;
    if (demo.needs_model && context.model == nullptr) {
      if (a.demo == "all") continue;
      fail_usage("--demo {}: requires a MODEL and a --prompt", demo.name);
    }
    if (!a.svg.empty()) return draw_demo(a, demo, context);
    const std::string title = fmt::format("{}: {}", demo.name, demo.title);
    write_output(fmt::format("{}\n{}\n{}\n", title, std::string(title.size(), '='), demo.run(context)));
  }
}

int run_demos(const TraceArguments& a) {
  Machine machine(a.machine);
  DemoContext context{.backend = machine.backend, .unicode = make_request(a).unicode};
  if (a.model.empty()) {
    show_demos(a, context);
    return 0;
  }
  const LoadedModel loaded(a.model, std::nullopt);
  const std::unique_ptr<Tokenizer> tokenizer = chosen_tokenizer(loaded, a.tokenizer);
  const std::vector<int32_t> ids = traced_ids(a, tokenizer.get(), loaded.model().config);
  TokenNames names;
  if (tokenizer) names = TokenNames([&](int32_t id) { return bytes_of(*tokenizer, id); });
  const DemoModel model{loaded.model(), ids, names};
  context.model = &model;
  show_demos(a, context);
  return 0;
}

std::string figure_of(const TraceArguments& a, const TraceRequest& request, const Capture& capture,
                      const TokenNames& names) {
  if (a.figure == "residual") return residual_svg(capture);
  if (request.head >= capture.config().n_head || request.block >= capture.n_layer())
    fail_usage("--figure attention: the model has {} layers of {} heads", capture.n_layer(),
               capture.config().n_head);
  return attention_svg(capture, names, request.block, request.head);
}

int run(const TraceArguments& a) {
  check_output_file("--html", a.html, kTracePage);
  check_output_file("--svg", a.svg, kTracePicture);
  if (!a.demo.empty()) return run_demos(a);
  if (a.svg.empty() && a.figure_given) fail_usage("--figure: requires --svg FILE");
  if (!a.svg.empty() && a.figure == "architecture") {
    require_argument(a.model, "MODEL", "trace");
    CLI::App none;
    const ConfigFlags no_flags(none, [](const KeyInfo&) { return false; });
    const InfoSubject subject = find_info_subject({.spec = a.model}, no_flags);
    write_picture(a.svg, architecture_svg(subject.counts.config, shown_name(a.model)));
    return 0;
  }
  require_argument(a.model, "MODEL", "trace");
  TraceRequest request = make_request(a);
  const DType dtype = parse_dtype("--dtype", a.dtype, {DType::f32, DType::f64});
  const LoadedModel loaded(a.model, dtype == DType::f64 ? std::optional(DType::f64) : std::nullopt);
  const std::unique_ptr<Tokenizer> tokenizer = chosen_tokenizer(loaded, a.tokenizer);
  const std::vector<int32_t> ids = traced_ids(a, tokenizer.get(), loaded.model().config);
  TokenNames names;
  if (tokenizer) names = TokenNames([&](int32_t id) { return bytes_of(*tokenizer, id); });
  const Isa isa = dtype == DType::f64 ? Isa::ref : chosen_isa();
  ThreadPool pool(chosen_threads(a.machine));
  Capture capture(loaded.model(), {pool, kernel_table(isa)}, ids, {.dtype = dtype});
  request.computed = fmt::format("{}, {}", a.dtype, isa_name(isa));
  if (!a.svg.empty()) {
    write_picture(a.svg, figure_of(a, request, capture, names));
    if (a.html.empty() && !a.json) return 0;
  }
  if (!a.html.empty()) {
    write_file_atomic(
        a.html, trace_page(capture, names, {.model = shown_name(a.model), .computed = request.computed}));
    write_note(fmt::format("wrote {}; open it in a browser\n", a.html));
    if (!a.json) return 0;
  }
  write_output(a.json ? trace_json(capture, names, request) : trace_text(capture, names, request));
  if (!a.json && a.has_prompt) write_next({"gpt", "trace", a.model, a.prompt, "--html", "trace.html"});
  return 0;
}

void add_view_options(CLI::App& app, TraceArguments& a) {
  add_tokenizer_option(app, a.tokenizer);
  add(app, {.flags = "--block", .value = "N|all", .help = "Layer to show in detail"}, a.block);
  add(app,
      {.flags = "--head",
       .value = "N",
       .help = "Attention head of the layer to show",
       .fallback = "a summary of all heads"},
      a.head);
  add(app,
      {.flags = "--query",
       .value = "N",
       .help = "Token whose attention scores and neurons to show",
       .fallback = "the last token"},
      a.query);
  add(app, {.flags = "--top-k", .value = "N", .help = "Number of predicted tokens and of neurons to show"},
      a.top_k);
  add(app,
      {.flags = "--html",
       .value = "FILE",
       .help = "File for a web page with all details, instead of text",
       .kind = ValueKind::path},
      a.html);
  add(app,
      {.flags = "--svg",
       .value = "FILE",
       .help = "File for an image, instead of text",
       .kind = ValueKind::path},
      a.svg);
}

}  // namespace

Command add_trace_command(CLI::App& root) {
  auto a = std::make_shared<TraceArguments>();
  CLI::App* app = add_command(root, "trace", "show a forward pass step by step, in numbers and images",
                              kTraceFooter + std::string("\n\nDemonstrations:\n") + demo_list());
  add_model_option(*app, a->model, "Model folder or file");
  CLI::Option* prompt = add(
      *app,
      {.flags = "-p,--prompt,PROMPT", .value = "TEXT", .help = "Text to trace", .aliases = "--start|--text"},
      a->prompt);
  add(*app,
      {.flags = "--prompt-file",
       .value = "FILE",
       .help = "File with the text to trace; - is standard input",
       .kind = ValueKind::path,
       .aliases = "--file|-f"},
      a->prompt_file);
  add(*app, {.flags = "--ids", .value = "1,2,3", .help = "Token ids to trace, instead of text"}, a->ids);
  add(*app,
      {.flags = "--special",
       .help = "Encode names of special tokens in the prompt as these tokens",
       .aliases = kSpecialAliases},
      a->special);
  add_view_options(*app, *a);
  CLI::Option* figure = add(*app,
                            {.flags = "--figure",
                             .help = "Image to write with --svg",
                             .choices = {"attention", "residual", "architecture"}},
                            a->figure);
  add(*app,
      {.flags = "--demo",
       .value = "NAME|all",
       .help = "Show a demonstration instead. Most demonstrations need no model",
       .choices = demo_names()},
      a->demo);
  add(*app,
      {.flags = "--dtype",
       .help = "Data type of the computation",
       .choices = {"fp32", "fp64"},
       .is_open = true,
       .kind = ValueKind::dtype},
      a->dtype);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a, prompt, figure] {
            a->has_prompt = prompt->count() > 0;
            a->figure_given = figure->count() > 0;
            return run(*a);
          }};
}

}  // namespace gpt
