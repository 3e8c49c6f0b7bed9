// Tests the C interface: every error code, and that its results equal those of the C++ interface.

#include <array>
#include <cstring>
#include <fstream>
#include <set>

#include "gpt/gpt.h"
#include "unit/api/fixture.h"

namespace gptcpp {
namespace {

class CInterface : public testing::Test {
 protected:
  void SetUp() override {
    const char* const options[] = {"threads=1", nullptr};
    ASSERT_EQ(gpt_context_new(options, nullptr, nullptr, &context), GPT_OK);
    ASSERT_EQ(gpt_model_load(context, small_model().c_str(), nullptr, &model), GPT_OK);
    ASSERT_EQ(gpt_session_new(model, nullptr, &session), GPT_OK);
  }
  void TearDown() override {
    gpt_context_free(context);  // the order of the free calls does not matter
    gpt_session_free(session);
    gpt_model_free(model);
  }
  static int append(void* text, const char* piece, size_t size, int32_t) {
    static_cast<std::string*>(text)->append(piece, size);
    return 1;
  }

  gpt_context* context = nullptr;
  gpt_model* model = nullptr;
  gpt_session* session = nullptr;
};

TEST_F(CInterface, GivesWhatTheLibraryGives) {
  const char* const options[] = {"max_tokens=20",     "seed=9",           "temperature=1.5",     "stop=zzz",
                                 "logit_bias=5=-inf", "logit_bias=6=0.5", "top_p_rule=reaching", nullptr};
  std::string text;
  gpt_finish finish = GPT_FINISH_NONE;
  ASSERT_EQ(gpt_feed(session, "the cat", 7), GPT_OK);
  ASSERT_EQ(gpt_generate(session, options, append, &text, &finish), GPT_OK) << gpt_last_error();
  EXPECT_EQ(finish, GPT_FINISH_LENGTH);
  Session same(Model(Context({.threads = 1}), small_model()));
  same.feed("the cat");
  const GenerateOptions as_written{
      .max_tokens = 20,
      .seed = 9,
      .stops = {"zzz"},
      .sampling = {.temperature = 1.5,
                   .top_p_rule = TopPRule::reaching,
                   .logit_bias = {{5, -std::numeric_limits<double>::infinity()}, {6, 0.5}}}};
  EXPECT_EQ(text, same.generate(as_written).text);
  const int32_t* ids = nullptr;
  size_t count = 0;
  ASSERT_EQ(gpt_ids(session, &ids, &count), GPT_OK);
  EXPECT_TRUE(std::equal(ids, ids + count, same.ids().begin(), same.ids().end()));
  const float* logits = nullptr;
  ASSERT_EQ(gpt_logits(session, &logits, &count), GPT_OK);
  EXPECT_TRUE(std::equal(logits, logits + count, same.logits().begin(), same.logits().end()));
  ASSERT_EQ(gpt_truncate(session, 1), GPT_OK);
  ASSERT_EQ(gpt_ids(session, &ids, &count), GPT_OK);
  EXPECT_EQ(count, 1u);
}

TEST_F(CInterface, SaysWhatWentWrong) {
  gpt::test::TempDir dir;
  std::ofstream(dir.file("bad.gguf")) << "no model";
  gpt_model* other = nullptr;
  for (const char* option : {"temprature=1", "temperature=warm", "temperature"}) {
    const char* const options[] = {option, nullptr};
    const std::string key = std::string(option).substr(0, std::string(option).find('='));
    EXPECT_EQ(gpt_generate(session, options, nullptr, nullptr, nullptr), GPT_INVALID_ARGUMENT);
    EXPECT_NE(std::strstr(gpt_last_error(), key.c_str()), nullptr) << gpt_last_error();
  }
  EXPECT_EQ(gpt_model_load(context, "/nowhere", nullptr, &other), GPT_NOT_FOUND);
  EXPECT_EQ(gpt_model_load(context, dir.file("bad.gguf").c_str(), nullptr, &other), GPT_IO);
  gpt_context* tight = nullptr;
  const char* const limit[] = {"memory_limit=1", nullptr};
  ASSERT_EQ(gpt_context_new(limit, nullptr, nullptr, &tight), GPT_OK);
  EXPECT_EQ(gpt_model_load(tight, small_model().c_str(), nullptr, &other), GPT_OUT_OF_MEMORY);
  std::ofstream(dir.file("config.json")) << R"({"model_type": "mamba"})";
  EXPECT_EQ(gpt_model_load(context, dir.path().c_str(), nullptr, &other), GPT_UNSUPPORTED);
  EXPECT_NE(std::strstr(gpt_last_error(), "mamba"), nullptr) << gpt_last_error();
  EXPECT_EQ(gpt_cancel(context), GPT_OK);
  EXPECT_EQ(gpt_generate(session, nullptr, nullptr, nullptr, nullptr), GPT_CANCELLED);
  EXPECT_EQ(gpt_resume(context), GPT_OK);
  gpt_chat* chat = nullptr;
  EXPECT_EQ(gpt_chat_new(model, nullptr, nullptr, &chat), GPT_UNSUPPORTED);
  // GPT_INTERNAL is only returned if a callback breaks its contract. The exception of the callback does not
  // cross the C interface either.
  const auto throws = [](void*, const char*, size_t, int32_t) -> int { throw 1; };
  EXPECT_EQ(gpt_generate(session, nullptr, throws, nullptr, nullptr), GPT_INTERNAL);
  EXPECT_EQ(other, nullptr);
  EXPECT_EQ(chat, nullptr);
  gpt_context_free(tight);
  std::set<std::string> texts;
  for (int status = GPT_OK; status <= GPT_INTERNAL; ++status)
    EXPECT_TRUE(texts.insert(gpt_status_text(static_cast<gpt_status>(status))).second) << status;
  EXPECT_EQ(gpt_api_version(), static_cast<uint32_t>(GPT_API_VERSION));
}

TEST_F(CInterface, TakesNoNullPointerForAnObject) {
  size_t n = 0;
  int idle = 0;
  const gpt_event* events = nullptr;
  int64_t number = 0;
  const std::array<gpt_status, 30> found = {
      gpt_context_new(nullptr, nullptr, nullptr, nullptr),
      gpt_cancel(nullptr),
      gpt_resume(nullptr),
      gpt_model_load(context, nullptr, nullptr, &model),
      gpt_model_load(nullptr, "x", nullptr, &model),
      gpt_model_fact(nullptr, "n_ctx", &number),
      gpt_model_fact(model, nullptr, &number),
      gpt_model_fact(model, "n_ctx", nullptr),
      gpt_model_fact(model, "n", &number),
      gpt_tokenizer_of(nullptr, nullptr),
      gpt_tokenizer_load(nullptr, nullptr),
      gpt_tokenizer_train(context, "", 0, nullptr, nullptr),
      gpt_tokenizer_save(nullptr, "x"),
      gpt_encode(nullptr, "x", 1, nullptr, 0, &n),
      gpt_encode_special(nullptr, "x", 1, nullptr, 0, &n),
      gpt_decode(nullptr, nullptr, 0, nullptr, 0, &n),
      gpt_session_new(nullptr, nullptr, &session),
      gpt_feed(session, nullptr, 1),
      gpt_feed_special(session, nullptr, 1),
      gpt_feed_ids(session, nullptr, 1),
      gpt_generate(nullptr, nullptr, nullptr, nullptr, nullptr),
      gpt_ids(session, nullptr, nullptr),
      gpt_chat_say(nullptr, "x", nullptr, nullptr, nullptr, nullptr),
      gpt_chat_reset(nullptr),
      gpt_engine_new(nullptr, nullptr, nullptr),
      gpt_submit(nullptr, "x", 1, nullptr, &number),
      gpt_cancel_request(nullptr, 0),
      gpt_step(nullptr, &events, &n, &idle),
      gpt_trainer_new(context, nullptr, "x", 1, nullptr),
      gpt_trainer_save(nullptr, "x"),
  };
  for (size_t i = 0; i < found.size(); ++i)
    EXPECT_EQ(found[i], GPT_INVALID_ARGUMENT) << i;
  gpt_model_free(nullptr);
  gpt_engine_free(nullptr);
}

TEST_F(CInterface, ServesManyRequests) {
  gpt_engine* engine = nullptr;
  const char* const slots[] = {"slots=2", nullptr};
  ASSERT_EQ(gpt_engine_new(model, slots, &engine), GPT_OK);
  const char* const options[] = {"max_tokens=5", nullptr};
  int64_t request = -1;
  EXPECT_EQ(gpt_submit(engine, "the", 3, options, nullptr), GPT_INVALID_ARGUMENT);  // queues nothing
  for (const char* prompt : {"the", "a dog", "and"})
    ASSERT_EQ(gpt_submit(engine, prompt, std::strlen(prompt), options, &request), GPT_OK);
  EXPECT_EQ(request, 2);
  int ended = 0;
  for (int idle = 0; idle == 0;) {
    const gpt_event* events = nullptr;
    size_t n = 0;
    ASSERT_EQ(gpt_step(engine, &events, &n, &idle), GPT_OK);
    for (size_t i = 0; i < n; ++i) {
      const gpt_event* const event = gpt_event_at(events, i);
      EXPECT_EQ(event->struct_size, sizeof(gpt_event));
      ended += event->finish != GPT_FINISH_NONE ? 1 : 0;
    }
  }
  EXPECT_EQ(ended, 3);
  const char* const special[] = {"max_tokens=5", "special=true", nullptr};
  EXPECT_EQ(gpt_submit(engine, "the", 3, special, &request), GPT_OK);
  EXPECT_EQ(gpt_generate(session, special, nullptr, nullptr, nullptr), GPT_INVALID_ARGUMENT);  // no prompt
  EXPECT_EQ(gpt_cancel_request(engine, 0), GPT_INVALID_ARGUMENT);
  gpt_engine_free(engine);
}

// Simulates a later library version whose events have one additional field.
TEST(CEvents, MayGrowAtTheEnd) {
  struct LaterEvent {
    gpt_event known;
    int64_t more;
  };
  LaterEvent events[3] = {};
  for (int64_t i = 0; i < 3; ++i) {
    events[i].known.struct_size = sizeof(LaterEvent);
    events[i].known.request = 10 + i;
  }
  for (int64_t i = 0; i < 3; ++i)
    EXPECT_EQ(gpt_event_at(&events[0].known, static_cast<size_t>(i))->request, 10 + i);
}

TEST_F(CInterface, TrainsAndWritesTokensInTwoCalls) {
  gpt_trainer* trainer = nullptr;
  const char* const settings[] = {"preset=tiny", "n_layer=1", "n_embd=16",    "n_head=2",
                                  "n_ctx=32",    "steps=2",   "batch_size=2", nullptr};
  const std::string text = long_text();
  ASSERT_EQ(gpt_trainer_new(context, settings, text.data(), text.size(), &trainer), GPT_OK)
      << gpt_last_error();
  int64_t made = 0;
  EXPECT_EQ(gpt_trainer_run(
                trainer, 5, [](void*, int64_t, double) { return 1; }, nullptr, &made),
            GPT_OK);
  EXPECT_EQ(made, 2);
  double loss = 0;
  EXPECT_EQ(gpt_trainer_validation_loss(trainer, &loss), GPT_OK);
  EXPECT_GT(loss, 0);
  gpt_trainer_free(trainer);
  gpt_tokenizer* tokenizer = nullptr;
  ASSERT_EQ(gpt_tokenizer_of(model, &tokenizer), GPT_OK);
  size_t count = 0;
  ASSERT_EQ(gpt_encode(tokenizer, "cat", 3, nullptr, 0, &count), GPT_OK);
  std::vector<int32_t> ids(count);
  ASSERT_EQ(gpt_encode(tokenizer, "cat", 3, ids.data(), ids.size(), &count), GPT_OK);
  char out[8] = "";
  ASSERT_EQ(gpt_decode(tokenizer, ids.data(), ids.size(), out, sizeof out, &count), GPT_OK);
  EXPECT_EQ(std::string(out, count), "cat");
  gpt_tokenizer_free(tokenizer);
}

}  // namespace
}  // namespace gptcpp
