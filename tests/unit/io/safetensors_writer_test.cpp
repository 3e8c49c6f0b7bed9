#include "io/safetensors_writer.h"

#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <numeric>
#include <vector>

#include "io/safetensors.h"
#include "unit/io/io_test_util.h"

namespace gpt {
namespace {

std::vector<float> numbers(size_t n) {
  std::vector<float> x(n);
  std::iota(x.begin(), x.end(), 1.0f);
  return x;
}

std::vector<float> floats_of(const TensorInfo& t) {
  std::vector<float> x(t.bytes.size() / sizeof(float));
  if (!x.empty()) std::memcpy(x.data(), t.bytes.data(), t.bytes.size());
  return x;
}

TEST(SafetensorsWriter, WritesWhatTheReaderReads) {
  const TempDir dir;
  std::vector<float> matrix = numbers(6);
  std::vector<int64_t> ids = {-1, int64_t{1} << 40};
  std::vector<std::byte> bytes(3, std::byte{7});
  const std::string odd_name = "w\"\\\n\xc3\xa9";
  const std::vector<NamedTensor> tensors = {
      named_tensor("bytes", make_view(bytes.data(), DType::u8, {3})),
      named_tensor(odd_name, make_view(matrix.data(), {2, 3})),
      named_tensor("ids", make_view(ids.data(), {2})),
      named_tensor("scalar", make_view(matrix.data(), DType::f32, {})),
      named_tensor("none", make_view(matrix.data(), DType::bf16, {0, 5})),
      named_tensor("five", make_view(matrix.data(), {6}), {1, 2, 1, 3, 1}),
  };
  write_safetensors(dir.file("m"), tensors, {{"format", "pt"}, {"note", "\"q\""}});
  const SafetensorsFile f(dir.file("m"));
  EXPECT_EQ(f.tensors().size(), 6u);
  EXPECT_EQ(floats_of(*f.find(odd_name)), matrix);
  EXPECT_EQ(f.find(odd_name)->shape, (Shape{2, 3}));
  EXPECT_EQ(f.find("five")->shape, (Shape{1, 2, 1, 3, 1}));
  EXPECT_EQ(std::memcmp(f.find("ids")->bytes.data(), ids.data(), 16), 0);
  EXPECT_EQ(f.find("ids")->dtype, DType::i64);
  EXPECT_EQ(floats_of(*f.find("scalar")), numbers(1));
  EXPECT_EQ(f.find("none")->shape, (Shape{0, 5}));
  EXPECT_EQ(f.metadata().at("note"), "\"q\"");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(dir.path()), {}), 1);
}

TEST(SafetensorsWriter, AlignsEveryTensorAndTheBody) {
  const TempDir dir;
  std::vector<int64_t> buffer(8);
  for (size_t pad = 0; pad < 70; ++pad) {  // covers every header length modulo 64
    const std::string name(pad + 1, 'n');
    const std::vector<NamedTensor> tensors = {named_tensor("b", make_view(buffer.data(), DType::u8, {3})),
                                              named_tensor(name, make_view(buffer.data(), DType::f32, {1})),
                                              named_tensor("h", make_view(buffer.data(), DType::f16, {5})),
                                              named_tensor("l", make_view(buffer.data(), DType::i64, {1}))};
    write_safetensors(dir.file("m"), pad == 1 ? std::span(tensors).subspan(1) : std::span(tensors));
    const SafetensorsFile f(dir.file("m"));
    for (const TensorInfo& t : f.tensors())
      EXPECT_TRUE(is_aligned(t)) << t.name;
    EXPECT_EQ(f.tensors().front().name, "l");
    EXPECT_EQ(reinterpret_cast<uintptr_t>(f.tensors().front().bytes.data()) % 64, 0u);
  }
}

TEST(SafetensorsWriter, WritesNoTensorsAtAll) {
  const TempDir dir;
  write_safetensors(dir.file("m"), {}, {});
  EXPECT_TRUE(SafetensorsFile(dir.file("m")).tensors().empty());
  write_safetensors(dir.file("m"), {}, {{"only", "metadata"}});
  EXPECT_EQ(SafetensorsFile(dir.file("m")).metadata().size(), 1u);
}

TEST(SafetensorsWriter, StreamsTransposedDataAndColumnSlices) {
  const TempDir dir;
  const std::vector<float> x = numbers(6);  // [2,3]
  NamedTensor transposed{"t", DType::f32, {3, 2}, [&](const EmitBytes& emit) {
                           for (size_t c = 0; c < 3; ++c) {
                             const float row[2] = {x[c], x[c + 3]};
                             emit(std::as_bytes(std::span(row)));
                           }
                         }};
  const TensorView slice = make_view(x.data(), {2, 3}).slice_cols(1, 2);
  const std::vector<NamedTensor> tensors = {transposed, named_tensor("s", slice)};
  write_safetensors(dir.file("m"), tensors);
  const SafetensorsFile f(dir.file("m"));
  EXPECT_EQ(floats_of(*f.find("t")), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(floats_of(*f.find("s")), (std::vector<float>{2, 3, 5, 6}));
}

TEST(SafetensorsWriter, RejectsNamesThatNoReaderTakes) {
  const TempDir dir;
  float x = 0;
  const auto rejected = [&](const std::vector<std::string>& tensor_names) {
    std::vector<NamedTensor> tensors;
    for (const std::string& name : tensor_names)
      tensors.push_back(named_tensor(name, make_view(&x, {1})));
    const std::string message = error_of([&] { write_safetensors(dir.file("m"), tensors); });
    EXPECT_FALSE(std::filesystem::exists(dir.file("m")));
    return message;
  };
  EXPECT_TRUE(names(rejected({"w", "w"}), {dir.file("m"), "w"}));
  EXPECT_TRUE(names(rejected({""}), {dir.file("m"), "\"\""}));
  EXPECT_TRUE(names(rejected({"__metadata__"}), {dir.file("m"), "__metadata__"}));
  EXPECT_TRUE(names(rejected({std::string(2000, 'n')}), {dir.file("m"), std::string(80, 'n')}));
  EXPECT_TRUE(names(rejected({"\xff"}), {dir.file("m"), "UTF-8", "\"\\xff\""}));
}

TEST(SafetensorsWriter, ATensorThatEmitsTooMuchOrTooLittleIsABugNotAFile) {
  const TempDir dir;
  const std::vector<float> x = numbers(3);
  for (const size_t n : {size_t{1}, size_t{3}}) {
    const std::vector<NamedTensor> tensors = {
        {"t", DType::f32, {2}, [&](const EmitBytes& emit) { emit(std::as_bytes(std::span(x).first(n))); }}};
    EXPECT_THROW(write_safetensors(dir.file("m"), tensors), std::logic_error);
    EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
  }
}

TEST(SafetensorsWriter, AFileSizeLimitIsAnErrorToo) {
  const TempDir dir;
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1 << 16, 1 << 16};
    setrlimit(RLIMIT_FSIZE, &limit);
    std::vector<float> big = numbers(1 << 20);
    const std::vector<NamedTensor> tensors = {named_tensor("t", make_view(big.data(), {1 << 20}))};
    int code = 1;
    try {
      write_safetensors(dir.file("m"), tensors);
    } catch (const Error&) {
      code = 42;
    }
    _exit(code);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(SafetensorsWriter, AnUnwritablePlaceIsAnError) {
  const TempDir dir;
  write_text(dir.file("file"), "");
  for (const std::string& path : {dir.file("no/such/folder/m"), dir.file("file/m"), dir.path()}) {
    EXPECT_TRUE(names(error_of([&] { write_safetensors(path, {}); }), {path}));
  }
}

}  // namespace
}  // namespace gpt
