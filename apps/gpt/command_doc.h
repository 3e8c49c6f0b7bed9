#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace gpt {

// The documentation of a command as a structure, which help texts, man pages and docs/cli.md are written
// from.
struct DocEntry {
  std::string label;     // "-o, --out DIR"
  std::string text;      // help without the default
  std::string fallback;  // default, or ""
};
struct DocSection {
  std::string title;
  std::vector<DocEntry> entries;
};
// A part of the footer of a command: prose, or lines that are kept as they are.
struct DocPart {
  std::string prose;               // a paragraph, or a title of `lines` that ends in a colon
  std::vector<std::string> lines;  // examples and listings
  bool is_examples() const { return prose == "Examples:"; }
};
struct CommandDoc {
  std::string name;     // "gpt data pack"
  std::string summary;  // a phrase without a capital letter at the start
  std::string usage;    // "gpt data pack [DATA ...] [options]"
  DocSection arguments;
  std::vector<DocSection> commands;  // by group
  std::vector<DocSection> options;   // by group
  std::vector<DocPart> footer;
  size_t option_count = 0;  // of --help-all
  bool is_short = false;    // true if options are left out
};

// Returns the documentation of a command with its common options, or with all options.
CommandDoc command_doc(const CLI::App& app, bool all);

// Returns the summary as a sentence without a full stop: "Train a model, or resume a run".
std::string capitalized(std::string text);

// Returns the man page and the section of docs/cli.md of a command.
std::string man_page(const CLI::App& app);
std::string markdown_of_commands(const CLI::App& root);
// Returns docs/config.md, the reference of config keys.
std::string markdown_of_config();

}  // namespace gpt
