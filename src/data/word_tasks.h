#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/pack_share.h"
#include "text/word_counts.h"

namespace gpt {

// Options that all tasks share when they count words for the same tokenizer.
struct WordTaskOptions {
  std::vector<std::string> files;  // input files: see find_text_files
  std::string field = "text";      // name of the JSON Lines field that holds the text
  std::string pattern;             // pattern that splits texts into words: see TrainPattern
  // Options of the tokenizer that is trained on the words.
  int64_t vocab_size = 0;
  std::vector<std::string> special_tokens;
};

// Writes the word counts of a task's share of the text (SharedBlocks) to task_folder(out, task)/words. The
// file begins with a line of JSON, which contains the inputs. The words follow. Each word is stored as its
// count (8 bytes), its length (4 bytes) and its bytes. The file ends with the XXH3 of all preceding bytes. It
// is written atomically. Throws Error if the counter has dropped words, because such counts cannot be added.
//
// `inputs` is the return value of word_inputs, called before the words were counted. Throws Error if the text
// has changed since that call.
void write_word_counts(const std::string& out, const PackTask& task, const WordTaskOptions& options,
                       const std::string& inputs, const WordCounter& counter);
std::string word_inputs(const WordTaskOptions& options);

// Returns true if a task has already written the words of the current text. Throws Error if this task or
// another task counted a different text or used different options, or if other tasks have a different task
// count.
bool has_word_counts(const std::string& out, const PackTask& task, const WordTaskOptions& options);

// Returns the names of the tasks below `out` that have not written their word counts yet, such as "2/3".
std::vector<std::string> missing_word_tasks(const std::string& out);

// Returns the options with which the tasks below `out` counted words. Throws Error naming the task if its
// word counts are missing, damaged or made from different inputs. Throws Error naming the text if it has
// changed since the tasks counted its words.
WordTaskOptions plan_word_merge(const std::string& out);
// Adds the word counts of all tasks to the counter.
void add_word_counts(const std::string& out, WordCounter& counter);
// Removes the files that tasks wrote below `out`. Keeps all other files.
void remove_word_counts(const std::string& out);

}  // namespace gpt
