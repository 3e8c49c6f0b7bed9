#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/format.h"
#include "base/process_memory.h"
#include "base/ranges.h"
#include "bench/limits.h"
#include "bench/workload.h"
#include "bench_report.h"
#include "command.h"
#include "config_flags.h"
#include "distributed/machine_share.h"
#include "interrupt.h"
#include "model/kv_cache.h"
#include "model/model_files.h"
#include "model/presets.h"
#include "options.h"
#include "output.h"
#include "world.h"

namespace gpt {
namespace {

constexpr const char* kBenchFooter = R"(Examples:
  gpt bench                                            only the machine's limits
  gpt bench mini-gpt --mode train
  gpt bench gpt2 --mode train --batch-size 4 --n-ctx 256 --json
  gpt bench llama-small --mode prefill,decode,batch --dtype bf16,q8_0
  gpt bench model-Q4_K_M.gguf --dtype bf16             prefill, decode, batch
  gpt bench model-Q4_K_M.gguf -p 512 -n 128 --dtype bf16 --kv-dtype int8
  gpt bench runs/book --mode decode --depth 4096 --threads 1
  mpirun -n 2 gpt bench mini-gpt --batch-size 16       training with two processes
  gpt bench --n-layer 4 --n-embd 256 --n-head 4 --vocab-size 512 --n-ctx 128 --mode train

Presets (gpt info lists them) and shapes from options have random weights. A preset takes precedence over a folder of the
same name. Without --mode, --rows selects prefill, --tokens decode and --sequences batch. Quantized weights of a GGUF file are
used directly, and --dtype is the data type of activations: "q4_k x bf16". GPT_ISA=avx2 gpt bench ... selects an instruction
set: ref, avx2, avx512, avx512bf16 or amx. The machine's limits are measured before and after every workload, and memory
bandwidth for decode and batch around every repeat. Shares are relative to the mean of both measurements, because other programs on
the machine slow down both. To compare two programs, alternate their runs (bench/rivals).)";

struct BenchArguments {
  std::string model;
  std::vector<std::string> modes, dtypes;
  std::string kv_dtype, repack = "auto";
  std::optional<int64_t> rows, tokens;  // default counts, reduced if the context is too small for them
  std::optional<int64_t> sequences;
  int64_t depth = 0, repeat = 5, bytes = int64_t{1} << 30;
  bool json = false;
  MachineOptions machine;
};

// Returns true for the keys that determine a training step: those of the model, batch_size and recompute.
bool is_bench_key(const KeyInfo& key) {
  return key.is_model || key.name == "batch_size" || key.name == "recompute";
}

std::vector<std::string> mode_names() {
  return transformed(kBenchModes, [](BenchMode mode) { return std::string(mode_name(mode)); });
}

BenchMode parse_mode(const std::string& name) {
  return *find_by(kBenchModes, mode_name, name);
}

// The model to measure: a config with random weights, or a model from disk.
struct BenchSubject {
  std::string name;
  RunConfig config;
  int64_t train_ctx = 0;                // tokens per training sample
  std::unique_ptr<LoadedModel> loaded;  // null after its weights have been copied
  bool in_place = false;                // inference reads the weights directly from the GGUF file
  std::optional<DType> blocks = {};     // the most common quantized dtype of the weights
};

BenchSubject find_subject(const BenchArguments& a, const ConfigFlags& flags) {
  BenchSubject subject{.name = a.model.empty() ? "a custom shape" : a.model, .config = {}, .loaded = {}};
  Settings settings;
  if (is_preset(a.model)) {
    settings.add_preset(a.model);
  } else if (!a.model.empty()) {
    require_model_or_preset(a.model);
    for (const std::string& key : flags.given()) {
      if (key == "batch_size" || key == "recompute" || key == "n_ctx") continue;
      fail_usage("{}: the shape of {} is fixed by its files; name a preset to change the shape",
                 ConfigFlags::flag_name(key), a.model);
    }
    subject.loaded = std::make_unique<LoadedModel>(a.model, std::nullopt);
    settings.add_model(subject.loaded->model().config);
    subject.in_place = subject.loaded->gguf() != nullptr;
    subject.blocks = block_type(subject.loaded->model());
  }
  settings.add_json({{"dropout", 0}}, "gpt bench");
  flags.apply_flags(settings);
  subject.config = settings.resolve();
  if (subject.config.model.vocab_size == 0) subject.config.model.vocab_size = 256;
  constexpr int64_t kTokensPerStep = 4096;
  int64_t& n_ctx = subject.config.model.n_ctx;
  subject.train_ctx = flags.is_given("n_ctx") ? n_ctx : std::min(n_ctx, kTokensPerStep);
  if (subject.loaded) n_ctx = subject.loaded->model().config.n_ctx;
  check_range("--n-ctx", subject.train_ctx, 1, n_ctx);
  if (!flags.is_given("batch_size")) {
    const int64_t processes = world().size();
    const int64_t samples = std::max<int64_t>(1, kTokensPerStep / subject.train_ctx);
    subject.config.train.batch_size = (samples + processes - 1) / processes * processes;
  }
  return subject;
}

// Returns the requested modes. Without --mode, returns the modes that the given flags belong to, or all
// modes. Quantized weights cannot be trained, and are only dequantized for training on request.
std::vector<BenchMode> modes_of(const BenchArguments& a, const ConfigFlags& flags, bool trainable) {
  if (!a.modes.empty()) return transformed(a.modes, parse_mode);
  if (world().size() > 1) return {BenchMode::train};
  std::vector<BenchMode> modes;
  if (trainable && (flags.is_given("batch_size") || flags.is_given("recompute")))
    modes.push_back(BenchMode::train);
  if (a.rows) modes.push_back(BenchMode::prefill);
  if (a.tokens) modes.push_back(BenchMode::decode);
  if (a.sequences) modes.push_back(BenchMode::batch);
  if (!modes.empty()) return modes;
  if (!trainable || a.depth > 0) return {BenchMode::prefill, BenchMode::decode, BenchMode::batch};
  return {std::begin(kBenchModes), std::end(kBenchModes)};
}

std::vector<Workload> plan_workloads(const BenchArguments& a, const ConfigFlags& flags,
                                     const BenchSubject& subject) {
  const RunConfig& config = subject.config;
  const std::vector<DType> dtypes =
      transformed(a.dtypes, [](const std::string& name) { return parse_dtype("--dtype", name); });
  const bool trainable = !subject.blocks && std::ranges::none_of(dtypes, is_quantized);
  std::vector<Workload> list;
  for (const BenchMode mode : modes_of(a, flags, trainable)) {
    for (const DType dtype : dtypes) {
      Workload w{.mode = mode, .dtype = dtype};
      if (mode != BenchMode::train) w.blocks = subject.blocks;
      w.kv_dtype = parse_kv_dtype(a.kv_dtype, w.dtype);
      w.batch_size = config.train.batch_size;
      w.n_ctx = subject.train_ctx;
      w.recompute = config.train.recompute;
      w.depth = a.depth;
      const int64_t context = config.model.n_ctx;
      if (w.depth < 0 || w.depth >= context)
        fail_usage("--depth: expected 0 to {}, because the context has {} tokens; found {}", context - 1,
                   context, w.depth);
      w.rows = a.rows.value_or(std::min(w.rows, context - w.depth));
      w.tokens = a.tokens.value_or(std::min(w.tokens, context - w.depth));
      w.sequences = a.sequences.value_or(w.sequences);
      w.repeat = static_cast<int>(a.repeat);
      w.repack = chosen_repack(a.repack);
      check_range("--rows", w.rows, 1, context - w.depth);
      check_range("--tokens", w.tokens, 1, context - w.depth);
      // Throws if the KV cache does not support the dtype.
      if (mode != BenchMode::train) KvCache::bytes(config.model, 1, w.kv_dtype);
      list.push_back(w);
    }
  }
  return list;
}

void check_arguments(BenchArguments& a) {
  check_range("--repeat", a.repeat, 1, 1000000);
  check_range("--sequences", a.sequences.value_or(1), 1, 4096);
  check_range("--bytes", a.bytes, 1 << 16, int64_t{1} << 40);
  if (a.dtypes.empty()) a.dtypes = {"fp32"};
  const bool trains = std::ranges::find(a.modes, "train") != a.modes.end();
  for (const std::string& dtype : a.dtypes) {
    if (is_quantized(parse_dtype("--dtype", dtype)) && trains)
      fail_usage("--mode train: expected --dtype fp32, bf16 or fp16, found {}", dtype);
  }
  for (const std::string& mode : a.modes) {
    if (parse_mode(mode) != BenchMode::train && world().size() > 1)
      fail_usage("--mode {}: several processes ({}) can only measure training; start gpt without mpirun",
                 mode, world().size());
  }
}

// Rejects flags that need a model if only the machine is measured.
void check_has_model(const BenchArguments& a) {
  const auto refuse = [](const char* flag) {
    fail_usage("{}: requires a model: gpt bench MODEL {} ...; gpt info lists the presets", flag, flag);
  };
  if (!a.modes.empty()) refuse("--mode");
  if (!a.dtypes.empty()) refuse("--dtype");
  if (!a.kv_dtype.empty()) refuse("--kv-dtype");
  if (a.rows) refuse("--rows");
  if (a.tokens) refuse("--tokens");
  if (a.sequences) refuse("--sequences");
  if (a.depth != 0) refuse("--depth");
}

// Throws invalid_argument unless the batch can be split equally among the ranks.
void check_shares(const RunConfig& config) {
  if (config.train.batch_size % world().size() != 0)
    fail_usage("--batch-size: expected a multiple of the {} processes, found {}", world().size(),
               config.train.batch_size);
}

// Measures the machine limits of all ranks concurrently and adds them up.
MachineLimits limits_of_all(ThreadPool& pool, Isa isa, int64_t bytes) {
  const std::vector<double> rates = rates_together(
      world(), pool.size(),
      [&] {
        const MachineLimits own = measure_limits(pool, isa, bytes);
        return std::vector<double>{own.fp32, own.bf16, own.int8, own.memory};
      },
      "measuring the machine");
  return {.fp32 = rates[0], .bf16 = rates[1], .int8 = rates[2], .memory = rates[3]};
}

// Progress notes on stderr: a line that is rewritten on a terminal, else one line per workload.
class Notes {
 public:
  void begin(const std::string& what) {
    what_ = what;
    write_note(live_ ? fmt::format("\r\x1b[K{}", what) : what + "\n");
  }
  void repeat(int done, int all) const {
    if (!live_ || done > all) return;
    write_note(
        fmt::format("\r\x1b[K{}: {}", what_, done == 0 ? "warming up" : fmt::format("{} of {}", done, all)));
  }
  void end() const {
    if (live_) write_note("\r\x1b[K");
  }

 private:
  std::string what_;
  bool live_ = notes_are_on_terminal();
};

// Returns true if a workload reads all weights for a few tokens, so that its speed is limited by memory
// bandwidth.
bool reads_weights(const Workload& w) {
  return w.mode == BenchMode::decode || w.mode == BenchMode::batch;
}

// Provides the weights for one workload at a time. Inference reads the weights of a GGUF file directly, as
// `gpt generate` does. Other workloads use an fp32 buffer, which is created on first use.
class BenchWeights {
 public:
  BenchWeights(BenchSubject& subject, Model& model, ThreadPool& pool)
      : subject_(subject), model_(model), pool_(pool) {}

  const ParamBuffer& use_for(const Workload& w, Notes& notes) {
    if (subject_.in_place && w.mode != BenchMode::train) {
      copied_.reset();
      model_.weights = subject_.loaded->model().weights;
      model_.pages = subject_.loaded->model().pages;
      return none_;
    }
    if (!copied_) copy(notes);
    return *copied_;
  }

 private:
  void copy(Notes& notes) {
    notes.begin(subject_.loaded ? "reading " + subject_.name : "making random weights");
    copied_.emplace(model_.table, DType::f32, "weights");
    model_.pages = nullptr;
    model_.weights.assign(copied_->views().begin(), copied_->views().end());
    if (!subject_.loaded) return fill_random_weights(pool_, model_.table, *copied_);
    subject_.loaded->copy_to(*copied_);
    if (!subject_.in_place) subject_.loaded.reset();  // its pages would count as memory of the workload
  }

  BenchSubject& subject_;
  Model& model_;
  ThreadPool& pool_;
  std::optional<ParamBuffer> copied_;
  ParamBuffer none_;
};

// Runs the workloads and measures the machine limits between them, so that each workload has measurements
// before and after it. If interrupted, returns the workloads that are finished.
std::vector<BenchRecord> run_workloads(const BenchArguments& a, const std::vector<Workload>& workloads,
                                       BenchSubject& subject, Machine& machine,
                                       std::vector<MachineLimits>& limits, Notes& notes) {
  std::optional<MemoryRate> memory;
  if (std::ranges::any_of(workloads, reads_weights))
    memory.emplace(machine.pool, isa_of(machine.backend.kernels), a.bytes);
  const int64_t resident = resident_bytes();
  Model model(subject.config.model);
  BenchWeights weights(subject, model, machine.pool);
  std::vector<BenchRecord> records;
  for (const Workload& w : workloads) {
    const ParamBuffer& own = weights.use_for(w, notes);
    notes.begin(describe_workload(w));
    model.packed = std::make_unique<WeightCache>();
    reset_peak_resident();
    BenchRecord record{.workload = w, .before = limits.back()};
    const auto between_repeats = [&](int i) {
      if (interrupted() && i <= w.repeat) throw Interrupted("interrupted between repeats");
      if (i > 0 && reads_weights(w)) record.memory.push_back(memory->measure(2));
      notes.repeat(i, w.repeat);
    };
    const WorkloadContext context{.model = model,
                                  .weights = own,
                                  .backend = machine.backend,
                                  .progress = between_repeats,
                                  .processes = &world()};
    try {
      record.result = run_workload(context, w);
    } catch (const Interrupted&) {
      break;
    }
    record.memory_measured = std::max<int64_t>(0, peak_resident_bytes() - resident);
    notes.begin("measuring the machine");
    limits.push_back(limits_of_all(machine.pool, isa_of(machine.backend.kernels), a.bytes));
    record.after = limits.back();
    records.push_back(std::move(record));
    if (world().size() == 1) install_graceful_interrupt("showing the results after this repeat");
  }
  return records;
}

int run(BenchArguments a, const ConfigFlags& flags) {
  const bool limits_only = a.model.empty() && flags.given().empty();
  if (limits_only) check_has_model(a);
  check_arguments(a);
  std::optional<BenchSubject> subject;
  std::vector<Workload> workloads;
  if (!limits_only) {
    subject = find_subject(a, flags);
    check_shares(subject->config);
    workloads = plan_workloads(a, flags, *subject);
  }
  Machine machine(part_of_machine(a.machine));
  BenchReport report{.threads = machine.pool.size(),
                     .processes = world().size(),
                     .isa = isa_of(machine.backend.kernels),
                     .model = {},
                     .records = {}};
  Notes notes;
  notes.begin("measuring the machine");
  report.limits.push_back(limits_of_all(machine.pool, isa_of(machine.backend.kernels), a.bytes));
  if (subject) {
    report.model = {.name = subject->name,
                    .random_weights = subject->loaded == nullptr,
                    .blocks = subject->blocks,
                    .counts = ModelCounts(subject->config.model)};
    report.records = run_workloads(a, workloads, *subject, machine, report.limits, notes);
  }
  notes.end();
  write_output(a.json ? report_json(report).dump(2) + "\n" : report_text(report));
  if (interrupted()) {
    write_note(fmt::format("interrupted: {} of {} workloads were measured\n", report.records.size(),
                           workloads.size()));
    return kInterruptedStatus;
  }
  if (a.json) return 0;
  if (limits_only) write_next({"gpt", "bench", "tiny"});
  if (is_preset(a.model)) write_next({"gpt", "plan", "--preset", a.model, "--data", "tales"});
  if (!a.model.empty() && !is_preset(a.model)) write_next(use_command(a.model));
  return 0;
}

void add_size_options(CLI::App& app, BenchArguments& a) {
  const auto count = [&](const char* flag, auto& value, const char* help, const char* fallback,
                         const char* aliases) {
    add(app,
        {.flags = flag, .value = "N", .help = help, .fallback = fallback, .aliases = aliases, .common = true},
        value);
  };
  count("--rows", a.rows, "prefill: number of prompt tokens", "512", "-p|--n-prompt");
  count("--tokens", a.tokens, "decode and batch: number of tokens per sequence", "64", "-n|--n-gen");
  count("--sequences", a.sequences, "batch: number of sequences that are decoded together", "16", "");
  count("--depth", a.depth, "Inference: number of tokens in the KV cache before the measurement", "",
        "--n-depth");
  count("--repeat", a.repeat, "Number of timed repeats, after one that is not timed", "", "-r|--repetitions");
  add(app,
      {.flags = "--bytes",
       .value = "N",
       .help = "Size of the buffer that is summed to measure memory bandwidth",
       .fallback = "1 GiB"},
      a.bytes);
}

}  // namespace

Command add_bench_command(CLI::App& root) {
  auto a = std::make_shared<BenchArguments>();
  CLI::App* app = add_command(root, "bench", "measure training and inference speed and the machine's limits",
                              kBenchFooter);
  add_model_option(*app, a->model, "Preset, model folder or file. Without it, only the machine is measured",
                   ValueKind::model_or_preset);
  add(*app,
      {.flags = "--mode",
       .value = "NAME,...",
       .help = "Workloads to measure: " + format_choices(mode_names()),
       .fallback = "all",
       .choices = mode_names(),
       .delimiter = ',',
       .common = true},
      a->modes);
  add(*app,
      {.flags = "--dtype",
       .value = "NAME,...",
       .help = "Data types of the weights in matmuls: fp32, bf16, fp16, and for inference q8_0, q4_0",
       .fallback = "fp32",
       .choices = matmul_dtypes(),
       .is_open = true,
       .kind = ValueKind::dtype,
       .delimiter = ',',
       .common = true},
      a->dtypes);
  OptionSpec kv_dtype = kv_dtype_option();
  kv_dtype.common = true;
  add(*app, kv_dtype, a->kv_dtype);
  add_repack_option(*app, a->repack);
  add_size_options(*app, *a);
  add_json_option(*app, a->json);
  add_machine_options(*app, a->machine);
  const auto flags = std::make_shared<ConfigFlags>(*app, is_bench_key);
  return {app, [a, flags] { return run(*a, *flags); }};
}

}  // namespace gpt
