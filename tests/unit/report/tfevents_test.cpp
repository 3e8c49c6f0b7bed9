#include "report/tfevents.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "support/temp_dir.h"

namespace gpt {
namespace {

std::string bytes(std::initializer_list<int> values) {
  std::string out;
  for (const int value : values)
    out.push_back(static_cast<char>(static_cast<unsigned char>(value)));
  return out;
}

std::vector<std::string> files_in(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

// Test vectors of RFC 3720, appendix B.4, and the common check value.
TEST(TfEvents, Crc32cVectors) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  std::string ascending;
  for (int i = 0; i < 32; ++i)
    ascending.push_back(static_cast<char>(i));
  EXPECT_EQ(crc32c(ascending), 0x46DD794Eu);
}

// The bytes that the RecordWriter of TensorBoard writes for this event.
TEST(TfEvents, ExactBytesOfTheFirstRecord) {
  EXPECT_EQ(tf_record(tf_version_event(1.5)),
            bytes({0x18, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0x00, 0xA3, 0x7F, 0x4B, 0x22, 0x09, 0x00,
                   0x00, 0x00, 0x00, 0x00, 0x00, 0xF8, 0x3F, 0x1A, 0x0D, 0x62, 0x72, 0x61, 0x69, 0x6E,
                   0x2E, 0x45, 0x76, 0x65, 0x6E, 0x74, 0x3A, 0x32, 0x2A, 0x28, 0x64, 0x6C}));
}

TEST(TfEvents, ExactBytesOfAScalarsEvent) {
  const std::vector<Scalar> scalars = {{"a/b", 1.0}, {"c", -2.0}};
  EXPECT_EQ(tf_scalars_event(1.0, 300, scalars),
            bytes({0x09, 0,    0,    0, 0,   0,    0,   0xF0, 0x3F,  // wall_time = 1.0
                   0x10, 0xAC, 0x02,                                 // step = 300
                   0x2A, 22,                                         // summary
                   0x0A, 10,   0x0A, 3, 'a', '/',  'b', 0x15, 0,    0,
                   0x80, 0x3F,  // value {tag, simple_value = 1}
                   0x0A, 8,    0x0A, 1, 'c', 0x15, 0,   0,    0,    0xC0}));
}

TEST(TfEvents, ExactBytesOfARestart) {
  EXPECT_EQ(tf_restart_event(1.0, 5), bytes({0x09, 0, 0, 0, 0, 0, 0, 0xF0, 0x3F, 0x10, 5, 0x3A, 2, 0x08, 1}));
}

TEST(TfEvents, FileIsNamedAndWrittenAtOnce) {
  test::TempDir folder;
  TensorBoardWriter writer(folder.path());
  const std::string header = read_file(writer.path());
  EXPECT_EQ(header.size(), 12u + 24u + 4u);
  EXPECT_NE(header.find("brain.Event:2"), std::string::npos);
  const std::vector<Scalar> scalars = {{"loss", 1.0}};
  writer.add(1, scalars);
  EXPECT_GT(read_file(writer.path()).size(), header.size());
  EXPECT_TRUE(files_in(folder.path()).at(0).starts_with("events.out.tfevents."));
}

TEST(TfEvents, ALaterFileSortsAfterAnEarlierOne) {
  test::TempDir folder;
  write_file_atomic(folder.file("events.out.tfevents.8000000000.host.1"), "");
  const std::string first = TensorBoardWriter(folder.path()).path();
  const std::string second = TensorBoardWriter(folder.path(), 3).path();
  EXPECT_EQ(files_in(folder.path()).size(), 3u);
  EXPECT_GT(first, folder.file("events.out.tfevents.8000000000.host.1"));
  EXPECT_GT(second, first);
}

TEST(TfEvents, AreRemovedForARunThatStartsAnew) {
  test::TempDir folder;
  write_file_atomic(folder.file("events.out.tfevents.1.host.1"), "");
  write_file_atomic(folder.file("other"), "");
  remove_event_files(folder.path());
  EXPECT_EQ(files_in(folder.path()), std::vector<std::string>{"other"});
}

TEST(TfEvents, UnwritableFolderIsAnError) {
  EXPECT_THROW(TensorBoardWriter("/nonexistent-folder/x"), Error);
}

}  // namespace
}  // namespace gpt
