// What is read, and what is refused by name: YAML, tasks, groups, documents.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tasks/yaml.h"
#include "unit/tasks/task_fixture.h"

namespace gpt {
namespace {

using nlohmann::ordered_json;
using testing::HasSubstr;

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
  const auto refused = [](const std::string& text) { return error_of([&] { parse_yaml(text, "t"); }); };
  EXPECT_THAT(refused("a: 1\na: 2"), HasSubstr("t, line 2"));
  EXPECT_THAT(refused("a: 1\nb: !!python/object:os.system x"), HasSubstr("t, line 2"));
  EXPECT_THAT(refused("a: [1,\nb: }"), HasSubstr("t, line 2"));
  EXPECT_THAT(refused("a: *nobody"), HasSubstr("t, line 1"));
  EXPECT_THAT(refused("a: &x [*x]"), HasSubstr("alias"));
  EXPECT_THAT(refused("[a]: 1"), HasSubstr("key"));
  EXPECT_THAT(refused("a: \xff"), HasSubstr("t"));
  EXPECT_THAT(refused("a: 1\n---\nb: 2"), HasSubstr("several"));
}

TEST(Yaml, BoundsWhatAFileCanAskFor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string before = "*a" + std::to_string(i - 1);
    bomb += fmt::format("a{0}: &a{0} [{1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}, {1}]\n", i, before);
  }
  EXPECT_THAT(error_of([&] { parse_yaml(bomb, "bomb"); }), HasSubstr("values"));
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
  EXPECT_THAT(error_of([] { parse_yaml(std::string(5 << 20, 'a'), "long"); }), HasSubstr("bytes"));
  std::string copies = "a: &a " + std::string(1 << 20, 'x') + "\nb: [";
  for (int i = 0; i < 100; ++i)
    copies += "*a, ";
  EXPECT_THAT(error_of([&] { parse_yaml(copies + "]", "copies"); }), HasSubstr("bytes"));
}

// A task of which one key is another.
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
  const auto refused = [&](const std::string& key, const std::string& value) {
    const std::string path = folder.write("t.yaml", with(key, value));
    return error_of([&] { read_task_config(TaskFile(path)); });
  };
  EXPECT_EQ(refused("task", "t"), "no error");
  EXPECT_THAT(refused("task", ""), HasSubstr("task"));
  EXPECT_THAT(refused("doc_to_txt", "x"), HasSubstr("did you mean doc_to_text"));
  EXPECT_THAT(refused("output_type", "generate"), HasSubstr("line 6: output_type"));
  EXPECT_THAT(refused("process_docs", "!function utils.process_docs"), HasSubstr("utils.process_docs"));
  EXPECT_THAT(refused("doc_to_text", "!function os.system"), HasSubstr("os.system"));
  EXPECT_THAT(refused("process_results", "!function utils.f"), HasSubstr("process_results"));
  EXPECT_THAT(refused("class", "x"), HasSubstr("Python"));
  EXPECT_THAT(refused("doc_to_image", "x"), HasSubstr("images"));
  EXPECT_THAT(refused("use_prompt", "x"), HasSubstr("promptsource"));
  EXPECT_THAT(refused("unsafe_code", "true"), HasSubstr("code is not run"));
  EXPECT_THAT(refused("metric_list", "[{metric: bleu}]"), HasSubstr("one of acc, acc_norm, "));
  EXPECT_THAT(refused("metric_list", "[{metric: acc, aggregation: f1}]"), HasSubstr("f1"));
  EXPECT_THAT(refused("metric_list", "[{metric: perplexity}]"), HasSubstr("multiple_choice"));
  EXPECT_THAT(refused("metric_list", "acc"), HasSubstr("list"));
  EXPECT_THAT(refused("filter_list", "[{name: x, filter: [{function: custom}]}]"), HasSubstr("custom"));
  EXPECT_THAT(refused("filter_list", "[{name: x, filter: [{function: lowercase}]}]"),
              HasSubstr("take_first"));
  EXPECT_THAT(refused("fewshot_config", "{sampler: balanced}"), HasSubstr("balanced"));
  EXPECT_THAT(refused("fewshot_config", "{fewshot_indices: [1]}"), HasSubstr("fewshot_indices"));
  EXPECT_THAT(refused("generation_kwargs", "{beams: 3}"), HasSubstr("beams"));
  EXPECT_THAT(refused("dataset_kwargs", "{field: x}"), HasSubstr("field"));
  EXPECT_THAT(refused("num_fewshot", "many"), HasSubstr("whole number"));
  EXPECT_THAT(refused("num_fewshot", "-1"), HasSubstr("num_fewshot"));
  EXPECT_THAT(refused("repeats", "3"), HasSubstr("repeats"));
  const std::string generates = "generate_until\nrepeats: ";
  EXPECT_EQ(refused("output_type", generates + "4096"), "no error");
  EXPECT_THAT(refused("output_type", generates + "4097"), HasSubstr("repeats"));
  EXPECT_THAT(refused("generation_kwargs", "{max_gen_toks: 1.0e+300}"), HasSubstr("max_gen_toks"));
  EXPECT_THAT(refused("generation_kwargs", "{top_k: 2.5}"), HasSubstr("top_k"));
  EXPECT_THAT(refused("test_split", ""), HasSubstr("validation_split"));
  EXPECT_THAT(refused("doc_to_choice", ""), HasSubstr("doc_to_choice"));
  EXPECT_THAT(refused("include", "nothing.yaml"), HasSubstr("nothing.yaml"));
  EXPECT_THAT(refused("include", "t.yaml"), HasSubstr("circle"));
}

// A Python file beside the YAML that is not the harness's may mean anything.
TEST(TaskConfig, KnowsOnlyTheHarnessFunctions) {
  const TaskFolder folder;
  const std::string task = with("process_docs", "!function utils.process_docs\n") + "task_alias: x\n";
  std::string hellaswag = task;
  hellaswag.replace(hellaswag.find("task: t\n"), 8, "task: hellaswag\n");
  const std::string path = folder.write("h.yaml", hellaswag);
  EXPECT_EQ(read_task_config(TaskFile(path)).process_docs, "utils.process_docs");
  folder.write("utils.py", "def process_docs(dataset): return dataset\n");
  EXPECT_THAT(error_of([&] { read_task_config(TaskFile(path)); }), HasSubstr("utils.py"));
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
  EXPECT_THAT(error_of([&] { read_task_set({lost}); }), HasSubstr("thre"));
  const std::string circle = folder.write("circle.yaml", "group: circle\ntask: [circle]\n");
  EXPECT_THAT(error_of([&] { read_task_set({circle}); }), HasSubstr("inside of itself"));
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
  EXPECT_EQ(run_message(with("task", "t"), good + "\n" + good), "no error");
  EXPECT_THAT(run_message(with("task", "t"), good + "{\"q\": 1"), HasSubstr("d.jsonl, line 2"));
  EXPECT_THAT(run_message(with("task", "t"), good + "[1]"), HasSubstr("line 2: expected an object"));
  EXPECT_THAT(run_message(with("task", "t"), ""), HasSubstr("found none"));
  EXPECT_THAT(run_message(with("task", "t"), good + "{\"q\": \"b\", \"gold\": 1}"), HasSubstr("line 2"));
  EXPECT_THAT(run_message(with("task", "t"), good + "{\"q\": \"b\", \"choices\": [], \"gold\": 1}"),
              HasSubstr("line 2"));
  for (const std::string gold : {"2", "-1", "\"z\"", "-9223372036854775808"}) {
    EXPECT_THAT(
        run_message(with("task", "t"), good + R"({"q": "b", "choices": ["x", "y"], "gold": )" + gold + "}"),
        HasSubstr(
            "d.jsonl, line 2: doc_to_target: expected one of the choices or its number, 0 to 1, found"));
  }
  EXPECT_THAT(run_message(with("doc_to_text", "\"{{nothing}}\""), good), HasSubstr("line 1"));
  EXPECT_THAT(run_message(with("doc_to_text", "\"{% for i in range(999999999) %}{% endfor %}\""), good),
              HasSubstr("line 1"));
  EXPECT_THAT(run_message(with("doc_to_choice", "\"{{q}}\""), good), HasSubstr("doc_to_choice"));
  EXPECT_THAT(run_message(with("num_fewshot", "5"), good + good), HasSubstr("examples"));
  EXPECT_THAT(run_message(with("metric_list", "[{metric: f1}]"),
                          "{\"q\": \"a\", \"choices\": [\"x\", \"y\", \"z\"], \"gold\": 2}\n"),
              HasSubstr("two choices"));
  EXPECT_THAT(run_message(with("dataset_path", "Some/set"), good), HasSubstr("--data-dir"));
}

TEST(Documents, OfOtherDataSetsLieInTheDataFolder) {
  const TaskFolder folder;
  const std::string path = folder.write("t.yaml", with("dataset_path", "Some/set") + "dataset_name: easy\n");
  const std::string line = "{\"q\": \"a\", \"choices\": [\"x\", \"y\"], \"gold\": 0}\n";
  const TaskConfig config = read_task_config(TaskFile(path));
  EXPECT_THAT(error_of([&] { TaskData(config, folder.path()).split("test"); }),
              HasSubstr("set/easy/test.jsonl"));
  folder.write("set/easy/test.jsonl", line);
  EXPECT_EQ(TaskData(config, folder.path()).split("test").size(), 1u);
  folder.write("t/test.jsonl", line + line);
  EXPECT_EQ(TaskData(config, folder.path()).split("test").size(), 2u);
}

TEST(CoreBundle, ErrorsNameWhatIsMissing) {
  const TaskFolder folder;
  const auto refused = [&](const std::string& yaml, const std::string& csv) {
    folder.write("eval_meta_data.csv", csv);
    const std::string path = folder.write("core.yaml", yaml);
    return error_of([&] { read_core_bundle(path); });
  };
  const std::string csv = "Eval Task,Random baseline\na,25\n";
  const std::string task = "icl_tasks:\n- {label: a, dataset_uri: a.jsonl, num_fewshot: [0], icl_task_type: ";
  EXPECT_EQ(refused(task + "schema}", csv), "no error");
  EXPECT_THAT(refused(task + "other}", csv), HasSubstr("other"));
  EXPECT_THAT(refused(task + "schema}", "Eval Task,Baseline\n"), HasSubstr("Random baseline"));
  EXPECT_THAT(refused(task + "schema}", "Eval Task,Random baseline\nb,25\n"), HasSubstr("of a"));
  EXPECT_THAT(refused("icl_tasks: [{label: a}]", csv), HasSubstr("icl_task_type"));
  EXPECT_THAT(refused("icl_tasks: []", csv), HasSubstr("list"));
}

}  // namespace
}  // namespace gpt
