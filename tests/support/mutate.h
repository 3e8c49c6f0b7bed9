#pragma once

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include "base/rng.h"

namespace gpt::test {

// Returns the committed inputs of a fuzzer by file name.
inline std::map<std::string, std::string> corpus(const std::string& name) {
  std::map<std::string, std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(GPT_SOURCE_DIR "/fuzz/corpus/" + name)) {
    std::ifstream in(file.path(), std::ios::binary);
    files[file.path().filename().string()] = std::string(std::istreambuf_iterator<char>(in), {});
  }
  return files;
}

// Makes one to four random changes: flips a bit, changes a byte, cuts the text, repeats a part or replaces a
// number by an extreme value.
inline std::string mutate(std::string s, RandomStream& random) {
  const uint64_t changes = 1 + random.below(4);
  for (uint64_t i = 0; i < changes && !s.empty(); ++i) {
    const size_t at = random.below(s.size());
    const size_t length = 1 + random.below(std::min<size_t>(s.size() - at, 16));
    switch (random.below(7)) {
      case 0:
        s[at] = static_cast<char>(s[at] ^ (1 << random.below(8)));
        break;
      case 1:
        s[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        s.erase(at, length);
        break;
      case 3:
        s.insert(random.below(s.size()), s.substr(at, length));
        break;
      case 4:
        s.resize(at);
        break;
      case 5: {
        const size_t digit = s.find_first_of("0123456789", at);
        constexpr std::array kExtremes = {"-1", "4294967296", "9223372036854775807", "18446744073709551615",
                                          "1e9"};
        if (digit != std::string::npos) s.replace(digit, 1, kExtremes[random.below(kExtremes.size())]);
        break;
      }
      default:
        s[at] = "{}[]:,\"\\ 0"[random.below(10)];
    }
  }
  return s;
}

}  // namespace gpt::test
