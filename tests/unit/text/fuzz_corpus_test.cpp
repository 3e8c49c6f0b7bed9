#include "support/fuzz_corpus.h"

#include "../fuzz/text_targets.h"

namespace gpt {
namespace {

using test::try_corpus;

TEST(FuzzCorpus, TokenizerJson) {
  try_corpus("tokenizer_json", fuzz_tokenizer_json);
}
TEST(FuzzCorpus, SpmModel) {
  try_corpus("spm_model", fuzz_spm_model);
}
TEST(FuzzCorpus, Tiktoken) {
  try_corpus("tiktoken", fuzz_tiktoken);
}
TEST(FuzzCorpus, CVocab) {
  try_corpus("c_vocab", fuzz_c_vocab);
}
TEST(FuzzCorpus, Jinja) {
  try_corpus("jinja", fuzz_jinja);
}
TEST(FuzzCorpus, VocabData) {
  try_corpus("vocab_data", fuzz_vocab_data);
}

}  // namespace
}  // namespace gpt
