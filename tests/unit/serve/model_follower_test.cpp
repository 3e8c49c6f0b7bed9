// Tests the replacement of models while requests use them.

#include "serve/models/model_follower.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <thread>

#include "kept_answer.h"
#include "support/names.h"
#include "support/patience.h"
#include "support/temp_dir.h"

namespace gpt::serve {
namespace {

namespace fs = std::filesystem;

std::unique_ptr<ServedModel> model_at(const std::string& path) {
  ServedModelOptions options{.name = "m", .path = path};
  options.kv_bytes = 1 << 20;
  options.sequences = 1;
  return std::make_unique<ServedModel>(options);
}
const std::string kModel = GPT_SOURCE_DIR "/tests/golden/data/llama";

TEST(ModelSet, AReplacedModelLastsAsLongAsSomebodyHasIt) {
  ModelSet models;
  models.add(model_at(kModel));
  auto before = models.find("m");
  const std::weak_ptr<ServedModel> old = before.model;
  models.replace(model_at(kModel));
  EXPECT_NE(models.find("m").model, before.model);
  EXPECT_EQ(models.all().size(), 1u);
  models.drop_replaced();
  EXPECT_EQ(before.model->config().n_layer, 2);
  before = {};
  EXPECT_FALSE(old.expired()) << "it must not end on the thread that had it last, which may be its own";
  models.drop_replaced();
  EXPECT_TRUE(old.expired());
  models.stop();
}

TEST(ModelSet, RequestsEndWithTheModelTheyBeganWith) {
  ModelSet models;
  models.add(model_at(kModel));
  {
    Api api(models, {});
    std::atomic<int> answered = 0;
    std::thread client([&] {
      for (int i = 0; i < 40; ++i) {
        const HttpReply reply =
            post(api, "/v1/completions", R"({"prompt":[1,2,3],"max_tokens":20,"seed":1})");
        EXPECT_EQ(reply.status, 200) << reply.body;
        EXPECT_EQ(post(api, "/v1/embeddings", R"({"input":[1,2,3]})").status, 200);
        ++answered;
      }
    });
    EXPECT_TRUE(test::wait_until([&] {
      models.replace(model_at(kModel));
      models.drop_replaced();
      return answered == 40;
    }));
    client.join();
    models.stop();
  }
  models.drop_replaced();
}

// A run with a checkpoint, and the messages of the model follower.
class Follower : public testing::Test {
 protected:
  Follower() {
    fs::copy(kModel, dir_.file("last"));
    test::write_plain_file(dir_.file("metrics.jsonl"), "");
    test::write_plain_file(dir_.file("last/manifest.json"), "1");
    models_.add(model_at(dir_.path()));
  }
  ModelFollower::Options options() {
    return {.pause = 0.001, .note = [this](const std::string& line) {
              const std::lock_guard lock(mutex_);
              notes_ += line;
              said_.notify_one();
            }};
  }
  // Waits until a message of the follower contains these facts.
  bool says(std::initializer_list<test::Fact> facts) {
    std::unique_lock lock(mutex_);
    return said_.wait_for(lock, test::kPatience, [&] { return bool{test::names(notes_, facts)}; });
  }
  test::TempDir dir_;
  ModelSet models_;
  std::mutex mutex_;
  std::condition_variable said_;
  std::string notes_;
};

TEST_F(Follower, LoadsWhatARunSaves) {
  const auto first = models_.find("m").model;
  const ModelFollower follower(models_, options());
  test::write_plain_file(dir_.file("last/manifest.json"), "another");
  EXPECT_TRUE(says({"m"}));
  EXPECT_NE(models_.find("m").model, first);
}

TEST_F(Follower, KeepsTheModelWhereTheNewestIsDamaged) {
  const auto first = models_.find("m").model;
  const ModelFollower follower(models_, options());
  test::write_plain_file(dir_.file("last/config.json"), "{");
  test::write_plain_file(dir_.file("last/manifest.json"), "another");
  EXPECT_TRUE(says({"m", dir_.file("last/config.json")}));
  EXPECT_EQ(models_.find("m").model, first);
}

}  // namespace
}  // namespace gpt::serve
