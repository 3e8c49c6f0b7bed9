// Tests files with labeled examples: valid formats, and errors for invalid ones.

#include "finetune/examples.h"

#include <gtest/gtest.h>

#include <fstream>

#include "finetune/labels.h"
#include "support/compress.h"
#include "support/names.h"
#include "support/temp_dir.h"

namespace gpt::test {
namespace {

class Examples : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(dir_.file(name), std::ios::binary) << text;
    return dir_.file(name);
  }
  ExampleSet read(const std::string& name, const std::string& text, TaskKind kind = TaskKind::classify,
                  bool skip_bad = false) const {
    return read_examples({write(name, text)}, kind, skip_bad);
  }
  TempDir dir_;
};

using Texts = std::vector<std::string>;

TEST_F(Examples, JsonLinesOfEveryTask) {
  const ExampleSet texts = read("a.jsonl",
                                "{\"text\": \"a b\", \"label\": \"x\", \"more\": 1}\n\n"
                                "{\"label\": 3, \"text\": \"\"}\n{\"text\":\"c\",\"label\":true}");
  ASSERT_EQ(texts.examples.size(), 3u);
  EXPECT_EQ(texts.examples[0].texts, Texts{"a b"});
  EXPECT_EQ(texts.examples[0].label, "x");
  EXPECT_EQ(texts.examples[1].label, "3");
  EXPECT_EQ(texts.examples[2].label, "true");
  EXPECT_TRUE(texts.examples[1].place.ends_with("a.jsonl:3")) << texts.examples[1].place;
  const ExampleSet big = read("e.jsonl",
                              "{\"text\": \"a\", \"label\": 12345678901234567890123}\n"
                              "{\"text\": \"b\", \"label\": 12345678901234567890124}");
  EXPECT_EQ(big.examples[0].label, "12345678901234567890123");
  EXPECT_EQ(big.examples[1].label, "12345678901234567890124");
  const ExampleSet pairs =
      read("b.jsonl", R"({"premise": "p", "hypothesis": "h", "label": "no"})", TaskKind::entail);
  EXPECT_EQ(pairs.examples[0].texts, (Texts{"p", "h"}));
  EXPECT_EQ(
      read("c.jsonl", R"({"text1": "p", "text2": "q", "label": 2.5})", TaskKind::similar).examples[0].label,
      "2.5");
  const ExampleSet choices =
      read("d.jsonl", R"({"context": "c", "choices": ["x", "y", "z"], "label": 2})", TaskKind::choose);
  EXPECT_EQ(choices.examples[0].texts, (Texts{"c", "x", "y", "z"}));
}

TEST_F(Examples, TablesAreQuotedAsRfc4180Says) {
  const ExampleSet set =
      read("a.csv", "\xef\xbb\xbftext,id,label\r\n\"a, \"\"b\"\"\nc\",1,x\r\nplain \"q\",2,y\r\n");
  ASSERT_EQ(set.examples.size(), 2u);
  EXPECT_EQ(set.examples[0].texts[0], "a, \"b\"\nc");
  EXPECT_EQ(set.examples[1].texts[0], "plain \"q\"");
  EXPECT_EQ(set.examples[1].label, "y");
  EXPECT_TRUE(set.examples[1].place.ends_with("a.csv:4"));
  const ExampleSet tabs = read("b.tsv", "label\ttext1\ttext2\n1\ta,b\t\"c\td\"\n", TaskKind::similar);
  EXPECT_EQ(tabs.examples[0].texts, (Texts{"a,b", "c\td"}));
  const ExampleSet choose =
      read("c.csv", "context,choices,label\nc,\"[\"\"x\"\", \"\"y\"\"]\",1\n", TaskKind::choose);
  EXPECT_EQ(choose.examples[0].texts, (Texts{"c", "x", "y"}));
}

TEST_F(Examples, LinesEndAsInPython) {
  const ExampleSet rows = read("a.csv", "text,label\rfoo,whole\r\"b\rr\",mixed\r\nc,x\r\r\"d\",y");
  Texts found;
  for (const Example& e : rows.examples)
    found.push_back(e.texts[0] + "=" + e.label.value());
  EXPECT_EQ(found, (Texts{"foo=whole", "b\rr=mixed", "c=x", "d=y"}));
  EXPECT_TRUE(rows.examples[3].place.ends_with("a.csv:7")) << rows.examples[3].place;
  EXPECT_EQ(read("a.tsv", "text\tlabel\ra\tx\rb\ty\r").examples.size(), 2u);
  const ExampleSet skipped = read("a.csv", "text,label\r\"a\"b,x\rc,y\r", TaskKind::classify, true);
  EXPECT_EQ(skipped.skipped, 1);
  EXPECT_EQ(skipped.examples.size(), 1u);
  const std::string line = R"({"text": "a", "label": "x"})";
  const ExampleSet lines = read("a.jsonl", line + "\r" + line + "\r\n" + line + "\n\r" + line);
  ASSERT_EQ(lines.examples.size(), 4u);
  EXPECT_TRUE(lines.examples[3].place.ends_with("a.jsonl:5")) << lines.examples[3].place;
}

TEST_F(Examples, CompressedFilesAreRead) {
  write("a.csv.gz", gzip("text,label\na,1\nb,2\n"));
  EXPECT_EQ(read_examples({dir_.file("a.csv.gz")}, TaskKind::classify, false).examples.size(), 2u);
}

TEST_F(Examples, ErrorsNameFileAndLine) {
  const auto refuses = [&](const std::string& text, const std::string& place,
                           std::initializer_list<Fact> facts = {}, TaskKind kind = TaskKind::classify) {
    const std::string name = place.substr(0, place.find(':'));
    return refused([&] { read(name, text, kind); }, dir_.file(place), facts);
  };
  const std::string good = "{\"text\": \"a\", \"label\": 1}\n", tekst = "{\"tekst\": \"b\", \"label\": 1}\n";
  EXPECT_TRUE(refuses(good + tekst, "a.jsonl:2", {"text", "classify"}));
  EXPECT_TRUE(refuses("{\"text\": \"b\"}\n", "a.jsonl:1", {"label"}));
  EXPECT_TRUE(refuses("{\"text\": 3, \"label\": 1}\n", "a.jsonl:1", {"text"}));
  EXPECT_TRUE(refuses("{\"text\": \"b\", \"label\": [1]}\n", "a.jsonl:1", {"label"}));
  EXPECT_TRUE(refuses("[1]\n", "a.jsonl:1", {"JSON"}));
  EXPECT_TRUE(refuses("{\"text\": \"a\", \"label\": 1\n", "a.jsonl:1"));
  EXPECT_TRUE(refuses(std::string(100, '[') + "\n", "a.jsonl:1"));
  EXPECT_TRUE(refuses("{\"text\": \"\xff\", \"label\": 1}\n", "a.jsonl:1", {"UTF-8"}));
  EXPECT_TRUE(refuses("text,lable\na,1\n", "a.csv:1", {"\"label\"", "\"text\"", "\"lable\""}));
  EXPECT_TRUE(refuses("text;label\na;1\n", "a.csv:1", {"\"text;label\"", ".csv", ".tsv"}));
  EXPECT_TRUE(refuses("text,text\na,1\n", "a.csv:1", {"\"text\""}));
  EXPECT_TRUE(refuses("", "a.csv"));
  EXPECT_TRUE(refuses("text,label\na,1\nb\n", "a.csv:3", {2, 1}));
  EXPECT_TRUE(refuses("text,label\n\"a\"b,1\n", "a.csv:2"));
  EXPECT_TRUE(refuses("text,label\nx,1\n\"a,1\n\n", "a.csv:3", {3}));
  EXPECT_TRUE(refuses("text,label\n", "a.csv", {}));
  const TaskKind choose = TaskKind::choose;
  EXPECT_TRUE(refuses(R"({"context": "c", "choices": ["x", "y"], "label": 2})", "a.jsonl:1",
                      {"label", 0, 1, 2}, choose));
  EXPECT_TRUE(refuses(R"({"context": "c", "choices": ["x"], "label": 0})", "a.jsonl:1",
                      {"choices", 2, 256, 1}, choose));
  EXPECT_TRUE(
      refuses("{\"context\": \"c\", \"choices\": [\"x\", \"y\"], \"label\": 1}\n"
              "{\"context\": \"c\", \"choices\": [\"x\", \"y\", \"z\"], \"label\": 1}\n",
              "a.jsonl:2", {2, "a.jsonl:1", 3}, choose));
}

TEST_F(Examples, BadOnesAreCountedWhereThatIsWanted) {
  const ExampleSet set = read("a.jsonl",
                              "{\"text\": \"a\", \"label\": 1}\nnonsense\n{\"text\": \"b\"}\n"
                              "{\"text\": \"c\", \"label\": 2}\n",
                              TaskKind::classify, true);
  EXPECT_EQ(set.examples.size(), 2u);
  EXPECT_EQ(set.skipped, 2);
  EXPECT_TRUE(names(set.first_problem, {dir_.file("a.jsonl:2")}));
  const ExampleSet table = read("a.csv", "text,label\na,1\n\"b\"x,1\nc\nd,2\n", TaskKind::classify, true);
  EXPECT_EQ(table.examples.size(), 2u);
  EXPECT_EQ(table.skipped, 2);
  EXPECT_THROW(read("b.jsonl", "nonsense\n", TaskKind::classify, true), Error) << "nothing is left";
  EXPECT_EQ(read("a.csv", "text,label\na,1\n\"b,2", TaskKind::classify, true).skipped, 1);
  // Problems of the file itself are errors even if bad examples are skipped.
  const auto skips = [&](const std::string& text) { read("a.csv", text, TaskKind::classify, true); };
  EXPECT_TRUE(refused([&] { skips("text,label\na,1\n\"b,2\nc,3\nd,4\n"); }, dir_.file("a.csv:3")));
  EXPECT_TRUE(refused([&] { skips("text,label\n\"b,2\nc,3\n\"d\",4\ne,5\n"); }, dir_.file("a.csv:4"), {2}));
  write("c.csv.gz", gzip("text,label\na,1\n").substr(0, 24));
  EXPECT_THROW(read_examples({dir_.file("c.csv.gz")}, TaskKind::classify, true), Error);
}

TEST_F(Examples, LabelsAreSortedAndKnown) {
  ExampleSet set = read("a.jsonl",
                        "{\"text\": \"a\", \"label\": 10}\n{\"text\": \"b\", \"label\": 9}\n"
                        "{\"text\": \"c\", \"label\": 10}\n");
  const Labels labels = collect_labels(set.examples, TaskKind::classify);
  EXPECT_FALSE(labels.numbers);
  EXPECT_EQ(labels.names, (Texts{"9", "10"})) << "as numbers";
  EXPECT_EQ(label_values(set, TaskKind::classify, labels, false), (std::vector<float>{1, 0, 1}));
  ExampleSet other =
      read("b.jsonl", "{\"text\": \"a\", \"label\": 9}\n{\"text\": \"b\", \"label\": \"nine\"}\n");
  EXPECT_TRUE(refused([&] { label_values(other, TaskKind::classify, labels, false); }, dir_.file("b.jsonl:2"),
                      {"\"nine\""}));
  other = read_examples({dir_.file("b.jsonl")}, TaskKind::classify, false);
  EXPECT_EQ(label_values(other, TaskKind::classify, labels, true), std::vector<float>{0});
  EXPECT_EQ(other.skipped, 1);
  const ExampleSet numbers =
      read("c.jsonl", R"({"text1": "a", "text2": "b", "label": "2.5"})", TaskKind::similar);
  EXPECT_TRUE(collect_labels(numbers.examples, TaskKind::similar).numbers);
  const ExampleSet one = read("d.jsonl", R"({"text": "a", "label": "2.5"})");
  EXPECT_THROW(collect_labels(one.examples, TaskKind::classify), Error);
}

}  // namespace
}  // namespace gpt::test
