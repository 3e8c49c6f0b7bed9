#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "command.h"
#include "options.h"
#include "output.h"
#include "report/table.h"
#include "verify/verify.h"

namespace gpt {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(VerifyCheck, name, error, tolerance, passed, detail)

namespace {

constexpr const char* kVerifyFooter = R"(Examples:
  gpt verify models/gpt2                        with golden.safetensors in the model folder
  gpt verify run --golden expected.safetensors --dtype fp64 --all
  gpt verify models/gpt2 --dtype bf16           errors at most twice those of PyTorch in bf16
  gpt verify models/gpt2 --write computed.safetensors)";

struct VerifyArguments {
  std::string model, dtype = "fp32";
  VerifyOptions options;
  bool all = false, json = false;
  MachineOptions machine;
};

// Returns the table row of a check. Checks of the same kind share one row, which shows the worst of them.
std::string group_of(const std::string& name) {
  for (const char* prefix : {"attention.", "grad.", "adamw.param."}) {
    if (name.rfind(prefix, 0) == 0) return std::string(prefix) + "*";
  }
  return name;
}

// Returns the error of a check relative to its tolerance.
double strain(const VerifyCheck& check) {
  if (check.tolerance > 0) return check.error / check.tolerance;
  return check.passed ? 0 : INFINITY;
}

std::vector<std::string> table_row(const std::string& name, const VerifyCheck& check) {
  return {name, fmt::format("{:.2e}", check.error), fmt::format("{:.2e}", check.tolerance),
          check.passed ? "ok" : "FAILED", check.passed ? "" : check.detail};
}

std::string checks_table(const VerifyResult& result, bool all) {
  TextTable table{.columns = {"check", "error", "tolerance", "result", ""}};
  struct Group {
    std::string name;
    const VerifyCheck* worst;
    int count = 0;
  };
  std::vector<Group> groups;
  for (const VerifyCheck& check : result.checks) {
    if (all || !check.passed) {
      table.rows.push_back(table_row(check.name, check));
      continue;
    }
    const std::string name = group_of(check.name);
    auto group = std::ranges::find(groups, name, &Group::name);
    if (group == groups.end()) group = groups.insert(group, {name, &check});
    if (strain(check) > strain(*group->worst)) group->worst = &check;
    ++group->count;
  }
  for (const auto& [name, worst, count] : groups) {
    table.rows.push_back(
        table_row(count == 1 ? worst->name : fmt::format("{} ({}, the worst)", name, count), *worst));
  }
  return format_table(table);
}

int run(VerifyArguments a) {
  require_argument(a.model, "MODEL", "verify");
  VerifyOptions& options = a.options;
  options.dtype = parse_dtype("--dtype", a.dtype, {DType::f32, DType::f64, DType::bf16, DType::f16});
  options.threads = chosen_threads(a.machine);
  if (options.golden.empty()) {
    const std::filesystem::path model = resolve_model_path(a.model);
    const std::filesystem::path folder = std::filesystem::is_directory(model) ? model : model.parent_path();
    options.golden = (folder / "golden.safetensors").string();
    if (!std::filesystem::exists(options.golden)) {
      fail("{} has no golden.safetensors in its folder; name a file with --golden", a.model);
    }
  }
  check_output_file("--write", options.write, {"\"written_by\":\"gpt verify\""});
  const std::filesystem::path beside =
      std::filesystem::path(options.golden).parent_path() / "golden_bf16.json";
  if (options.bf16_errors.empty() && std::filesystem::exists(beside)) options.bf16_errors = beside.string();
  options.isa = options.dtype == DType::f64 ? Isa::ref : chosen_isa();
  const VerifyResult result = verify_model(a.model, options);
  const auto failed = std::ranges::count_if(result.checks, [](const VerifyCheck& c) { return !c.passed; });
  if (a.json) {
    const nlohmann::json out = {
        {"passed", result.passed()}, {"checks", result.checks}, {"note", result.exact_note}};
    write_output(out.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n");
  } else {
    write_output(checks_table(result, a.all));
    write_output(fmt::format("{}: {} of {} checks passed ({}, {}); {}\n", result.passed() ? "PASS" : "FAIL",
                             std::ssize(result.checks) - failed, result.checks.size(), a.dtype,
                             isa_name(options.isa), result.exact_note));
    if (result.passed()) {
      write_next({"gpt", "info", a.model});
    } else {
      write_next({"gpt", "verify", a.model, "--all"});
    }
  }
  return result.passed() ? 0 : 1;
}

}  // namespace

Command add_verify_command(CLI::App& root) {
  auto a = std::make_shared<VerifyArguments>();
  CLI::App* app =
      add_command(root, "verify", "compare the computations of a model with golden values", kVerifyFooter);
  add_model_option(*app, a->model, "Model folder or file");
  add(*app,
      {.flags = "--golden",
       .value = "FILE",
       .help = "File with the expected values",
       .fallback = "golden.safetensors in the model folder",
       .kind = ValueKind::path},
      a->options.golden);
  add(*app,
      {.flags = "--write",
       .value = "FILE",
       .help = "File for the computed values, under the same names",
       .kind = ValueKind::path},
      a->options.write);
  add(*app,
      {.flags = "--dtype",
       .help = "Data type of the computation",
       .choices = {"fp32", "fp64", "bf16", "fp16"},
       .is_open = true,
       .kind = ValueKind::dtype},
      a->dtype);
  add(*app,
      {.flags = "--bf16-errors",
       .value = "FILE",
       .help = "Errors of PyTorch in bf16. Errors in bf16 and fp16 may be at most twice as large",
       .fallback = "golden_bf16.json in the folder of the golden file",
       .kind = ValueKind::path},
      a->options.bf16_errors);
  add(*app, {.flags = "--all", .help = "List every check, not only groups and failures"}, a->all);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt
