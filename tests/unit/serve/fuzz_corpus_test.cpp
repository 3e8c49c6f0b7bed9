#include "support/fuzz_corpus.h"

#include "../fuzz/serve_targets.h"

namespace gpt {
namespace {

using test::try_corpus;

TEST(FuzzCorpus, Request) {
  try_corpus("request", fuzz_request);
}
TEST(FuzzCorpus, ToolCalls) {
  try_corpus("tool_calls", fuzz_tool_calls);
}
TEST(FuzzCorpus, Events) {
  try_corpus("events", fuzz_events);
}

}  // namespace
}  // namespace gpt
