#include "support/fuzz_corpus.h"

#include "../fuzz/grammar_targets.h"

namespace gpt {
namespace {

using test::try_corpus;

TEST(FuzzCorpus, Gbnf) {
  try_corpus("gbnf", fuzz_gbnf);
}
TEST(FuzzCorpus, Regex) {
  try_corpus("regex", fuzz_regex);
}
TEST(FuzzCorpus, JsonSchema) {
  try_corpus("json_schema", fuzz_json_schema);
}

}  // namespace
}  // namespace gpt
