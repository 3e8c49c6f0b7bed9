#include "command_doc.h"

#include <algorithm>

#include "base/parse.h"
#include "base/ranges.h"
#include "foreign_names.h"
#include "option_spec.h"
#include "shown_flags.h"

namespace gpt {
namespace {

// Formats an option with its value: "-o, --out DIR".
std::string flag_label(const CLI::Option& option) {
  std::string label;
  for (const std::string& name : option.get_snames())
    label += (label.empty() ? "-" : ", -") + name;
  for (const std::string& name : option.get_lnames())
    label += (label.empty() ? "--" : ", --") + name;
  const std::string value = value_name(option);
  return label + (value.empty() ? "" : " " + value);
}

std::string positional_label(const CLI::Option& option) {
  const int most = option.get_items_expected_max();
  const bool takes_many = option.get_allow_extra_args() || most > 2;
  return option.get_name(true, false) + (takes_many && !spec_of(option).is_repeated ? " ..." : "");
}

DocEntry entry_of(const CLI::Option& option, const CLI::App& app, std::string label) {
  const OptionSpec& spec = spec_of(option);
  const bool has_value = option.get_items_expected_max() > 0;
  return {std::move(label), show_flags(spec.help, app), has_value ? show_flags(spec.fallback, app) : ""};
}

std::vector<const CLI::Option*> positionals_of(const CLI::App& app) {
  return app.get_options([](const CLI::Option* o) { return o->get_positional(); });
}

// Returns the options without the help options and those that are listed as arguments.
std::vector<const CLI::Option*> options_of(const CLI::App& app) {
  return app.get_options([&](const CLI::Option* o) {
    return o->nonpositional() && !o->get_positional() && o != app.get_help_ptr() &&
           o != app.get_help_all_ptr();
  });
}

std::vector<DocSection> command_sections(const CLI::App& app) {
  std::vector<DocSection> sections;
  for (const CLI::App* sub : commands_of(app)) {
    const std::string title = sub->get_group() == "Subcommands" ? "commands" : sub->get_group();
    auto section = std::ranges::find(sections, title, &DocSection::title);
    if (section == sections.end()) section = sections.insert(section, {title, {}});
    section->entries.push_back({sub->get_name(), sub->get_description(), ""});
  }
  return sections;
}

std::vector<DocSection> option_sections(const CLI::App& app, bool is_short) {
  std::vector<DocSection> sections;
  for (const CLI::Option* option : options_of(app)) {
    if (is_short && !spec_of(*option).common) continue;
    const std::string title = is_short || option->get_group() == "Options" ? "options" : option->get_group();
    auto section = std::ranges::find(sections, title, &DocSection::title);
    if (section == sections.end()) section = sections.insert(section, {title, {}});
    section->entries.push_back(entry_of(*option, app, flag_label(*option)));
  }
  return sections;
}

// Splits a footer into parts. Lines that are indented are kept, other lines are prose.
std::vector<DocPart> footer_parts(const std::string& text) {
  std::vector<DocPart> parts;
  bool continues = false;  // the prose of the last part
  for (const std::string_view view : lines_of(text)) {
    const std::string line(view);
    if (line.empty()) {
      continues = false;
    } else if (line.front() == ' ') {
      if (parts.empty()) parts.emplace_back();
      parts.back().lines.push_back(line);
      continues = false;
    } else if (continues) {
      parts.back().prose += " " + line;
    } else {
      parts.push_back({line, {}});
      continues = true;
    }
    if (!line.empty() && line.back() == ':') continues = false;
  }
  return parts;
}

}  // namespace

CommandDoc command_doc(const CLI::App& app, bool all) {
  CommandDoc doc;
  const std::string command = command_of(app);
  doc.name = command.empty() ? "gpt" : "gpt " + command;
  doc.summary = app.get_description();
  doc.usage = doc.name;
  for (const CLI::Option* option : positionals_of(app)) {
    std::string label = positional_label(*option);
    doc.usage += " [" + label + "]";
    if (option->nonpositional()) label += ", " + flag_label(*option);
    doc.arguments.entries.push_back(entry_of(*option, app, label));
  }
  doc.arguments.title = "arguments";
  if (!commands_of(app).empty()) doc.usage += " COMMAND";
  doc.usage += " [options]";
  doc.commands = command_sections(app);
  const std::vector<const CLI::Option*> options = options_of(app);
  doc.option_count = options.size();
  doc.is_short = !all &&
                 std::ranges::any_of(options, [](const CLI::Option* o) { return !spec_of(*o).common; }) &&
                 std::ranges::count_if(options, [](const CLI::Option* o) { return spec_of(*o).common; }) > 4;
  doc.options = option_sections(app, doc.is_short);
  doc.footer = footer_parts(app.get_footer());
  return doc;
}

std::string capitalized(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

}  // namespace gpt
