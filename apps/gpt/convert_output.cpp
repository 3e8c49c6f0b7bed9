#include "convert_output.h"

#include <filesystem>

#include "base/error.h"
#include "base/file.h"
#include "convert/adapter_files.h"
#include "convert/gguf_vocab.h"
#include "convert/hf_tokenizer.h"
#include "io/gguf.h"
#include "io/llama2c.h"
#include "io/llmc.h"
#include "options.h"
#include "output.h"
#include "text/c_vocab.h"
#include "text/chat_formats.h"

namespace gpt {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxTokenizerBytes = uint64_t{1} << 28;

// The files of a tokenizer in the layouts of transformers.
constexpr const char* kTokenizerFiles[] = {
    "tokenizer.json",    "tokenizer_config.json",   "vocab.json",         "merges.txt", "tokenizer.model",
    "added_tokens.json", "special_tokens_map.json", "chat_template.jinja"};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}

// Returns the tokenizer files that a folder contains, as paths relative to the folder.
std::vector<std::string> tokenizer_files(const fs::path& folder) {
  std::vector<std::string> names;
  for (const char* name : kTokenizerFiles) {
    if (is_file(folder / name)) names.emplace_back(name);
  }
  std::error_code error;
  for (fs::directory_iterator it(folder / kTemplateFolder, error); !error && it != fs::directory_iterator();
       it.increment(error)) {
    if (it->path().extension() == ".jinja")
      names.push_back(it->path().lexically_relative(folder).generic_string());
  }
  return names;
}

bool is_there(const fs::path& path) {
  std::error_code error;
  return fs::symlink_status(path, error).type() != fs::file_type::not_found;
}

std::string parent_of(const std::string& path) {
  const std::string parent = fs::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

// Returns a path that puts a file into its own folder: x/x.bin for x.bin.
std::string own_place(const std::string& file) {
  const fs::path path = file;
  return (fs::path(parent_of(file)) / path.stem() / path.filename()).string();
}

// Runs are never overwritten, because their training state cannot be recreated by a conversion.
void refuse_run_folder(const std::string& out) {
  const fs::path path = resolved_path(out);
  const bool checkpoint = is_there(path / "train_state.json") || is_there(path / "train_state.safetensors");
  const bool run = is_there(path / "last") || is_there(path / "metrics.jsonl");
  const bool part = (path.filename() == "last" || path.filename() == "best") &&
                    is_there(path.parent_path() / "metrics.jsonl");
  if (checkpoint || run || part) fail("{} is a run of gpt train; choose a different output", out);
}

bool is_of_format(const std::string& path, const std::string& format) {
  try {
    if (format == "gguf") return GgufFile(path).find("") == nullptr;
    if (format == "llmc") return LlmcFile(path).header().num_layers > 0;
    return Llama2cFile(path).header().n_layers > 0;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

ConvertOutput::ConvertOutput(const ConvertArguments& arguments, const LoadedModel& loaded,
                             const Conversion& conversion)
    : a_(arguments), loaded_(loaded), conversion_(conversion) {
  std::vector<std::string> inputs = loaded.paths();
  for (const std::string& name : tokenizer_files(loaded.folder()))
    inputs.push_back((fs::path(loaded.folder()) / name).string());
  inputs.insert(inputs.end(), a_.average.begin(), a_.average.end());
  refuse_overlap(a_.out, inputs);
  refuse_run_folder(a_.out);
  if (is_there(a_.out) && !a_.force && !a_.dry_run)
    fail("{} already exists; choose a different output or add --force", a_.out);
  if (a_.to != "gguf") gather_tokenizer();
  if (a_.to != "hf") {
    check_file();
    (is_there(a_.out) ? changes_.replaced : changes_.created).push_back(fs::path(a_.out).filename().string());
    if (a_.to != "gguf") check_beside(parent_of(a_.out));
    return;
  }
  std::vector<std::string> names = conversion.file_names();
  names.insert(names.end(), tokenizer_names_.begin(), tokenizer_names_.end());
  changes_ = folder_changes(a_.out, names);
}

// Collects the tokenizer files of the model, or converts the tokenizer in a GGUF or .bin file to a
// tokenizer.json.
void ConvertOutput::gather_tokenizer() {
  const auto add = [&](const std::string& name, std::string content) {
    files_[name] = std::move(content);
    tokenizer_names_.push_back(name);
  };
  if (loaded_.gguf() == nullptr) {
    for (const std::string& name : tokenizer_files(loaded_.folder()))
      add(name, read_file((fs::path(loaded_.folder()) / name).string(), kMaxTokenizerBytes));
  }
  if (files_.empty()) {
    if (const auto tokenizer = chosen_tokenizer(loaded_, "")) add("tokenizer.json", tokenizer->to_json());
    const ChatTemplates own =
        loaded_.gguf() != nullptr ? gguf_chat_templates(*loaded_.gguf()) : ChatTemplates();
    for (const auto& [name, jinja] : chat_template_files(own))
      add(name, jinja);
  }
  const std::string merged = chat_template_of(a_.adapters);
  if (!merged.empty() && !files_.contains("chat_template.jinja") && a_.to == "hf") {
    for (const auto& [name, jinja] : chat_template_files(read_chat_templates(parent_of(merged))))
      add(name, jinja);
  }
  if (a_.to == "hf") {
    gather_tokenizer_config();
  } else {
    gather_bin_tokenizer();
  }
}

// Adds the tokenizer_config.json that transformers needs, if the model has none. A tokenizer that this
// program cannot read is copied unchanged.
void ConvertOutput::gather_tokenizer_config() {
  constexpr const char* kName = "tokenizer_config.json";
  const auto json = files_.find("tokenizer.json");
  if (json == files_.end() || files_.contains(kName)) return;
  try {
    const auto tokenizer = parse_tokenizer(json->second, json->first);
    std::vector<std::pair<std::string, std::string>> known;
    if (loaded_.gguf() == nullptr) known = read_special_tokens(loaded_.folder());
    files_[kName] = hf_tokenizer_config(*tokenizer, loaded_.model().config, known);
    tokenizer_names_.emplace_back(kName);
  } catch (const Error& error) {
    write_note(fmt::format("note: no {}: {}\n", kName, error.what()));
  }
}

// Adds the tokenizer file of llm.c or llama2.c, if that format can represent the tokenizer.
void ConvertOutput::gather_bin_tokenizer() {
  const bool llmc = a_.to == "llmc";
  const std::string name = llmc ? kLlmcTokenizerFile : kLlama2cTokenizerFile;
  try {
    const auto tokenizer = chosen_tokenizer(loaded_, "");
    if (tokenizer == nullptr) return;
    const int64_t vocab_size = loaded_.model().config.vocab_size;
    files_[name] = llmc ? llmc_tokenizer(*tokenizer, vocab_size) : llama2c_tokenizer(*tokenizer, vocab_size);
    tokenizer_names_.push_back(name);
  } catch (const Error& error) {
    write_note(fmt::format("note: no {}: {}\n", name, error.what()));
  }
}

void ConvertOutput::check_file() const {
  if (!is_there(a_.out)) return;
  std::error_code error;
  if (fs::is_directory(a_.out, error)) fail("{} is a folder; --to {} writes a file", a_.out, a_.to);
  if (!is_of_format(a_.out, a_.to))
    fail("{} is not a {} model and is not replaced; move it, or choose a different output", a_.out, a_.to);
}

// Programs look for a tokenizer in the folder of a model file, so they would use another model's tokenizer
// files in that folder. Identical files are kept; different files are an error.
void ConvertOutput::check_beside(const std::string& folder) {
  for (const char* name : kTokenizerFiles) {
    if (files_.count(name) == 0 && is_there(fs::path(folder) / name))
      fail("{}/{} is the tokenizer of a different model; write the model to a separate folder, such as {}",
           folder, name, own_place(a_.out));
  }
  for (const auto& [name, content] : files_) {
    const fs::path file = fs::path(folder) / name;
    if (!is_there(file)) {
      changes_.created.push_back(name);
    } else if (is_file(file) && read_file(file.string(), kMaxTokenizerBytes) == content) {
      changes_.kept.push_back(name);
    } else {
      fail("{} differs from the tokenizer of this model; write the model to a separate folder, such as {}",
           file.string(), own_place(a_.out));
    }
  }
}

void ConvertOutput::write() const {
  if (a_.to == "hf") {
    DirectoryWriter writer(a_.out);
    conversion_.write(writer.path());
    write_tokenizer(writer.path());
    return writer.commit();
  }
  const std::string folder = parent_of(a_.out);
  make_directories(folder);
  conversion_.write(a_.out);
  write_tokenizer(folder);
}

void ConvertOutput::write_tokenizer(const std::string& folder) const {
  for (const auto& [name, content] : files_) {
    const fs::path file = fs::path(folder) / name;
    make_directories(file.parent_path().string());
    write_file_atomic(file.string(), content);
  }
}

std::string ConvertOutput::describe() const {
  std::string text;
  const auto list = [&](const char* what, const std::vector<std::string>& names) {
    for (const std::string& name : names)
      text += fmt::format("{:<8} {}\n", what, name);
  };
  list("write", changes_.created);
  list("replace", changes_.replaced);
  list("remove", changes_.removed);
  list("keep", changes_.kept);
  return text;
}

}  // namespace gpt
