// Loads two thousand damaged models end to end. Each model must either be refused with a one-line gpt::Error,
// or load and generate. A damaged model must never cause a crash, a different exception, a hang or unbounded
// memory use.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "base/rng.h"
#include "convert/gguf_export.h"
#include "convert/gguf_vocab.h"
#include "io/safetensors.h"
#include "model/inference.h"
#include "model/model_files.h"
#include "support/backend.h"
#include "support/sanitizer.h"
#include "support/small_models.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kFamilies[] = {"gpt1",         "gpt1-preln", "gpt2",         "gpt2-scratch",
                                 "mini-gpt",     "nanochat",   "nanochat-mqa", "nanochat-notebook",
                                 "nanochat-doc", "llama",      "llama3-rope",  "mistral"};
constexpr int kPerFamily = 160;  // 12 families and two times kBinCases make 2,120 cases
constexpr int kBinCases = 100;
constexpr int kGgufCases = 150;   // per kind of file
constexpr int kHangSeconds = 60;  // a case takes milliseconds, and less than this on the busiest machine
constexpr int64_t kMaxMemoryKb = 300 << 10;

// Returns the value of a line of /proc/self/status in kB.
int64_t status_kb(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1));
  }
  return 0;
}

// The message that the alarm handler prints before it ends the process.
char current_case[256];
void on_alarm(int) {
  const ssize_t written = write(STDERR_FILENO, current_case, std::strlen(current_case));
  _exit(written > 0 ? 1 : 2);
}

class Watch {
 public:
  explicit Watch(const std::string& what) {
    std::snprintf(current_case, sizeof current_case, "\nhangs: %.200s\n", what.c_str());
    std::signal(SIGALRM, on_alarm);
    alarm(kHangSeconds);
  }
  ~Watch() { alarm(0); }
};

// Loads a model and generates a few tokens.
void use(const std::string& path) {
  const LoadedModel loaded(path);
  if (loaded.gguf() != nullptr) {
    if (const auto vocab = gguf_vocab(*loaded.gguf()))
      tokenizer_of(*vocab, path)->encode("a <|word|> or two");
  }
  const ModelConfig& c = loaded.model().config;
  ThreadPool pool(1);
  Inference inference(loaded.model(), backend(pool, best_isa()), {.slots = 1, .max_rows = 8});
  Buffer memory(static_cast<size_t>(c.vocab_size) * sizeof(float), "logits");
  const TensorView logits = make_view(memory.data(), DType::f32, {1, c.vocab_size});
  int32_t id = 0;
  for (int64_t t = 0; t < std::min<int64_t>(4, c.n_ctx); ++t) {
    const Inference::Append part{0, {&id, 1}};
    inference.append({&part, 1}, logits);
    id = static_cast<int32_t>(std::max_element(logits.as<float>(), logits.as<float>() + c.vocab_size) -
                              logits.as<float>());
  }
}

// Returns true if the model was refused. Any outcome other than success or a one-line gpt::Error fails the
// test.
bool refused(const std::string& path, const std::string& what) {
  const Watch watch(what);
  try {
    use(path);
    return false;
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_FALSE(message.empty()) << what;
    EXPECT_EQ(message.find('\n'), std::string::npos) << what << ": " << message;
    EXPECT_LT(message.size(), 2000u) << what << ": " << message.substr(0, 200);
  } catch (const std::exception& other) {
    ADD_FAILURE() << what << ": not a gpt::Error: " << other.what();
  }
  return true;
}

// ---------------------------------------------------------------------------------------------------
// Mutations. Half of the mutations are aware of the file structure.

class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed, RandomSite::test) {}

  size_t below(size_t n) { return static_cast<size_t>(random_.below(n)); }
  template <class List>
  const auto& pick(const List& list) {
    return *std::next(std::begin(list), static_cast<std::ptrdiff_t>(below(std::size(list))));
  }

  // Changes bits, changes runs of bytes, truncates or repeats somewhere in the first `region` bytes.
  std::string bytes(std::string s, size_t region) {
    region = std::min(region, s.size());
    if (region == 0) return s;
    const size_t at = below(region);
    switch (below(6)) {
      case 0:
        s[at] = static_cast<char>(s[at] ^ (1 << below(8)));
        break;
      case 1:
        s[at] = static_cast<char>(below(256));
        break;
      case 2:
        s.resize(at);
        break;
      case 3:
        s.erase(at, below(20) + 1);
        break;
      case 4:
        s.insert(at, s.substr(below(s.size()), below(40)));
        break;
      default:
        for (size_t i = at; i < std::min(s.size(), at + 8); ++i)
          s[i] = static_cast<char>(below(2) * 255);
    }
    return s;
  }

  // Returns an unexpected JSON value for a place where a number or a name is expected.
  json strange() {
    static const json values[] = {0,
                                  1,
                                  2,
                                  3,
                                  -1,
                                  7,
                                  8,
                                  63,
                                  64,
                                  1000,
                                  65536,
                                  16777216,
                                  2147483647,
                                  2147483648,
                                  -2147483649,
                                  INT64_MAX,
                                  INT64_MIN,
                                  UINT64_MAX,
                                  1e-300,
                                  1e300,
                                  -1e300,
                                  0.5,
                                  1e18,
                                  "",
                                  "x",
                                  "16",
                                  true,
                                  false,
                                  nullptr,
                                  json::array(),
                                  json::object(),
                                  json::array({1, 2, 3}),
                                  std::string(5000, 'y'),
                                  "\n\t",
                                  json::array({json::array({json::array()})})};
    return pick(values);
  }

  // Changes an entry of an object or of a nested object.
  void object(json& o) {
    if (!o.is_object() || o.empty()) return;
    auto entry = std::next(o.begin(), static_cast<std::ptrdiff_t>(below(o.size())));
    auto other = std::next(o.begin(), static_cast<std::ptrdiff_t>(below(o.size())));
    const std::string key = entry.key();
    switch (below(7)) {
      case 0:
        o.erase(key);
        break;
      case 1:
        std::swap(entry.value(), other.value());
        break;
      case 2: {
        const json value = entry.value();
        o.erase(key);
        o[pick(std::vector<std::string>{key + "x", "", "__metadata__", "model_type", "n_embd"})] = value;
        break;
      }
      case 3:
        if (entry.value().is_object()) {
          object(entry.value());
          break;
        }
        [[fallthrough]];
      case 4:
        if (entry.value().is_number()) {
          number(entry.value());
          break;
        }
        if (entry.value().is_object()) {
          object(entry.value());
          break;
        }
        if (entry.value().is_array() && !entry.value().empty()) {
          number(entry.value()[below(entry.value().size())]);
          break;
        }
        [[fallthrough]];
      default:
        entry.value() = strange();
    }
  }

 private:
  void number(json& v) {
    if (!v.is_number()) {
      v = strange();
      return;
    }
    const double old = v.get<double>();
    const auto bits = static_cast<uint64_t>(std::abs(old) < 1e18 ? v.get<int64_t>() : INT64_MAX);  // may wrap
    const auto whole = [](uint64_t x) { return static_cast<int64_t>(x); };
    switch (below(6)) {
      case 0:
        v = whole(-bits);
        break;
      case 1:
        v = whole(bits + 1);
        break;
      case 2:
        v = whole(bits - 1);
        break;
      case 3:
        v = old * 1e6;
        break;
      case 4:
        v = whole(bits * 2);
        break;
      default:
        v = strange();
    }
  }

  RandomStream random_;
};

uint64_t header_length(const std::string& file) {
  uint64_t n = 0;
  std::memcpy(&n, file.data(), sizeof n);
  return n;
}

std::string with_header(const std::string& file, const std::string& header, bool pad) {
  std::string text = header;
  if (pad) text.resize((text.size() + 63) / 64 * 64, ' ');
  const uint64_t n = text.size();
  std::string out(sizeof n, '\0');
  std::memcpy(out.data(), &n, sizeof n);
  return out + text + file.substr(8 + header_length(file));
}

std::string mutated_safetensors(const std::string& file, Mutator& m) {
  const uint64_t n = header_length(file);
  const std::string text = file.substr(8, n);
  switch (m.below(8)) {
    case 0: {  // the length itself
      const uint64_t lengths[] = {0,           1,         n - 1,      n + 1,      n * 2,     file.size() - 8,
                                  file.size(), 100000001, 1ull << 40, 1ull << 63, UINT64_MAX};
      std::string out = file;
      std::memcpy(out.data(), &m.pick(lengths), sizeof n);
      return out;
    }
    case 1: {  // a duplicate name
      const size_t at = text.find('"', 1);
      return with_header(file, "{" + text.substr(1, text.find('}', at) - 1 + 1) + "," + text.substr(1), true);
    }
    case 2:  // the body
      return file.substr(0, 8 + n + m.below(file.size() - 8 - n));
    case 3:
      return m.bytes(file, 8 + n);
    default: {
      json header = json::parse(text);
      const size_t rounds = m.below(3) + 1;
      for (size_t i = 0; i < rounds; ++i)
        m.object(header);
      return with_header(file, header.dump(-1, ' ', false, json::error_handler_t::replace), m.below(4) > 0);
    }
  }
}

std::string mutated_config(const std::string& text, Mutator& m) {
  if (m.below(4) == 0) return m.bytes(text, text.size());
  json config = json::parse(text);
  const size_t rounds = m.below(3) + 1;
  for (size_t i = 0; i < rounds; ++i)
    m.object(config);
  return config.dump(-1, ' ', false, json::error_handler_t::replace);
}

class HostileModel : public testing::TestWithParam<std::string> {};

TEST_P(HostileModel, IsRefusedOrRuns) {
  const std::string original = GPT_SOURCE_DIR "/tests/golden/data/" + GetParam();
  const std::string config = read_file(original + "/config.json"),
                    weights = read_file(original + "/model.safetensors");
  TempDir dir;
  write_plain_file(dir.file("config.json"), config);
  write_plain_file(dir.file("model.safetensors"), weights);
  EXPECT_FALSE(refused(dir.path(), "the unchanged model"));
  std::ofstream("/proc/self/clear_refs") << "5";  // reset the peak
  const int64_t before = status_kb("VmRSS");
  int errors = 0;
  for (int i = 0; i < kPerFamily; ++i) {
    Mutator m(static_cast<uint64_t>(i) * 1000 + GetParam().size());
    const bool change_config = i % 2 == 0;
    const std::string name = change_config ? "config.json" : "model.safetensors";
    write_plain_file(dir.file(name),
                     change_config ? mutated_config(config, m) : mutated_safetensors(weights, m));
    errors += refused(dir.path(), fmt::format("{} case {} ({})", GetParam(), i, name));
    write_plain_file(dir.file(name), change_config ? config : weights);
    if (testing::Test::HasFailure()) break;
  }
  // Some changes are harmless (a comment, a tied head, an epsilon), but most are not.
  EXPECT_GT(errors, kPerFamily / 3);
  if (!kAddressSanitizer) {
    EXPECT_LT(status_kb("VmHWM") - before, kMaxMemoryKb) << "kB of memory at the peak";
  }
  EXPECT_FALSE(refused(dir.path(), "the unchanged model, afterwards"));
}

INSTANTIATE_TEST_SUITE_P(Families, HostileModel, testing::ValuesIn(kFamilies),
                         [](const auto& param) { return test_name(param.param); });

// Returns the smallest llama2.c checkpoint: one layer and four tokens of context.
std::string small_bin() {
  const int32_t header[] = {8, 12, 1, 2, 1, 11, 4};
  const size_t dim = 8, hidden = 12, kv = 4, vocab = 11, tables = 4 * 4;
  const size_t floats =
      vocab * dim + dim + dim * dim + 2 * kv * dim + dim * dim + dim + 3 * hidden * dim + dim + tables;
  RandomStream random(3, RandomSite::test);
  std::string bytes(reinterpret_cast<const char*>(header), sizeof header);
  for (size_t i = 0; i < floats; ++i) {
    const auto x = static_cast<float>(random.normal());
    bytes.append(reinterpret_cast<const char*>(&x), sizeof x);
  }
  return bytes;
}

TEST(HostileLlama2c, IsRefusedOrRuns) {
  const std::string original = small_bin();
  TempDir dir;
  const std::string path = dir.file("model.bin");
  write_plain_file(path, original);
  EXPECT_FALSE(refused(path, "the unchanged .bin"));
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = status_kb("VmRSS");
  int errors = 0;
  for (int i = 0; i < kBinCases; ++i) {
    Mutator m(static_cast<uint64_t>(i) + 77);
    std::string bytes = original;
    if (i % 2 == 0) {
      const int32_t values[] = {0, 1, -1, 2, 3, 7, 16, -11, 1000, 65536, INT32_MAX, INT32_MIN};
      std::memcpy(bytes.data() + 4 * m.below(7), &m.pick(values), 4);
    } else {
      bytes = m.bytes(bytes, i % 4 == 1 ? 28 : bytes.size());
    }
    write_plain_file(path, bytes);
    errors += refused(path, fmt::format(".bin case {}", i));
  }
  EXPECT_GT(errors, kBinCases / 3);
  if (!kAddressSanitizer) {
    EXPECT_LT(status_kb("VmHWM") - before, kMaxMemoryKb);
  }
}

// Damages the header and metadata of GGUF files, for example with extreme numbers. Covers both architectures,
// float and quantized weights, and a tokenizer.
TEST(HostileGguf, IsRefusedOrRuns) {
  const auto tokenizer = load_tokenizer(GPT_SOURCE_DIR "/tests/data/bpe.tokenizer.json");
  TempDir dir;
  const std::string path = dir.file("model.gguf");
  int errors = 0;
  for (const auto& [family, dtype] :
       {std::pair{"llama", DType::f32}, {"gpt2", DType::q4_k}, {"llama", DType::q6_k}}) {
    const RandomModel random(
        make_config({family, family,
                     fmt::format(R"({{"vocab_size": {}, "n_embd": 256, "n_layer": 1, "d_ff": 32}})",
                                 tokenizer->vocab_size())}),
        DType::f32);
    write_gguf(path, random.model, random.model.weights, tokenizer.get(), {.dtype = dtype});
    const std::string original = read_file(path);
    const size_t header = parse_gguf_header(std::as_bytes(std::span(original)), path).data_begin;
    EXPECT_FALSE(refused(path, "the unchanged .gguf"));
    for (int i = 0; i < kGgufCases; ++i) {
      Mutator m(static_cast<uint64_t>(i) + 177);
      std::string bytes = original;
      if (i % 2 == 0) {
        const uint64_t values[] = {0,   1,     ~uint64_t{0}, uint64_t{1} << 32, uint64_t{1} << 63,
                                   255, 65536, 1 << 24};
        const size_t size = i % 4 == 0 ? 8 : 4;
        // Most of the header is the vocabulary. The changes are distributed so that the parts before and
        // after the vocabulary also get their share.
        const size_t at = i % 3 == 0   ? m.below(header - 8)
                          : i % 3 == 1 ? m.below(600)
                                       : header - 8 - m.below(600);
        std::memcpy(bytes.data() + at, &m.pick(values), size);
      } else {
        bytes = m.bytes(bytes, i % 4 == 1 ? 600 : header);
      }
      write_plain_file(path, bytes);
      errors += refused(path, fmt::format("{} {} case {}", family, dtype_name(dtype), i));
    }
  }
  EXPECT_GT(errors, kGgufCases);
}

// Damages a torch.save checkpoint, mostly its pickle and its zip directory.
TEST(HostileTorch, IsRefusedOrRuns) {
  const std::string original = read_file(GPT_SOURCE_DIR "/tests/data/torch/nanogpt.pt");
  const size_t pickle = original.find("data.pkl"), tensors = original.find("/data/0"),
               directory = original.find("PK\1\2");
  TempDir dir;
  const std::string path = dir.file("ckpt.pt");
  write_plain_file(path, original);
  EXPECT_FALSE(refused(path, "the unchanged .pt"));
  EXPECT_FALSE(refused(dir.path(), "the folder of the unchanged .pt"));
  std::ofstream("/proc/self/clear_refs") << "5";
  const int64_t before = status_kb("VmRSS");
  int errors = 0;
  for (int i = 0; i < kBinCases; ++i) {
    Mutator m(static_cast<uint64_t>(i) + 99);
    const size_t begin = i % 2 == 0 ? pickle : directory, end = i % 2 == 0 ? tensors : original.size();
    const std::string part = m.bytes(original.substr(begin, end - begin), end - begin);
    write_plain_file(path, original.substr(0, begin) + part + original.substr(end));
    errors += refused(path, fmt::format(".pt case {}", i));
  }
  EXPECT_GT(errors, kBinCases / 3);
  if (!kAddressSanitizer) {
    EXPECT_LT(status_kb("VmHWM") - before, kMaxMemoryKb);
  }
}

// Cases that random changes are unlikely to hit.
TEST(HostileFolders, AreErrors) {
  TempDir dir;
  EXPECT_TRUE(refused(dir.file("none"), "no such folder"));
  EXPECT_TRUE(refused(dir.path(), "an empty folder"));
  fs::create_directory(dir.file("config.json"));
  EXPECT_TRUE(refused(dir.path(), "config.json is a folder"));
  fs::remove(dir.file("config.json"));
  write_plain_file(dir.file("config.json"),
                   R"({"model_type": "gpt2", "n_layer": 100000000, "vocab_size": 5})");
  EXPECT_TRUE(refused(dir.path(), "a config without weights"));
  write_plain_file(dir.file("model.safetensors"), "");
  EXPECT_TRUE(refused(dir.path(), "empty weights"));
  write_plain_file(dir.file("model.safetensors"), std::string("\2\0\0\0\0\0\0\0{}", 10));
  for (const char* config :
       {R"({"model_type": "gpt2", "n_layer": 10000, "vocab_size": 16777216, "n_ctx": 16777216})",
        R"({"model_type": "gpt2", "n_embd": 9223372036854775807, "vocab_size": 5})",
        R"({"model_type": "llama", "num_attention_heads": 0, "vocab_size": 5})", R"({"model_type": 7})",
        R"([])", R"({"model_type": "gpt2"})", "", "{", "null"}) {
    write_plain_file(dir.file("config.json"), config);
    EXPECT_TRUE(refused(dir.path(), config));
  }
  write_plain_file(dir.file("config.json"), std::string(100000, '['));
  EXPECT_TRUE(refused(dir.path(), "deep nesting"));
}

// Names from files are quoted in messages, and never printed without escaping.
TEST(HostileFolders, NamesCannotForgeLines) {
  const std::string original = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  const json config = json::parse(read_file(original + "/config.json"));
  const std::string weights = read_file(original + "/model.safetensors");
  TempDir dir;
  const auto check = [&](const json& changed, const std::string& body, const std::string& what) {
    write_plain_file(dir.file("config.json"), changed.dump());
    write_plain_file(dir.file("model.safetensors"), body);
    EXPECT_TRUE(refused(dir.path(), what));
  };
  const std::string forged = "a\n\x1b[31merror: b\r";
  json changed = config;
  changed["model_type"] = forged;
  check(changed, weights, "model_type");
  changed = config;
  changed["n_embd"] = forged;
  check(changed, weights, "n_embd");
  changed = config;
  changed["model_type"] = "llama";
  changed["rope_parameters"] = {{"rope_type", forged}};
  check(changed, weights, "rope_type");
  check({{"model_type", "gpt.cpp"}, {"vocab_size", 3}, {forged, 1}}, weights, "an unknown key");
  changed = config;
  changed["scale_attn_weights"] = forged;
  check(changed, weights, "scale_attn_weights");
  json header = json::parse(weights.substr(8, header_length(weights)));
  const std::string name =
      header.items().begin().key() == "__metadata__" ? std::next(header.begin()).key() : header.begin().key();
  header[forged] = header[name];
  header.erase(name);
  check(config, with_header(weights, header.dump(), true), "a tensor name");
}

// The index of a sharded model must not refer to files outside the model folder.
TEST(HostileFolders, ShardsStayInside) {
  const std::string original = GPT_SOURCE_DIR "/tests/golden/data/gpt2";
  TempDir dir;
  write_plain_file(dir.file("config.json"), read_file(original + "/config.json"));
  const SafetensorsFile file(original + "/model.safetensors");
  for (const std::string& shard : {std::string("../x.safetensors"), original + "/model.safetensors",
                                   std::string("none.safetensors"), std::string(""), std::string(".")}) {
    json map = json::object();
    for (const TensorInfo& tensor : file.tensors())
      map[tensor.name] = shard;
    write_plain_file(dir.file("model.safetensors.index.json"), json{{"weight_map", map}}.dump());
    EXPECT_TRUE(refused(dir.path(), "shard \"" + shard + "\""));
  }
}

}  // namespace
}  // namespace gpt::test
