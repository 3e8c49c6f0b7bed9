// Tests the C++ library through its public interface.

#include <fstream>
#include <thread>

#include "unit/api/fixture.h"

namespace gptcpp {
namespace {

std::vector<int32_t> continuation(const Model& model, const std::string& prompt, uint64_t seed) {
  Session session(model);
  session.feed(prompt);
  return session.generate({.max_tokens = 40, .seed = seed}).ids;
}

TEST(Library, OneModelServesSessionsOnSeveralThreads) {
  const Model model(Context({.threads = 2}), small_model());
  const auto alone = continuation(model, "the cat", 5);
  const auto other = continuation(model, "a dog", 6);
  EXPECT_EQ(alone.size(), 40u);
  for (const std::string dtype : {"fp32", "bf16"}) {
    std::vector<int32_t> drawn[2];
    std::thread first([&] { drawn[0] = continuation(model, "the cat", 5); });
    std::thread second([&] { drawn[1] = continuation(model, "a dog", 6); });
    first.join();
    second.join();
    EXPECT_EQ(drawn[0], alone);
    EXPECT_EQ(drawn[1], other);
  }
}

TEST(Library, TextsFitTheirGrammar) {
  const Model model(Context({.threads = 1}), small_model());
  const std::vector<int32_t> prompt = model.prompt_ids("the ");
  GenerateOptions options{.max_tokens = 40, .regex = "(cat|dog) sat( on the (mat|log)){1,2};"};
  for (const Result& result : generate(model, std::vector(3, prompt), options, 2)) {
    EXPECT_EQ(result.finish, Finish::stop);
    EXPECT_TRUE(result.text.starts_with("cat sat on the ") || result.text.starts_with("dog sat on the "))
        << result.text;
    EXPECT_TRUE(result.text.ends_with(";")) << result.text;
  }
  Session session(model);
  session.feed("the ");
  options.regex = "";
  options.grammar = "root ::= \"cat \" [a-m]{3}";
  const Result result = session.generate(options);
  EXPECT_EQ(result.text.substr(0, 4), "cat ");
  EXPECT_EQ(result.text.size(), 7u);
  options.max_tokens = 1;
  EXPECT_EQ(code_of([&] { session.generate(options); }), code(Code::invalid_argument));
  options.max_tokens = 40;
  options.regex = "a";
  EXPECT_EQ(code_of([&] { check(model, options); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { check(model, {.json_schema = "{\"not\":{}}"}); }), code(Code::invalid_argument));
}

TEST(Library, OptionsOfAnEngineAreCheckedWithoutOne) {
  const Model model(Context({.threads = 1}), small_model());
  EXPECT_NO_THROW(check(model, EngineOptions{.dtype = "bf16", .kv_dtype = "int8"}));
  const EngineOptions wrong[] = {
      {.slots = 0}, {.n_ctx = 1 << 20}, {.dtype = "fp31"}, {.kv_dtype = "q4_0"}, {.speculate = "draft"}};
  for (const EngineOptions& options : wrong) {
    EXPECT_EQ(code_of([&] { check(model, options); }), code(Code::invalid_argument));
    EXPECT_EQ(code_of([&] { Engine(model, options); }), code(Code::invalid_argument));
  }
}

// The first session packs the weights, and all sessions of the model share them.
TEST(Library, SessionsShareTheWeightsThatAreMadeForThem) {
  const Model shared(Context({.threads = 1}), small_model());
  std::vector<float> logits[2];
  const auto read = [&](const Model& model) {
    Session session(model, {.dtype = "bf16"});
    session.feed("the cat sat");
    const auto view = session.logits();
    return std::vector<float>(view.begin(), view.end());
  };
  std::thread first([&] { logits[0] = read(shared); });
  std::thread second([&] { logits[1] = read(shared); });
  first.join();
  second.join();
  EXPECT_EQ(logits[0], logits[1]);
  EXPECT_EQ(logits[0], read(Model(Context({.threads = 2}), small_model())));
}

TEST(Library, PiecesMakeTheText) {
  const Model model(Context({.threads = 1}), small_model());
  Session session(model);
  session.feed("the ");
  std::string text;
  std::vector<int32_t> ids;
  const Result result = session.generate({.max_tokens = 30}, [&](const Piece& piece) {
    text += piece.text;
    if (piece.id >= 0) ids.push_back(piece.id);
    return true;
  });
  EXPECT_EQ(text, result.text);
  EXPECT_EQ(ids, result.ids);
  EXPECT_EQ(result.finish, Finish::length);
  EXPECT_EQ(session.ids().size(), 4 + ids.size());
  Session again(model);
  again.feed("the ");
  EXPECT_EQ(again.generate({.max_tokens = 30}).text, result.text);
}

TEST(Library, ATextGoesOnAsIfItHadBeenOneCall) {
  const Model model(Context({.threads = 1}), small_model());
  Session whole(model), parts(model);
  whole.feed("the cat sat");
  parts.feed("the dog and more");
  parts.logits();
  parts.truncate(4);
  parts.feed("cat");
  parts.feed(" sat");
  const auto expected = whole.logits();
  const auto found = parts.logits();
  EXPECT_TRUE(std::equal(expected.begin(), expected.end(), found.begin(), found.end()));
  EXPECT_EQ(whole.generate({.max_tokens = 20}).ids, parts.generate({.max_tokens = 20}).ids);
}

TEST(Library, StopStringsAndCallbacksEndATextAndTheModelsFinishIsTold) {
  const Model model(Context({.threads = 1}), small_model());
  Session session(model);
  session.feed("the ");
  const Result stopped = session.generate({.max_tokens = 60, .stops = {" "}, .sampling = {.temperature = 0}});
  EXPECT_EQ(stopped.finish, Finish::stop);
  EXPECT_EQ(stopped.text.find(' '), std::string::npos);
  EXPECT_EQ(session.generate({}, [](const Piece&) { return false; }).finish, Finish::stop);
  Session full(model, {.n_ctx = 8});
  full.feed("the ");
  EXPECT_EQ(full.generate({.max_tokens = 60}).finish, Finish::context);
}

TEST(Library, AnEngineGivesEachRequestWhatItWouldGetAlone) {
  const Model model(Context({.threads = 2}), small_model());
  Engine engine(model, {.slots = 2});
  const std::vector<std::string> prompts = {"the cat", "the dog", "and", ""};
  for (const std::string& prompt : prompts)
    engine.submit(prompt, {.max_tokens = 15});
  std::vector<std::string> texts(prompts.size());
  size_t ended = 0;
  while (!engine.idle()) {
    for (const Event& event : engine.step()) {
      texts[static_cast<size_t>(event.request)] += event.piece.text;
      ended += event.finish ? 1 : 0;
    }
  }
  EXPECT_EQ(ended, prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    Session session(model);
    session.feed(prompts[i]);
    EXPECT_EQ(session.generate({.max_tokens = 15}).text, texts[i]) << prompts[i];
  }
  const int64_t id = engine.submit("the", {.max_tokens = 15});
  EXPECT_TRUE(engine.cancel(id));
  EXPECT_FALSE(engine.cancel(id));
  EXPECT_TRUE(engine.idle());
}

TEST(Library, SpeculationChangesTheTimeAlone) {
  const Context context({.threads = 2});
  const Model model(context, small_model());
  const GenerateOptions options{
      .max_tokens = 50, .stops = {"dog"}, .logprobs = 1, .sampling = {.temperature = 0}};
  const auto result_with = [&](const SessionOptions& session_options) {
    Session session(model, session_options);
    session.feed("the cat and the cat and the");
    return session.generate(options);
  };
  const Result plain = result_with({});
  EXPECT_EQ(plain.draft_tokens, 0);
  for (const SessionOptions& speculating : {SessionOptions{.speculate = "ngram"},
                                            {.speculate = "draft", .draft = small_model()},
                                            {.draft = small_model()}}) {
    const Result found = result_with(speculating);
    EXPECT_EQ(found.text, plain.text);
    EXPECT_EQ(found.ids, plain.ids);
    ASSERT_EQ(found.logprobs.size(), plain.logprobs.size());
    for (size_t i = 0; i < plain.logprobs.size(); ++i)
      EXPECT_EQ(found.logprobs[i].chosen.logprob, plain.logprobs[i].chosen.logprob);
    EXPECT_GT(found.draft_tokens, 0);
    EXPECT_GE(found.draft_tokens, found.accepted_tokens);
  }
  const std::vector<std::vector<int32_t>> prompts(3, model.prompt_ids("the cat and the cat and the"));
  const auto many = generate(model, prompts, options, 2, {.slots = 3, .draft = small_model()});
  for (const Result& found : many)
    EXPECT_EQ(found.text, plain.text);
  for (const SessionOptions& wrong : {SessionOptions{.speculate = "eagle"},
                                      {.speculate = "draft"},
                                      {.speculate = "ngram", .draft = small_model()},
                                      {.speculate = "ngram", .draft_tokens = 65}}) {
    EXPECT_EQ(code_of([&] { result_with(wrong); }), code(Code::invalid_argument));
  }
  EXPECT_EQ(code_of([&] { result_with({.draft = "no-such-model"}); }), code(Code::not_found));
}

TEST(Library, ManyPromptsAreWhatTheirSessionsWouldBe) {
  const Model model(Context({.threads = 2}), small_model());
  const std::vector<std::vector<int32_t>> prompts = {model.prompt_ids("the cat"), model.prompt_ids("a dog")};
  const GenerateOptions options{.max_tokens = 20, .seed = 7, .number = 3, .stops = {"mat"}, .logprobs = 2};
  std::vector<std::string> shown(4);
  const auto results =
      generate(model, prompts, options, 2, {.slots = 3}, [&](int64_t p, int64_t s, const Piece& piece) {
        shown[static_cast<size_t>(2 * p + s)] += piece.text;
        return true;
      });
  ASSERT_EQ(results.size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    Session session(model);
    session.feed(prompts[i / 2]);
    GenerateOptions alone = options;
    alone.number += i;
    const Result expected = session.generate(alone);
    EXPECT_EQ(results[i].ids, expected.ids);
    EXPECT_EQ(results[i].text, expected.text);
    EXPECT_EQ(results[i].finish, expected.finish);
    EXPECT_EQ(shown[i], expected.text);
    ASSERT_EQ(results[i].logprobs.size(), expected.ids.size());
    EXPECT_EQ(results[i].logprobs[0].chosen.id, expected.ids[0]);
    EXPECT_EQ(results[i].logprobs[0].chosen.logprob, expected.logprobs[0].chosen.logprob);
    EXPECT_EQ(results[i].logprobs[0].top.size(), 2u);
    EXPECT_GT(expected.computed_tokens, 0);
  }
  EXPECT_EQ(generate(model, prompts, {.max_tokens = 0}).size(), 2u);
  const std::vector<std::vector<int32_t>> bad = {prompts[0], {}};
  EXPECT_EQ(code_of([&] { generate(model, bad); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { generate(model, prompts, {}, -1); }), code(Code::invalid_argument));
}

TEST(Library, BeamsOfWidthOneAreGreedy) {
  const Model model(Context({.threads = 1}), small_model());
  const std::vector<int32_t> prompt = model.prompt_ids("the ");
  Session session(model);
  session.feed(prompt);
  const Result greedy = session.generate({.max_tokens = 12, .sampling = {.temperature = 0}});
  const auto one = beam_search(model, prompt, {.width = 1, .max_tokens = 12});
  ASSERT_EQ(one.size(), 1u);
  EXPECT_EQ(one[0].result.ids, greedy.ids);
  EXPECT_EQ(one[0].result.text, greedy.text);
  const auto three = beam_search(model, prompt, {.width = 3, .max_tokens = 12, .stops = {" "}});
  ASSERT_EQ(three.size(), 3u);
  EXPECT_GE(three[0].score, one[0].score);
  EXPECT_EQ(three[0].result.text.find(' '), std::string::npos);
  EXPECT_EQ(code_of([&] { beam_search(model, prompt, {.width = 0}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { beam_search(model, {}, {}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { beam_search(model, prompt, {}, {.speculate = "ngram"}); }),
            code(Code::invalid_argument));
}

TEST(Library, AModelWhoseTokenizerIsBrokenTakesIds) {
  const Context context({.threads = 1});
  gpt::test::TempDir dir;
  std::filesystem::copy(small_model(), dir.file("model"));
  std::ofstream(dir.file("model") + "/tokenizer.json") << "{";
  const Model model(context, dir.file("model"));
  EXPECT_FALSE(model.facts().has_tokenizer);
  EXPECT_NE(model.facts().tokenizer_problem, "");
  Session session(model, {.dtype = "bf16", .in_place = true});
  EXPECT_EQ(code_of([&] { session.feed("text"); }), code(Code::unsupported));
  session.feed(std::vector<int32_t>{1, 2});
  const Result result = session.generate({.max_tokens = 3});
  EXPECT_EQ(result.ids.size(), 3u);
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(code_of([&] { Model(context, dir.file("model"), {.tokenizer = dir.file("model")}); }),
            code(Code::io));
}

TEST(Library, ACallbackCannotChangeTheTextThatCallsIt) {
  const Model model(Context({.threads = 1}), small_model());
  Session session(model);
  session.feed("the ");
  const auto expected = continuation(model, "the ", 1);
  int refused = 0;
  const auto meddle = [&](const Piece&) {
    for (const auto& call : {std::function<void()>([&] { session.feed("x"); }),
                             {[&] { session.truncate(0); }},
                             {[&] { session.logits(); }},
                             {[&] { session.generate(); }}})
      refused += code_of(call) == code(Code::invalid_argument) ? 1 : 0;
    return true;
  };
  EXPECT_EQ(session.generate({.max_tokens = 40}, meddle).ids, expected);
  EXPECT_EQ(refused, 40 * 4);
  const Result other = session.generate({.max_tokens = 5}, [&](const Piece&) {
    session = Session(model);  // the running call continues with the old session
    return true;
  });
  EXPECT_EQ(other.ids.size(), 5u);
  EXPECT_TRUE(session.ids().empty());
}

TEST(Library, ACallThatFailsLeavesTheTextAsItWas) {
  const Context context({.threads = 1});
  const Model model(context, small_model());
  Session session(model);
  EXPECT_EQ(code_of([&] { session.generate({.max_tokens = 0}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { session.generate({.logprobs = -2}); }), code(Code::invalid_argument));
  EXPECT_TRUE(session.ids().empty());
  std::map<int32_t, double> none;
  for (int32_t id = 0; id < 256; ++id)
    none[id] = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(code_of([&] { check(model, {.sampling = {.logit_bias = none}}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { Session(model, {.policy = static_cast<ContextPolicy>(7)}); }),
            code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { Model(context, small_model(), {.tokenizer = "/nowhere"}); }),
            code(Code::not_found));
  Settings settings = small_settings();
  settings["data"] = "tales";
  EXPECT_EQ(code_of([&] { Trainer(context, settings, long_text()); }), code(Code::invalid_argument));
  for (const auto& [key, value] :
       Settings{{"n_ctx", "0"}, {"batch_size", "0"}, {"lr", "nan"}, {"n_head", "3"}}) {
    Settings wrong = small_settings();
    wrong[key] = value;
    EXPECT_EQ(code_of([&] { Trainer(context, wrong, long_text()); }), code(Code::invalid_argument)) << key;
  }
}

TEST(Library, CancellingFromAnotherThreadEndsACallAndResumeAllowsTheNext) {
  const Context context({.threads = 1});
  const Model model(context, small_model());
  Session session(model, {.policy = ContextPolicy::crop});
  session.feed("the ");
  std::thread other;
  EXPECT_EQ(code_of([&] {
              session.generate({.max_tokens = int64_t{1} << 40}, [&](const Piece&) {
                if (!other.joinable()) other = std::thread([&] { context.cancel(); });
                return true;
              });
            }),
            code(Code::cancelled));
  other.join();
  EXPECT_GT(session.ids().size(), 4u);
  EXPECT_EQ(code_of([&] { session.generate(); }), code(Code::cancelled));
  EXPECT_EQ(code_of([&] { Tokenizer::train(context, long_text(), {}); }), code(Code::cancelled));
  EXPECT_EQ(code_of([&] { Trainer(context, small_settings(), long_text()); }), code(Code::cancelled));
  EXPECT_EQ(code_of([&] { Model(context, small_model()); }), code(Code::cancelled));
  context.resume();
  EXPECT_EQ(session.generate({.max_tokens = 3}).ids.size(), 3u);
}

TEST(Library, ACancelledStepIsMadeAnewWithTheSameWeights) {
  const Context context({.threads = 1});
  Settings settings = small_settings();
  settings["micro_batch"] = "1";
  Trainer whole(context, settings, long_text()), broken(context, settings, long_text());
  double expected = 0, found = 0;
  whole.run(4, [&](const TrainProgress& p) { return expected = p.loss, true; });
  broken.run(2);
  context.cancel();
  EXPECT_EQ(code_of([&] { broken.run(1); }), code(Code::cancelled));
  EXPECT_EQ(broken.step(), 2);
  context.resume();
  broken.run(2, [&](const TrainProgress& p) { return found = p.loss, true; });
  EXPECT_EQ(expected, found);
}

TEST(Library, MemoryIsRefusedBeforeItIsTaken) {
  const Context small({.threads = 1, .memory_limit = 10});
  EXPECT_EQ(code_of([&] { Model(small, small_model()); }), code(Code::out_of_memory));
  EXPECT_EQ(code_of([&] { Trainer(small, small_settings(), long_text()); }), code(Code::out_of_memory));
  EXPECT_EQ(small.memory_used(), 0);
  const Context enough({.threads = 1, .memory_limit = int64_t{1} << 24});
  {
    const Model model(enough, small_model());
    EXPECT_EQ(enough.memory_used(), model.facts().bytes);
    const Session session(model);
    const int64_t used = enough.memory_used();
    EXPECT_GT(used, model.facts().bytes);
    EXPECT_EQ(code_of([&] { Engine(model, {.slots = 1000}); }), code(Code::out_of_memory));
    EXPECT_EQ(enough.memory_used(), used);
  }
  EXPECT_EQ(enough.memory_used(), 0);
}

TEST(Library, ErrorsHaveCodesAndNameParametersWithoutDashes) {
  const Context context({.threads = 1});
  EXPECT_EQ(code_of([&] { Model(context, "/nowhere/at/all"); }), code(Code::not_found));
  gpt::test::TempDir dir;
  std::ofstream(dir.path() + "/model.gguf") << "no model";
  EXPECT_EQ(code_of([&] { Model(context, dir.path() + "/model.gguf"); }), code(Code::io));
  std::ofstream(dir.path() + "/config.json") << R"({"model_type": "mamba"})";
  EXPECT_EQ(code_of([&] { Model(context, dir.path()); }), code(Code::unsupported)) << "a model_type";
  EXPECT_EQ(code_of([&] { Context({.threads = -1}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { Context({.instruction_set = "mmx"}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { Trainer(context, {{"stepps", "3"}}, "text"); }), code(Code::invalid_argument));
  const Model model(context, small_model());
  EXPECT_EQ(code_of([&] { chat_prompt(model, {}); }), code(Code::unsupported));
  EXPECT_EQ(code_of([&] { Session(model, {.policy = ContextPolicy::slide}); }), code(Code::unsupported));
  Session session(model);
  EXPECT_EQ(code_of([&] { session.feed(std::vector<int32_t>{1000}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { session.truncate(1); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { session.logits(); }), code(Code::invalid_argument));
  for (const GenerateOptions& options : {GenerateOptions{.sampling = {.temperature = -1}},
                                         {.sampling = {.top_k = -1}},
                                         {.sampling = {.top_p = 2}},
                                         {.sampling = {.min_p = 2}},
                                         {.sampling = {.repetition_penalty = 0}},
                                         {.sampling = {.presence_penalty = 1e9}},
                                         {.sampling = {.frequency_penalty = 1e9}},
                                         {.sampling = {.logit_bias = {{999, 1}}}},
                                         {.max_tokens = 0},
                                         {.stops = {""}}}) {
    if (options.max_tokens > 0) {
      EXPECT_EQ(code_of([&] { check(model, options); }), code(Code::invalid_argument));
    }
    try {
      session.generate(options);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), Code::invalid_argument);
      EXPECT_EQ(std::string(error.what()).find("--"), std::string::npos) << error.what();
      EXPECT_NE(error.object(), "") << error.what();
    }
  }
  Settings settings = small_settings();
  settings["patience"] = "2";
  settings["val_fraction"] = "0";
  try {
    Trainer(context, settings, long_text());
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find(" `eval_every`"), std::string::npos) << error.what();
    EXPECT_EQ(std::string(error.what()).find("--"), std::string::npos) << error.what();
  }
  EXPECT_THROW(session.generate({}, [](const Piece&) -> bool { throw std::range_error("mine"); }),
               std::range_error);
}

TEST(Library, ErrorsHaveTheFieldsOfTheirMessage) {
  try {
    Context({.threads = -1});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.object(), "threads");
    EXPECT_EQ(error.expected(), "0 (all CPUs) to 1024");
    EXPECT_EQ(error.found(), "-1");
    EXPECT_EQ(error.hint(), "");
  }
  gpt::test::TempDir dir;
  const std::string path = dir.path();
  std::ofstream(path + "/config.json") << R"({"model_type": "mamba"})";
  try {
    Model(Context({.threads = 1}), path);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.object(), path);
    EXPECT_TRUE(error.hint().starts_with("expected one of ")) << error.hint();
  }
}

TEST(Library, ATrainedModelIsSavedAndLogsGoToTheSink) {
  std::vector<std::string> lines;
  const Context context(
      {.threads = 1, .log = [&](LogLevel, std::string_view line) { lines.emplace_back(line); }});
  gpt::test::TempDir dir;
  std::ofstream(dir.path() + "/rows.jsonl") << "{\"text\": \"" << long_text() << "\"}\n";
  Settings settings = small_settings();
  settings["data"] = dir.path() + "/rows.jsonl";
  Trainer trainer(context, settings);
  const double before = *trainer.validation_loss();
  EXPECT_EQ(trainer.run(1000), 30);
  EXPECT_EQ(trainer.run(1), 0);
  EXPECT_LT(*trainer.validation_loss(), before);
  EXPECT_FALSE(lines.empty());
  trainer.save(dir.path() + "/model");
  const ModelFacts facts = Model(context, dir.path() + "/model").facts();
  EXPECT_EQ(facts.n_embd, 32);
  EXPECT_EQ(facts.vocab_size, 256);
  EXPECT_TRUE(facts.has_tokenizer);
}

TEST(Library, ATokenizerIsTrainedSavedAndReadBack) {
  const Context context({.threads = 2});
  const Tokenizer trained = Tokenizer::train(context, long_text(), {.vocab_size = 280});
  const std::vector<int32_t> ids = trained.encode(kText);
  EXPECT_LT(ids.size(), std::string(kText).size());
  EXPECT_EQ(trained.decode(ids), kText);
  gpt::test::TempDir dir;
  trained.save(dir.path() + "/tokenizer.json");
  EXPECT_EQ(Tokenizer::load(dir.path() + "/tokenizer.json").encode(kText), ids);
  EXPECT_EQ(Tokenizer::bytes().encode("ab"), (std::vector<int32_t>{'a', 'b'}));
  EXPECT_EQ(code_of([&] { Tokenizer::train(context, "text", {.vocab_size = 3}); }),
            code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { trained.decode(std::vector<int32_t>{-1}); }), code(Code::invalid_argument));
}

TEST(Library, SpecialTokensInTextsAreTextUnlessAsked) {
  std::vector<std::string> warnings;
  const Context context({.threads = 2, .log = [&](LogLevel level, std::string_view line) {
                           if (level == LogLevel::warning) warnings.emplace_back(line);
                         }});
  gpt::test::TempDir dir;
  const Tokenizer tokenizer = Tokenizer::train(
      context, long_text(), {.vocab_size = 270, .special_tokens = {"<|im_start|>", "<|im_end|>"}});
  tokenizer.save(dir.file("tokenizer.json"));
  Settings settings = small_settings();
  settings["tokenizer"] = dir.file("tokenizer.json");
  Trainer(context, settings, long_text()).save(dir.file("model"));
  const Model model(context, dir.file("model"));
  const std::string text = "the cat<|im_end|>";
  const std::vector<int32_t> plain = tokenizer.encode(text), special = tokenizer.encode(text, true);
  EXPECT_EQ(special.back(), tokenizer.encode("<|im_end|>", true).at(0));
  EXPECT_LT(special.size(), plain.size());
  warnings.clear();
  EXPECT_EQ(model.prompt_ids(text, true, true), special);
  Session session(model);
  session.feed(text, true);
  EXPECT_EQ(session.ids(), special);
  Engine engine(model);
  engine.submit(text, {.max_tokens = 1}, true);
  EXPECT_TRUE(warnings.empty());
  EXPECT_EQ(model.prompt_ids(text), plain);
  session.feed(text);
  EXPECT_EQ(session.ids().size(), special.size() + plain.size());
  engine.submit(text, {.max_tokens = 1});
  ASSERT_EQ(warnings.size(), 3u);
  for (const std::string& warning : warnings)
    EXPECT_NE(warning.find("<|im_end|>"), std::string::npos) << warning;
}

TEST(Library, AChatIsTheModelsFormatAroundASession) {
  const Context context({.threads = 2});
  gpt::test::TempDir dir;
  Tokenizer::train(context, long_text(),
                   {.vocab_size = 270, .special_tokens = {"<|im_start|>", "<|im_end|>"}})
      .save(dir.file("tokenizer.json"));
  Settings settings = small_settings();
  settings["tokenizer"] = dir.file("tokenizer.json");
  settings["n_ctx"] = "96";
  Trainer trainer(context, settings, long_text());
  trainer.save(dir.file("model"));
  EXPECT_EQ(code_of([&] { Model(context, dir.file("model"), {.chat_format = "chatlm"}); }),
            code(Code::invalid_argument));
  const Model model(context, dir.file("model"), {.chat_format = "chatml"});
  EXPECT_EQ(model.facts().chat_format, "chatml");
  const std::vector<Message> messages = {{"system", "be brief"}, {"user", "a cat?"}};
  const std::vector<int32_t> prompt = chat_prompt(model, messages);
  const GenerateOptions options{.max_tokens = 12, .seed = 4};
  Chat chat(model, "be brief");
  const Result answer = chat.say("a cat?", options);
  Session session(model);
  session.feed(prompt);
  const std::vector<int32_t> expected = session.generate(options).ids;
  ASSERT_LE(answer.ids.size(), expected.size());
  EXPECT_TRUE(std::equal(answer.ids.begin(), answer.ids.end(), expected.begin()));
  EXPECT_EQ(code_of([&] {
              chat_prompt(model, std::vector<Message>{{"judge", "x"}});
            }),
            code(Code::invalid_argument));
  EXPECT_EQ(chat.prompt_ids(), prompt);
  EXPECT_STREQ(chat.format(), "chatml");
  EXPECT_EQ(chat.n_ctx(), 96);
  EXPECT_EQ(code_of([&] { Chat(model, "", {.policy = ContextPolicy::crop}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { chat.say(long_text()); }),
            code(Code::invalid_argument));  // longer than the context
  chat.reset();
  EXPECT_EQ(code_of([&] { chat.say("lost", {.max_tokens = 0}); }), code(Code::invalid_argument));
  EXPECT_EQ(code_of([&] { chat.say("lost", {.logprobs = -2}); }), code(Code::invalid_argument));
  const auto reset = [&](const Piece&) {
    EXPECT_EQ(code_of([&] { chat.reset(); }), code(Code::invalid_argument));
    return true;
  };
  EXPECT_EQ(chat.say("a cat?", options, reset).ids, answer.ids);
}

}  // namespace
}  // namespace gptcpp
