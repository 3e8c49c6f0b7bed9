// Tests distributed training: results are bit-identical for any number of ranks, and errors name the ranks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "mpi_runs.h"

namespace {

TEST_F(Mpi, TheNumbersDependOnShardsAndNotOnProcesses) {
  for (const char* dtype : {"fp32", "bf16"}) {
    const std::string kind = dtype;
    const Words more = {"--steps", "12", "--dtype", dtype};
    succeeds(train("one" + kind, more));
    succeeds(launch(2, train("two" + kind, more)));
    succeeds(launch(4, train("four" + kind, more)));
    Words divided = more;
    divided.insert(divided.end(), {"--zero", "1"});
    succeeds(launch(2, train("divided" + kind, divided)));
    expect_same("one" + kind, "divided" + kind);
    expect_same("one" + kind, "two" + kind);
    expect_same("one" + kind, "four" + kind);
  }
}

TEST_F(Mpi, GradientsMuonAndAveragesAreDivided) {
  const auto run = [&](const std::string& name, const Words& more) {
    Words words = train(name, {"--steps", "8", "--optimizer", "muon", "--ema", "0.9"});
    *(std::ranges::find(words, "--micro-batch") + 1) = "2";  // equal to a shard
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  succeeds(run("one", {}));
  succeeds(launch(2, run("two", {"--zero", "2"})));
  succeeds(launch(4, run("four", {"--zero", "2"})));
  succeeds(launch(2, run("three", {"--zero", "3", "--sample-every", "4"})));
  expect_same("one", "three");
  expect_same("one", "two");
  expect_same("one", "four");
  const std::map<std::string, double> expected = newest_metrics("one");
  EXPECT_TRUE(expected.contains("whole_val_loss_best"));
  for (const char* name : {"two", "three", "four"}) {
    const std::map<std::string, double> found = newest_metrics(name);
    for (const auto& [key, value] : expected) {
      ASSERT_TRUE(found.contains(key)) << name << " " << key;
      EXPECT_NEAR(found.at(key), value, 1e-6 * std::abs(value)) << name << " " << key;
    }
  }
  const GptRun parts = run_gpt(launch(2, train("parts", {"--zero", "2"})));
  EXPECT_EQ(parts.status, 2);
  EXPECT_TRUE(names(parts.err, {"--zero", "micro_batch = batch_size / grad_shards = 2", 1}));
}

// The high learning rate makes one of the first models the best one, which differs from the last model. The
// embedding is tied.
TEST_F(Mpi, TheLossOfTheBestModelIsThatOfOneProcess) {
  const auto run = [&](const std::string& name) {
    return train(name,
                 {"--preset",       "tiny", "--n-embd",       "32",      "--n-ctx", "32", "--batch-size", "6",
                  "--micro-batch",  "3",    "--grad-shards",  "2",       "--steps", "6",  "--eval-every", "1",
                  "--eval-batches", "1",    "--sample-every", "0",       "--lr",    "3",  "--warmup",     "0",
                  "--dropout",      "0",    "--schedule",     "constant"});
  };
  succeeds(run("one"));
  Words divided = run("three");
  divided.insert(divided.end(), {"--zero", "3"});
  succeeds(launch(2, divided));
  expect_same("one", "three");
  const std::map<std::string, double> one = newest_metrics("one"), three = newest_metrics("three");
  ASSERT_TRUE(one.contains("whole_val_loss_best"));
  EXPECT_NE(one.at("whole_val_loss_best"), one.at("whole_val_loss"));
  for (const char* key : {"whole_val_loss", "whole_val_loss_best"})
    EXPECT_EQ(three.at(key), one.at(key)) << key;
}

TEST_F(Mpi, TrainingIsMeasured) {
  const Words shape = {"bench", "--n-layer", "1", "--n-head",  "2", "--n-embd", "16",     "--n-ctx",
                       "16",    "--repeat",  "2", "--threads", "1", "--bytes",  "1048576"};
  const auto bench = [&](const Words& more) {
    Words words = shape;
    words.insert(words.end(), more.begin(), more.end());
    return run_gpt(launch(2, words));
  };
  const GptRun run = bench({"--batch-size", "4", "--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  const nlohmann::json report = nlohmann::json::parse(run.out);
  EXPECT_EQ(report["machine"]["processes"], 2);
  ASSERT_EQ(report["workloads"].size(), 1u);
  const GptRun decode = bench({"--mode", "decode"}), odd = bench({"--batch-size", "3"});
  EXPECT_EQ(decode.status, 2);
  EXPECT_TRUE(names(decode.err, {"--mode decode", 2}));
  EXPECT_EQ(odd.status, 2);
  EXPECT_TRUE(names(odd.err, {"--batch-size", 2, 3}));
}

TEST_F(Mpi, ARunGoesOnWithAnotherNumberOfProcesses) {
  succeeds(train("whole", {"--steps", "12"}));
  succeeds(launch(4, train("parts", {"--steps", "12", "--stop-after", "4"})));
  succeeds(launch(2, {"train", "--resume", "--stop-after", "6", "--zero", "1", "--out", path("parts")}));
  succeeds({"train", "--resume", "--stop-after", "8", "--out", path("parts")});
  succeeds(launch(2, resume("parts")));
  expect_same("whole", "parts");
}

// Fast reduction uses one shard per rank. Rounded messages give different results, but the same ones in each
// run.
TEST_F(Mpi, FastReduceDependsOnTheNumberOfProcesses) {
  const auto fast = [&](const std::string& name, const std::string& reduce) {
    return launch(2, train(name, {"--steps", "8", "--reduce", reduce}));
  };
  succeeds(train("shards", {"--steps", "8", "--grad-shards", "2"}));
  succeeds(fast("fast", "fast"));
  expect_same("shards", "fast");
  succeeds(fast("rounded", "fast-bf16"));
  succeeds(fast("again", "fast-bf16"));
  expect_same("rounded", "again");
  EXPECT_FALSE(gpt::read_file(path("rounded/last/model.safetensors")) ==
               gpt::read_file(path("fast/last/model.safetensors")));
}

// A run with four ranks cannot use two shards or micro-batches of four samples.
TEST_F(Mpi, FastReduceGoesOnWithAnyNumberOfProcesses) {
  succeeds(launch(
      2, train("run", {"--steps", "10", "--grad-shards", "2", "--micro-batch", "4", "--stop-after", "2"})));
  EXPECT_EQ(run_gpt(launch(4, resume("run"))).status, 2);
  succeeds(launch(4, resume("run", {"--stop-after", "4", "--reduce", "fast"})),
           {"reduce", "exact", "step 2", "fast"});
  succeeds(launch(2, resume("run", {"--stop-after", "6"})), {"reduce", 2});
  succeeds(resume("run", {"--stop-after", "8", "--reduce", "exact"}), {"reduce", "fast", "step 6", "exact"});
  succeeds(launch(2, resume("run")));
  EXPECT_EQ(step_of("run"), 10);
}

// Runs with sharded gradients (ZeRO 2 and 3) also resume with any number of ranks. With ZeRO 2 and 3, the
// micro-batch is the whole batch of a rank.
TEST_F(Mpi, DividedFastReduceGoesOnWithAnyNumberOfProcesses) {
  for (const std::string zero : {"2", "3"}) {
    fs::remove_all(path("run"));
    succeeds(launch(4, train("run", {"--steps", "8", "--micro-batch", "2", "--zero", zero, "--reduce", "fast",
                                     "--stop-after", "2"})));
    succeeds(launch(2, resume("run", {"--stop-after", "4"})), {"micro_batch 4", "zero " + zero});
    succeeds(resume("run", {"--stop-after", "6"}));
    EXPECT_EQ(step_of("run"), 6);
    succeeds(launch(4, resume("run")));
    EXPECT_EQ(step_of("run"), 8);
  }
}

TEST_F(Mpi, SaysWhatTheNumberOfProcessesMeans) {
  Words words = train("auto", {"--steps", "2"});
  words.erase(std::find(words.begin(), words.end(), "--grad-shards"),
              std::find(words.begin(), words.end(), "--out"));
  const GptRun run = run_gpt(launch(2, words));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(names(run.err, {"grad_shards 2"}));
  const GptRun three = run_gpt(launch(3, train("three", {"--steps", "2"})));
  EXPECT_EQ(three.status, 2) << three.err;
  EXPECT_TRUE(names(three.err, {"--grad-shards", 3, 4, "--grad-shards 12"}));
}

TEST_F(Mpi, RefusesOtherLaunchersAndCommandsByName) {
  const GptRun torch = run_gpt(train("t", {}), {"TORCHELASTIC_RUN_ID=x", "WORLD_SIZE=2"});
  EXPECT_EQ(torch.status, 2);
  EXPECT_TRUE(names(torch.err, {"torchrun", "mpirun -n 2 gpt"}));
  const GptRun slurm = run_gpt(train("t", {}), {"SLURM_STEP_NUM_TASKS=2"});
  EXPECT_EQ(slurm.status, 2);
  EXPECT_TRUE(names(slurm.err, {"PMIx", "srun --mpi=pmix gpt"}));
  const GptRun other = run_gpt({"info", "gpt2"}, {"OMPI_COMM_WORLD_SIZE=2", "OMPI_COMM_WORLD_RANK=0"});
  EXPECT_EQ(other.status, 2);
  EXPECT_TRUE(names(other.err, {"gpt info", 2, "gpt train", "gpt bench"}));
  const GptRun launched = run_gpt(launch(2, {"info", "gpt2"}));
  EXPECT_EQ(launched.status, 2);
  EXPECT_TRUE(names(launched.err, {"launch", "-- train", "finetune", "eval", "sweep", "bench", "-- info"}));
}

// The program calls no function of an MPI module from a different build.
TEST_F(Mpi, RefusesTheModuleOfAnotherBuild) {
  const fs::path folder = fs::path(GPT_BINARY).parent_path();
  fs::copy_file(GPT_BINARY, path("gpt"));
  std::string module = gpt::read_file((folder / "gpt_mpi.so").string());
  const size_t at = module.find(" build ");
  ASSERT_NE(at, std::string::npos);
  char& digit = module[at + std::string_view(" build ").size()];
  digit = digit == '0' ? '1' : '0';
  gpt::test::write_plain_file(path("gpt_mpi.so"), module);
  const std::string command = "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=0 " + path("gpt") +
                              " eval x --data " + text_ + " 2> " + path("err");
  EXPECT_NE(std::system(command.c_str()), 0);
  const std::string err = gpt::read_file(path("err"));
  EXPECT_TRUE(names(err, {path("gpt_mpi.so"), "\"gpt.cpp"}));
}

// Fine-tuning also depends only on the shards, and its evaluation is distributed over the ranks.
TEST_F(Mpi, FineTuningDependsOnShardsAlone) {
  succeeds(train("base", {"--steps", "2"}));
  std::string examples = "text,label\n";
  for (int i = 0; i < 700; ++i)  // the validation part has more than two batches
    examples +=
        (i % 2 == 0 ? "line 4 " : "line 9 ") + std::to_string(i % 17) + (i % 2 == 0 ? ",even\n" : ",odd\n");
  gpt::test::write_plain_file(dir_.file("examples.csv"), examples);
  const auto finetune = [&](const std::string& name, const Words& more) {
    Words words = {
        "finetune",      path("base"), "--task",        "classify", "--data",  dir_.file("examples.csv"),
        "--batch-size",  "8",          "--micro-batch", "2",        "--steps", "10",
        "--grad-shards", "2",          "--threads",     "1",        "--out",   path(name)};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  succeeds(finetune("tuned-one", {}));
  succeeds(launch(2, finetune("tuned-two", {"--stop-after", "5"})));
  succeeds(launch(2, {"finetune", "--resume", "--out", path("tuned-two")}));
  expect_same("tuned-one", "tuned-two");
  succeeds(launch(2, finetune("tuned-fast", {"--reduce", "fast"})));
  expect_same("tuned-one", "tuned-fast");
  EXPECT_EQ(gpt::read_file(path("tuned-one/predictions.csv")),
            gpt::read_file(path("tuned-two/predictions.csv")));
}

TEST_F(Mpi, AnEvaluationOfChatIsThatOfOneProcess) {
  succeeds({"tokenizer", "train", "--data", text_, "--vocab-size", "280", "--out", path("tokenizer")});
  Words base = train("base", {"--steps", "2"});
  std::replace(base.begin(), base.end(), std::string("byte"), path("tokenizer"));
  std::replace(base.begin(), base.end(), std::string("16"), std::string("64"));  // width and context length
  succeeds(base);
  std::string chats;
  for (int i = 0; i < 40; ++i)
    chats += R"({"messages": [{"role": "user", "content": "say )" + std::to_string(i) +
             R"("}, {"role": "assistant", "content": "it is )" + std::to_string(i * i) + "\"}]}\n";
  gpt::test::write_plain_file(dir_.file("chats.jsonl"), chats);
  const auto losses = [&](int processes) {
    const std::string name = "chat-" + std::to_string(processes);
    const Words words = {
        "finetune",     path("base"), "--task",         "chat",    "--data",    dir_.file("chats.jsonl"),
        "--template",   "chatml",     "--val-fraction", "0.4",     "--steps",   "4",
        "--batch-size", "6",          "--grad-shards",  "6",       "--threads", "1",
        "--eval-every", "2",          "--out",          path(name)};
    succeeds(processes == 1 ? words : launch(processes, words));
    return gpt::read_file(path(name + "/best/model.safetensors")) + held_out_losses(path(name));
  };
  const std::string alone = losses(1);
  EXPECT_TRUE(alone == losses(2));
  EXPECT_TRUE(alone == losses(3));
}

// The ranks also share the log-probabilities of the reference model and the rewarded rollouts.
TEST_F(Mpi, PreferencesAndRewardsDependOnShardsAlone) {
  succeeds(train("base", {"--steps", "2"}));
  std::string pairs, prompts;
  for (int i = 0; i < 30; ++i) {
    const std::string prompt = R"({"prompt": "a)" + std::to_string(i);
    pairs += prompt + R"(", "chosen": "yes", "rejected": "no"})" + "\n";
    prompts += prompt + R"(", "answer": "e"})" + "\n";
  }
  gpt::test::write_plain_file(dir_.file("dpo.jsonl"), pairs);
  gpt::test::write_plain_file(dir_.file("grpo.jsonl"), prompts);
  for (const Words& task :
       {Words{"dpo"}, Words{"grpo", "--rollouts=4", "--max-tokens=6", "--reward=regex"}}) {
    const auto tune = [&](const std::string& name, const Words& more) {
      Words words = {"finetune", path("base"), "--data", dir_.file(task[0] + ".jsonl"),
                     "--out",    path(name),   "--task"};
      words.insert(words.end(), task.begin(), task.end());
      for (const char* setting : {"--batch-size=16", "--micro-batch=2", "--steps=6", "--grad-shards=4",
                                  "--threads=1", "--eval-every=3", "--val-fraction=0.3"})
        words.emplace_back(setting);
      words.insert(words.end(), more.begin(), more.end());
      return words;
    };
    const std::string alone = task[0] + "-alone", shared = task[0] + "-shared";
    succeeds(tune(alone, {}));
    succeeds(launch(2, tune(shared, {"--stop-after", "3"})));
    succeeds(launch(4, {"finetune", "--resume", "--out", path(shared)}));
    expect_same(alone, shared);
    EXPECT_EQ(held_out_losses(path(shared)), held_out_losses(path(alone)));
  }
  EXPECT_TRUE(gpt::read_file(path("dpo-shared/reference.safetensors")) ==
              gpt::read_file(path("dpo-alone/reference.safetensors")));
}

// The ranks share the windows of a text. The output is bit-identical to a single process.
TEST_F(Mpi, TheLossOfATextIsThatOfOneProcess) {
  succeeds(train("run", {"--steps", "2"}));
  const Words plain = {"eval", path("run"), "--data", text_, "--threads", "1", "--json", "--batch-size", "3"};
  Words compared = plain;
  compared.insert(compared.end(), {"--dtype", "q8_0", "--against", "fp32", "--n-ctx", "13"});
  for (const Words& words : {plain, compared}) {
    const GptRun alone = run_gpt(words);
    ASSERT_EQ(alone.status, 0) << alone.err;
    for (const int processes : {2, 3}) {
      const GptRun shared = run_gpt(launch(processes, words));
      EXPECT_EQ(shared.status, 0) << shared.err;
      EXPECT_EQ(shared.out, alone.out);
    }
  }
}

// Covers all kinds of tasks: multiple choice, log-likelihood, generated responses, and the CORE bundle of
// nanochat.
TEST_F(Mpi, TheScoresOfTasksAreThoseOfOneProcess) {
  const std::string folder = std::string(GPT_SOURCE_DIR) + "/tests/data/tasks/";
  const auto scores = [&](int processes) {
    const std::string log = path("log-" + std::to_string(processes) + ".jsonl");
    Words words = {"eval", folder + "gpt2", "--threads", "1", "--log-samples", log, "--tasks"};
    for (const char* file : {"tasks/choice.yaml", "tasks/last_word.yaml", "tasks/pages.yaml",
                             "tasks/sums.yaml", "tasks/letters.yaml", "core/core.yaml"})
      words.push_back(folder + file);
    const GptRun run = run_gpt(processes == 1 ? words : launch(processes, words));
    EXPECT_EQ(run.status, 0) << run.err;
    return run.out + gpt::read_file(log);
  };
  const std::string alone = scores(1);
  EXPECT_EQ(scores(2), alone);
  EXPECT_EQ(scores(3), alone);
}

// Each rank trains different runs of the sweep, and one of the runs fails. The sweep is resumed with a
// different number of ranks.
TEST_F(Mpi, ASweepIsMadeInParts) {
  const auto sweep = [&](const std::string& name) {
    Words words = {"sweep", "--data", text_, "--over", "lr=1e-3,1e-2,1000", "--out", path(name)};
    for (const char* setting :
         {"--tokenizer=byte", "--n-layer=1", "--n-head=1", "--n-embd=8", "--n-ctx=16", "--batch-size=2",
          "--seeds=2", "--threads=1", "--eval-batches=1", "--steps=8"})
      words.emplace_back(setting);
    return words;
  };
  const auto results = [&](const std::string& name) {
    const auto json = nlohmann::json::parse(gpt::read_file(path(name + "/sweep.json")));
    std::string text;
    for (const nlohmann::json& run : json["runs"]) {
      text += run.value("name", "") + " " + run.value("state", "") + " " + run.value("error", "") + "\n";
      if (run.value("state", "") != "done") continue;
      text += run["val_loss"].dump();
      text += gpt::read_file(path(name + "/runs/" + run.value("name", "") + "/last/model.safetensors"));
    }
    return text;
  };
  succeeds(sweep("alone"));
  const GptRun shared = run_gpt(launch(2, sweep("shared")));
  ASSERT_EQ(shared.status, 0) << shared.err;
  EXPECT_TRUE(names(shared.err, {"rank 1"}));
  EXPECT_TRUE(results("shared") == results("alone"));
  EXPECT_TRUE(names(results("alone"), {"failed"}));
  EXPECT_FALSE(fs::exists(path("shared/.rank-0.json")));
  fs::remove_all(path("shared/runs/lr=1e-2-seed=1"));
  fs::remove_all(path("shared/runs/lr=1e-3-seed=2"));
  succeeds(launch(3, {"sweep", "--resume", "--out", path("shared")}));
  EXPECT_TRUE(results("shared") == results("alone"));
}

// Starts two different commands in one mpirun.
TEST_F(Mpi, RefusesProcessesThatDiffer) {
  gpt::test::write_plain_file(dir_.file("other.txt"), gpt::read_file(text_) + "one line more\n");
  const auto started = [&](const Words& words) {
    std::string line = " -n 1 ";
    for (const std::string& word : words)
      line += " '" + word + "'";
    return line;
  };
  const auto refused = [&](Words first, Words second, const Facts& facts) {
    first.insert(first.begin(), GPT_BINARY);
    second.insert(second.begin(), GPT_BINARY);
    const std::string notes = dir_.file("notes.txt");
    const std::string root = ::geteuid() == 0 ? " --allow-run-as-root" : "";
    const std::string command =
        "mpirun --oversubscribe" + root + started(first) + " :" + started(second) + " > " + notes + " 2>&1";
    EXPECT_NE(std::system(command.c_str()), 0);
    EXPECT_TRUE(names(gpt::read_file(notes), {"rank 1", "rank 0"}));
    EXPECT_TRUE(names(gpt::read_file(notes), facts));
  };
  const Words first = train("differ", {"--steps", "2"});
  Words other_text = first;
  std::replace(other_text.begin(), other_text.end(), text_, dir_.file("other.txt"));
  refused(first, other_text, {"data_hash"});
  refused(first, train("differ", {"--steps", "2", "--seed", "5"}), {"\"seed\"", 1, 5});
  succeeds(train("run", {"--steps", "2"}));
  succeeds(train("other", {"--steps", "2", "--seed", "5"}));
  refused(train("both", {"--steps", "2", "--init-from", path("run")}),
          train("both", {"--steps", "2", "--init-from", path("other")}), {"--init-from"});
  refused({"eval", path("run"), "--data", text_}, {"eval", path("run"), "--data", dir_.file("other.txt")},
          {"val_data_hash"});
}

// Frozen layers have no trained weights that could be sharded.
TEST_F(Mpi, FrozenLayersAreWholeInEveryProcess) {
  const Words frozen = {"--steps", "4", "--micro-batch", "2", "--freeze", "blocks.0.*"};
  succeeds(train("whole", frozen));
  Words divided = train("divided", frozen);
  divided.insert(divided.end(), {"--zero", "3"});
  const GptRun run = run_gpt(launch(2, divided));
  EXPECT_EQ(run.status, 0) << run.err;
  expect_same("whole", "divided");
}

}  // namespace
