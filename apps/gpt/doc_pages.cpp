// Writes man pages and the reference pages docs/cli.md and docs/config.md.

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>

#include "base/ranges.h"
#include "command_doc.h"
#include "finetune/tune_config.h"
#include "foreign_names.h"
#include "train/train_config.h"

namespace gpt {
namespace {

constexpr const char* kEnvironment =
    "The variable GPT_NAME sets the option --name, for example GPT_MAX_TOKENS for --max-tokens. An option on "
    "the command "
    "line takes precedence over its variable. --force and --insecure have no variables. GPT_ISA=ref, avx2, "
    "avx512, "
    "avx512bf16 or amx selects the instruction set.";

// ---------------------------------------------------------------------------------------------- man pages

std::string roff(const std::string& text) {
  std::string out;
  if (text.starts_with('.') || text.starts_with('\'')) out = "\\&";
  for (const char c : text)
    out += c == '\\' ? std::string("\\e") : c == '-' ? std::string("\\-") : std::string(1, c);
  return out;
}

std::string roff_lines(const std::vector<std::string>& lines) {
  std::string out = ".PP\n.nf\n";
  for (const std::string& line : lines)
    out += roff(line) + "\n";
  return out + ".fi\n";
}

std::string roff_entries(const std::vector<DocEntry>& entries) {
  std::string out;
  for (const DocEntry& e : entries) {
    out += fmt::format(".TP\n.B {}\n{}", roff(e.label), roff(capitalized(e.text)));
    out += e.fallback.empty() ? "\n" : fmt::format(" (default {})\n", roff(e.fallback));
  }
  return out;
}

std::string roff_sections(const char* heading, const std::vector<DocSection>& sections) {
  if (sections.empty()) return "";
  std::string out = fmt::format(".SH {}\n", heading);
  for (const DocSection& section : sections) {
    if (sections.size() > 1 && section.title != "options")
      out += fmt::format(".SS {}\n", roff(capitalized(section.title)));
    out += roff_entries(section.entries);
  }
  return out;
}

std::string page_name(const CLI::App& app) {
  std::string name = "gpt " + command_of(app);
  if (name.back() == ' ') name.pop_back();
  std::ranges::replace(name, ' ', '-');
  return name;
}

// Returns the pages of the parent command and of the subcommands.
std::string see_also(const CLI::App& app) {
  std::vector<std::string> pages;
  if (app.get_parent() != nullptr) pages.push_back(page_name(*app.get_parent()));
  for (const CLI::App* sub : commands_of(app))
    pages.push_back(page_name(*sub));
  return fmt::format(
      "{}",
      fmt::join(
          transformed(pages, [](const std::string& page) { return fmt::format(".BR {} (1)", roff(page)); }),
          ",\n"));
}

// -------------------------------------------------------------------------------------------------- markdown

// Returns text outside of tables.
std::string prose(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '<' ? std::string("&lt;") : std::string(1, c);
  return out;
}

// Returns a table cell.
std::string cell(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  return prose(out);
}

std::string code(const std::string& text) {
  std::string out;
  for (const char c : text)
    out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out.empty() ? "" : "`" + out + "`";
}

std::string markdown_table(const char* first, const std::vector<DocEntry>& entries, bool has_defaults) {
  std::string out = has_defaults
                        ? fmt::format("\n| {} | Default | Description |\n| --- | --- | --- |\n", first)
                        : fmt::format("\n| {} | Description |\n| --- | --- |\n", first);
  for (const DocEntry& e : entries) {
    out += fmt::format("| {} | ", code(e.label));
    if (has_defaults) out += cell(e.fallback) + (e.fallback.empty() ? "| " : " | ");
    out += cell(capitalized(e.text)) + " |\n";
  }
  return out;
}

std::string markdown_lines(const std::vector<std::string>& lines, const char* language) {
  std::string out = fmt::format("\n```{}\n", language);
  for (const std::string& line : lines)
    out += line.substr(line.starts_with("  ") ? 2 : 0) + "\n";
  return out + "```\n";
}

std::string markdown_of_command(const CLI::App& app) {
  const CommandDoc doc = command_doc(app, true);
  std::string out =
      fmt::format("\n## {}\n\n{}.\n\n```sh\n{}\n```\n", doc.name, capitalized(doc.summary), doc.usage);
  for (const DocSection& section : doc.commands) {
    if (section.title != "commands") out += fmt::format("\n**{}**\n", capitalized(section.title));
    out += markdown_table("Command", section.entries, false);
  }
  if (!doc.arguments.entries.empty()) out += markdown_table("Argument", doc.arguments.entries, true);
  for (const DocSection& section : doc.options) {
    if (section.title != "options") out += fmt::format("\n**{}**\n", capitalized(section.title));
    out += markdown_table("Option", section.entries, true);
  }
  for (const DocPart& part : doc.footer) {
    out += fmt::format("\n{}\n", part.is_examples() ? "**Examples**" : prose(part.prose));
    if (!part.lines.empty()) out += markdown_lines(part.lines, part.is_examples() ? "sh" : "text");
  }
  for (const CLI::App* sub : commands_of(app))
    out += markdown_of_command(*sub);
  return out;
}

std::string type_of(const KeyInfo& key) {
  switch (key.type) {
    case KeyType::boolean:
      return "boolean";
    case KeyType::integer:
      return "integer";
    case KeyType::number:
      return "number";
    case KeyType::list:
      return "list of strings";
    case KeyType::object:
      return "object";
    case KeyType::choice:
    case KeyType::text:
      return "string";
  }
  return "";
}

// Returns the choices or the range of a key.
std::string values_of_key(const KeyInfo& key) {
  if (!key.is_bool() && !key.choices.empty())
    return fmt::format("{}{}", fmt::join(key.choices, ", "),
                       key.kind == ValueKind::path ? ", or a path" : "");
  if (!key.has_range()) return "";
  const bool has_min = std::isfinite(key.min), has_max = std::isfinite(key.max);
  if (has_min && has_max) return fmt::format("{} to {}", key.min, key.max);
  return has_min ? fmt::format("at least {}", key.min) : has_max ? fmt::format("at most {}", key.max) : "";
}

std::string markdown_of_keys(const std::vector<KeyInfo>& keys) {
  std::string out, group;
  for (const KeyInfo& key : keys) {
    if (key.group != group) {
      group = key.group;
      out += fmt::format(
          "\n## {}\n\n| Key | Type | Default | Values | Description | Other names |\n| --- | --- | --- | --- "
          "| --- | --- "
          "|\n",
          capitalized(group));
    }
    const auto names = transformed(key.aliases, code);
    out += fmt::format("| {} | {} | {} | {} | {} | {} |\n", code(key.name), type_of(key),
                       cell(key.shown_default()), cell(values_of_key(key)), cell(key.help),
                       fmt::join(names, ", "));
  }
  return out;
}

}  // namespace

std::string man_page(const CLI::App& app) {
  const CommandDoc doc = command_doc(app, true);
  const std::string name = page_name(app);
  std::string out =
      fmt::format(".TH {} 1 \"\" \"gpt.cpp\" \"gpt.cpp\"\n.SH NAME\n{} \\- {}\n.SH SYNOPSIS\n.B {}\n", name,
                  roff(name), roff(doc.summary), roff(doc.usage));
  out += fmt::format(".SH DESCRIPTION\n{}.\n", roff(capitalized(doc.summary)));
  for (const DocPart& part : doc.footer) {
    if (part.is_examples()) continue;
    out += fmt::format(".PP\n{}\n", roff(part.prose));
    if (!part.lines.empty()) out += roff_lines(part.lines);
  }
  out += roff_sections("COMMANDS", doc.commands);
  if (!doc.arguments.entries.empty()) out += roff_sections("ARGUMENTS", {doc.arguments});
  if (app.get_parent() != nullptr) out += roff_sections("OPTIONS", doc.options);
  out += fmt::format(".SH ENVIRONMENT\n{}\n", roff(kEnvironment));
  for (const DocPart& part : doc.footer) {
    if (part.is_examples()) out += ".SH EXAMPLES\n" + roff_lines(part.lines);
  }
  const std::string pages = see_also(app);
  return out + (pages.empty() ? "" : ".SH SEE ALSO\n" + pages + "\n");
}

std::string markdown_of_commands(const CLI::App& root) {
  std::string out =
      "# Command line reference\n\nThis page is generated from the program by `scripts/make-docs`. `gpt "
      "COMMAND --help` shows "
      "the common options of a command, and `gpt COMMAND --help-all` shows all of them.\n\n";
  out += prose(kEnvironment) + "\n";
  return out + markdown_of_command(root);
}

std::string markdown_of_config() {
  std::string out =
      "# Config keys\n\nThis page is generated from the program by `scripts/make-docs`. A config key can be "
      "set in a JSON file "
      "(`--config FILE`), by an environment variable (`GPT_N_LAYER` for `n_layer`) and by an option "
      "(`--n-layer`). Later "
      "sources override earlier ones. Other names are the names of the same setting in other programs, which "
      "are accepted "
      "too; names that start with a dash are only accepted on the command line.\n";
  out += markdown_of_keys(config_keys());
  return out + markdown_of_keys(tune_keys());
}

}  // namespace gpt
