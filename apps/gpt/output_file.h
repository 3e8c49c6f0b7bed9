#pragma once

#include <string>
#include <vector>

namespace gpt {

// What the first bytes of our own files of a kind have in them.
inline constexpr const char* kPageMark = "content=\"gpt.cpp\"";
inline constexpr const char* kPictureMark = "class=\"gc\"";

// Throws Error when the file that a flag names must not be written: a folder, or a file that is there already
// and has not `mark` in its first 4 KiB. Devices and pipes may always be written. Call it before the work.
void check_output_file(const std::string& flag, const std::string& path, const std::string& mark);

// The same for files that have no mark: one that is there already is replaced only with --force, and never
// when it is one of the inputs.
void check_new_file(const std::string& flag, const std::string& path, bool force,
                    const std::vector<std::string>& inputs = {});

}  // namespace gpt
