#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/pack_share.h"
#include "text/word_counts.h"

namespace gpt {

// What tasks that count words for one tokenizer have in common.
struct WordTaskOptions {
  std::vector<std::string> files;  // see find_text_files
  std::string field = "text";      // of the text in JSON lines
  std::string pattern;             // that takes texts apart: TrainPattern
  // Of the tokenizer that will be made of the words.
  int64_t vocab_size = 0;
  std::vector<std::string> special_tokens;
};

// Writes the words that a task counted in its share of the text (SharedBlocks) to task_folder(out,
// task)/words: a line of JSON that says what they are of, for every word the count (8 bytes), the length (4
// bytes) and its bytes, and the XXH3 of all this. The file is whole or not there. Throws Error where words
// were forgotten, as such counts do not add up.
//
// inputs: what word_inputs said before the words were counted. Throws Error where the text has changed since.
void write_word_counts(const std::string& out, const PackTask& task, const WordTaskOptions& options,
                       const std::string& inputs, const WordCounter& counter);
std::string word_inputs(const WordTaskOptions& options);

// Whether a task wrote its words, of this text as it is now. Throws Error where it or
// another task did of something else, and where tasks are of another count.
bool has_word_counts(const std::string& out, const PackTask& task, const WordTaskOptions& options);

// Which tasks of those below `out` have not written their words, "2/3".
std::vector<std::string> missing_word_tasks(const std::string& out);

// What the tasks below `out` counted, of which there must be all. Throws Error naming tasks that are missing,
// damaged, or of something else than the others, and text that has changed since.
WordTaskOptions plan_word_merge(const std::string& out);
// Adds the words of all tasks, as if the counter had counted them.
void add_word_counts(const std::string& out, WordCounter& counter);
// Removes what tasks wrote below `out`; what somebody else put there stays.
void remove_word_counts(const std::string& out);

}  // namespace gpt
