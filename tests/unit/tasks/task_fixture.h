#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "base/file.h"
#include "base/json.h"
#include "infer/cached_model.h"
#include "model/model_files.h"
#include "support/error_of.h"
#include "support/temp_dir.h"
#include "tasks/core_bundle.h"
#include "tasks/run_tasks.h"

namespace gpt {

inline std::string task_data(const std::string& name) {
  return std::string(GPT_SOURCE_DIR) + "/tests/data/tasks/" + name;
}

using test::error_of;

// A temporary folder for the files of a test.
class TaskFolder {
 public:
  std::string write(const std::string& name, const std::string& content) const {
    const std::string path = folder_.file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    test::write_plain_file(path, content);
    return path;
  }
  const std::string& path() const { return folder_.path(); }

 private:
  test::TempDir folder_;
};

// A committed model that is ready for evaluation.
struct TestModel {
  explicit TestModel(const std::string& name, int slots = 4, int64_t step_rows = 128,
                     int64_t cache_tokens = 0, Communicator& processes = single_process())
      : pool(2),
        loaded(task_data(name)),
        tokenizer(load_tokenizer(task_data(name))),
        inference(loaded.model(), host_backend(pool, best_isa()),
                  {.slots = slots, .max_rows = step_rows, .cache_tokens = cache_tokens}),
        cached(inference, false),
        model(cached, *tokenizer, loaded.model().config, step_rows, nullptr, processes) {}

  ThreadPool pool;
  LoadedModel loaded;
  std::unique_ptr<Tokenizer> tokenizer;
  Inference inference;
  CachedModel cached;
  TaskModel model;
};

}  // namespace gpt
