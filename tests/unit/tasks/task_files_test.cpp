// Tests reading of YAML, tasks, groups and documents. Invalid files are refused by name.

#include <gtest/gtest.h>

#include "support/names.h"
#include "tasks/yaml.h"
#include "unit/tasks/task_fixture.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;
using test::Fact;
using test::names;
using test::refused;

TEST(Yaml, ReadsWhatPyYamlReads) {
  const ordered_json value = parse_yaml(R"(
a: yes
b: [1, 012, 0x1f, 1_000, -3, +4, 1.5, 1e5, .5, 1.0e+3, "yes", 'it''s', null, ~]
c: &shared {x: 1, y: off}
d: {<<: *shared, y: 2}
e: !function utils.process_docs
f: |
  two
  lines
)",
                                        "t");
  EXPECT_EQ(value, ordered_json::parse(R"({"a":true,
    "b":[1,10,31,1000,-3,4,1.5,"1e5",0.5,1000.0,"yes","it's",null,null],
    "c":{"x":1,"y":false},"d":{"x":1,"y":2},"e":{"!function":"utils.process_docs"},"f":"two\nlines\n"})"));
}

TEST(Yaml, RefusesWithTheLine) {
  const auto refuses = [](const std::string& text, const std::string& place,
                          std::initializer_list<Fact> facts = {}) {
    return refused([&] { parse_yaml(text, "t"); }, place, facts);
  };
  EXPECT_TRUE(refuses("a: 1\na: 2", "t, line 2", {"a"}));
  EXPECT_TRUE(refuses("a: 1\nb: !!python/object:os.system x", "t, line 2", {"python/object:os.system"}));
  EXPECT_TRUE(refuses("a: [1,\nb: }", "t, line 2"));
  EXPECT_TRUE(refuses("a: *nobody", "t, line 1"));
  EXPECT_TRUE(refuses("a: &x [*x]", "t, line 1"));
  EXPECT_TRUE(refuses("[a]: 1", "t, line 1"));
  EXPECT_TRUE(refuses("a: \xff", "t, line 1", {"UTF-8"}));
  EXPECT_TRUE(refuses("a: 1\n---\nb: 2", "t"));
}

TEST(Yaml, BoundsWhatAFileCanAskFor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, before);
  }
  const YamlLimits limits;
  EXPECT_TRUE(names(error_of([&] { parse_yaml(bomb, "bomb"); }), {"bomb", limits.max_values}));
  for (const int depth : {40, 3000, 200000}) {
    EXPECT_NE(error_of([&] { parse_yaml(std::string(static_cast<size_t>(depth), '['), "deep"); }),
              "no error");
    EXPECT_NE(error_of([&] { parse_yaml(std::string(static_cast<size_t>(depth), '{'), "deep"); }),
              "no error");
    std::string lists;
    for (int i = 0; i < depth; ++i)
      lists += "- ";
    EXPECT_NE(error_of([&] { parse_yaml(lists, "deep"); }), "no error");
  }
  EXPECT_TRUE(
      refused([] { parse_yaml(std::string(5 << 20, 'a'), "long"); }, "long", {limits.max_bytes, 5 << 20}));
  std::string copies = "a: &a " + std::string(1 << 20, 'x') + "\nb: [";
  for (int i = 0; i < 100; ++i)
    copies += "*a, ";
  EXPECT_TRUE(
      refused([&] { parse_yaml(copies + "]", "copies"); }, "copies, line 2", {limits.max_text_bytes}));
}

// Returns a task in which one key has the given value.
std::string with(const std::string& key, const std::string& value) {
  std::map<std::string, std::string> keys = {{"task", "t"},
                                             {"dataset_path", "json"},
                                             {"dataset_kwargs", "{data_files: {test: d.jsonl}}"},
                                             {"output_type", "multiple_choice"},
                                             {"test_split", "test"},
                                             {"doc_to_text", "\"{{q}}\""},
                                             {"doc_to_target", "gold"},
                                             {"doc_to_choice", "choices"}};
  keys[key] = value;
  std::string text;
  for (const auto& [name, content] : keys) {
    if (!content.empty()) text += name + ": " + content + "\n";
  }
  return text;
}

TEST(TaskConfig, RefusesByName) {
  const TaskFolder folder;
  const auto reads = [&](const std::string& key, const std::string& value) {
    read_task_config(TaskFile(folder.write("t.yaml", with(key, value))));
  };
  const auto refuses = [&](const std::string& key, const std::string& value,
                           std::initializer_list<Fact> facts) {
    return refused([&] { reads(key, value); }, folder.path() + "/t.yaml", facts);
  };
  EXPECT_NO_THROW(reads("task", "t"));
  EXPECT_TRUE(refuses("task", "", {"task"}));
  EXPECT_TRUE(refuses("doc_to_txt", "x", {"doc_to_txt", "doc_to_text"}));
  EXPECT_TRUE(refuses("output_type", "generate", {6, "output_type", "generate"}));
  EXPECT_TRUE(
      refuses("process_docs", "!function utils.process_docs", {"process_docs", "utils.process_docs"}));
  EXPECT_TRUE(refuses("doc_to_text", "!function os.system", {"doc_to_text", "os.system"}));
  EXPECT_TRUE(refuses("process_results", "!function utils.f", {"process_results"}));
  EXPECT_TRUE(refuses("class", "x", {"class", "Python"}));
  EXPECT_TRUE(refuses("doc_to_image", "x", {"doc_to_image"}));
  EXPECT_TRUE(refuses("use_prompt", "x", {"use_prompt", "promptsource"}));
  EXPECT_TRUE(refuses("unsafe_code", "true", {"unsafe_code"}));
  EXPECT_TRUE(refuses("metric_list", "[{metric: bleu}]", {"metric_list", "bleu", "acc", "acc_norm"}));
  EXPECT_TRUE(refuses("metric_list", "[{metric: acc, aggregation: f1}]", {"metric_list", "f1"}));
  EXPECT_TRUE(
      refuses("metric_list", "[{metric: perplexity}]", {"metric_list", "perplexity", "multiple_choice"}));
  EXPECT_TRUE(refuses("metric_list", "acc", {"metric_list", "\"acc\""}));
  EXPECT_TRUE(refuses("filter_list", "[{name: x, filter: [{function: custom}]}]", {"filter_list", "custom"}));
  EXPECT_TRUE(
      refuses("filter_list", "[{name: x, filter: [{function: lowercase}]}]", {"filter_list", "take_first"}));
  EXPECT_TRUE(refuses("fewshot_config", "{sampler: balanced}", {"fewshot_config", "balanced"}));
  EXPECT_TRUE(refuses("fewshot_config", "{fewshot_indices: [1]}", {"fewshot_config", "fewshot_indices"}));
  EXPECT_TRUE(refuses("generation_kwargs", "{beams: 3}", {"generation_kwargs", "beams"}));
  EXPECT_TRUE(refuses("dataset_kwargs", "{field: x}", {"dataset_kwargs", "field"}));
  EXPECT_TRUE(refuses("num_fewshot", "many", {"num_fewshot", "\"many\""}));
  EXPECT_TRUE(refuses("num_fewshot", "-1", {"num_fewshot", 0, -1}));
  for (const char* value : {".inf", "-.inf", ".nan"})
    EXPECT_TRUE(refuses("num_fewshot", value, {"num_fewshot", value})) << value;
  EXPECT_TRUE(refuses("repeats", "3", {"repeats", 1, 3}));
  const std::string generates = "generate_until\nrepeats: ";
  EXPECT_NO_THROW(reads("output_type", generates + "4096"));
  EXPECT_TRUE(refuses("output_type", generates + "4097", {"repeats", 4096, 4097}));
  EXPECT_TRUE(refuses("generation_kwargs", "{max_gen_toks: 1.0e+300}", {"max_gen_toks", "1e+300"}));
  EXPECT_TRUE(refuses("generation_kwargs", "{top_k: 2.5}", {"top_k", "2.5"}));
  EXPECT_TRUE(refuses("test_split", "", {"test_split", "validation_split"}));
  EXPECT_TRUE(refuses("doc_to_choice", "", {"doc_to_choice", "multiple_choice"}));
  EXPECT_TRUE(names(error_of([&] { reads("include", "nothing.yaml"); }), {folder.path() + "/nothing.yaml"}));
  EXPECT_TRUE(refuses("include", "t.yaml", {}));
}

// A Python file next to the YAML that is not from the harness may have any meaning.
TEST(TaskConfig, KnowsOnlyTheHarnessFunctions) {
  const TaskFolder folder;
  const std::string task = with("process_docs", "!function utils.process_docs\n") + "task_alias: x\n";
  std::string hellaswag = task;
  hellaswag.replace(hellaswag.find("task: t\n"), 8, "task: hellaswag\n");
  const std::string path = folder.write("h.yaml", hellaswag);
  EXPECT_EQ(read_task_config(TaskFile(path)).process_docs, "utils.process_docs");
  folder.write("utils.py", "def process_docs(dataset): return dataset\n");
  EXPECT_TRUE(refused([&] { read_task_config(TaskFile(path)); }, path,
                      {"process_docs", folder.path() + "/utils.py"}));
}

TEST(TaskSet, FindsWhatGroupsName) {
  const TaskFolder folder;
  folder.write("a/one.yaml", with("task", "one") + "tag: both\n");
  folder.write("a/two.yaml", with("task", "two") + "tag: [both, other]\nnum_fewshot: 3\n");
  folder.write("broken.yaml", "task: [");
  const std::string group =
      folder.write("g.yaml",
                   "group: g\nnum_fewshot: 2\ntask: [both, {task: one, num_fewshot: 4}, "
                   "{group: inner, task: two}]\n");
  const TaskSet set = read_task_set({group});
  ASSERT_EQ(set.tasks.size(), 2u);
  EXPECT_EQ(set.tasks[0].num_fewshot, 2);
  EXPECT_EQ(set.tasks[1].num_fewshot, 2);
  ASSERT_EQ(set.groups.size(), 2u);
  EXPECT_EQ(set.groups[0].tasks, (std::vector<size_t>{0, 1}));
  EXPECT_EQ(set.groups[1].name, "g::inner");
  EXPECT_EQ(set.groups[1].depth, 1);
  const std::string lost = folder.write("lost.yaml", "group: lost\ntask: [thre]\n");
  EXPECT_TRUE(refused([&] { read_task_set({lost}); }, lost, {"task", "thre"}));
  const std::string circle = folder.write("circle.yaml", "group: circle\ntask: [circle]\n");
  EXPECT_TRUE(refused([&] { read_task_set({circle}); }, circle, {"circle"}));
}

std::string run_message(const std::string& task, const std::string& lines) {
  const TaskFolder folder;
  const std::string path = folder.write("t.yaml", task);
  folder.write("d.jsonl", lines);
  TestModel model("gpt2");
  return error_of([&] { run_task(read_task_config(TaskFile(path)), model.model, {}, model.pool); });
}

TEST(Documents, ErrorsNameTheLine) {
  const std::string good = "{\"q\": \"a\", \"choices\": [\"x\", \"y\"], \"gold\": 0}\n";
  const std::string task = with("task", "t");
  EXPECT_EQ(run_message(task, good + "\n" + good), "no error");
  EXPECT_TRUE(names(run_message(task, good + "{\"q\": 1"), {"d.jsonl, line 2"}));
  EXPECT_TRUE(names(run_message(task, good + "[1]"), {"d.jsonl, line 2"}));
  EXPECT_TRUE(names(run_message(task, ""), {"d.jsonl"}));
  EXPECT_TRUE(
      names(run_message(task, good + "{\"q\": \"b\", \"gold\": 1}"), {"d.jsonl, line 2", "doc_to_choice"}));
  EXPECT_TRUE(
      names(run_message(task, good + "{\"q\": \"b\", \"choices\": [], \"gold\": 1}"), {"d.jsonl, line 2"}));
  for (const std::string gold : {"2", "-1", "\"z\"", "-9223372036854775808"}) {
    const std::string line = R"({"q": "b", "choices": ["x", "y"], "gold": )" + gold + "}";
    EXPECT_TRUE(names(run_message(task, good + line), {"d.jsonl, line 2", "doc_to_target", 0, 1, gold}));
  }
  EXPECT_TRUE(
      names(run_message(with("doc_to_text", "\"{{nothing}}\""), good), {"d.jsonl, line 1", "nothing"}));
  EXPECT_TRUE(names(run_message(with("doc_to_text", "\"{% for i in range(999999999) %}{% endfor %}\""), good),
                    {"d.jsonl, line 1", 100000}));
  EXPECT_TRUE(
      names(run_message(with("doc_to_choice", "\"{{q}}\""), good), {"d.jsonl, line 1", "doc_to_choice"}));
  EXPECT_TRUE(names(run_message(with("num_fewshot", "5"), good + good), {"d.jsonl, line 1", 5, 2}));
  EXPECT_TRUE(names(run_message(with("metric_list", "[{metric: f1}]"),
                                "{\"q\": \"a\", \"choices\": [\"x\", \"y\", \"z\"], \"gold\": 2}\n"),
                    {"f1", 0, 1, 2}));
  EXPECT_TRUE(names(run_message(with("dataset_path", "Some/set"), good), {"Some/set", "`data_dir`"}));
}

TEST(Documents, IntegersBeyond64BitsAreRefusedInAFileWithAMixedColumn) {
  const std::string big = "123456789012345678901";
  for (const std::string& lines :
       {R"({"a": )" + big + "}\n" + R"({"a": "x"})", R"({"a": [1, "x"], "b": )" + big + "}",
        R"({"a": {"p": )" + big + "}}\n" + R"({"a": {"q": 1}})"}) {
    const TaskFolder folder;
    const std::string path = folder.write("d.jsonl", lines);
    EXPECT_TRUE(refused([&] { read_documents({path}, TextTypes::datetimes); }, path, {"\"a\"", 64})) << lines;
  }
}

TEST(Documents, OfOtherDataSetsLieInTheDataFolder) {
  const TaskFolder folder;
  const std::string path = folder.write("t.yaml", with("dataset_path", "Some/set") + "dataset_name: easy\n");
  const std::string line = "{\"q\": \"a\", \"choices\": [\"x\", \"y\"], \"gold\": 0}\n";
  const TaskConfig config = read_task_config(TaskFile(path));
  EXPECT_TRUE(names(error_of([&] { TaskData(config, folder.path()).split("test"); }),
                    {folder.path() + "/set/easy/test.jsonl"}));
  folder.write("set/easy/test.jsonl", line);
  EXPECT_EQ(TaskData(config, folder.path()).split("test").size(), 1u);
  folder.write("t/test.jsonl", line + line);
  EXPECT_EQ(TaskData(config, folder.path()).split("test").size(), 2u);
}

TEST(CoreBundle, ErrorsNameWhatIsMissing) {
  const TaskFolder folder;
  const auto reads = [&](const std::string& yaml, const std::string& csv) {
    folder.write("eval_meta_data.csv", csv);
    read_core_bundle(folder.write("core.yaml", yaml));
  };
  const std::string core = folder.path() + "/core.yaml", meta = folder.path() + "/eval_meta_data.csv";
  const std::string csv = "Eval Task,Random baseline\nquiz,25\n";
  const std::string task =
      "icl_tasks:\n- {label: quiz, dataset_uri: a.jsonl, num_fewshot: [0], icl_task_type: ";
  EXPECT_NO_THROW(reads(task + "schema}", csv));
  EXPECT_TRUE(refused([&] { reads(task + "other}", csv); }, core, {"icl_task_type", "other"}));
  EXPECT_TRUE(refused([&] { reads(task + "schema}", "Eval Task,Baseline\n"); }, meta + ", line 1"));
  EXPECT_TRUE(refused([&] { reads(task + "schema}", "Eval Task,Random baseline\nb,25\n"); }, core,
                      {"quiz", "eval_meta_data.csv"}));
  EXPECT_TRUE(refused([&] { reads("icl_tasks: [{label: quiz}]", csv); }, core, {"icl_task_type"}));
  EXPECT_TRUE(refused([&] { reads("icl_tasks: []", csv); }, core, {"icl_tasks"}));
}

}  // namespace
}  // namespace gpt
