#pragma once

#include <string>
#include <utility>
#include <vector>

namespace gpt {

inline std::string little(uint64_t value, size_t bytes) {
  std::string out;
  for (size_t i = 0; i < bytes; ++i)
    out += static_cast<char>(i < 8 ? value >> (8 * i) & 255 : 0);
  return out;
}

// Returns a zip archive of uncompressed entries, without checksums.
inline std::string zip_archive(const std::vector<std::pair<std::string, std::string>>& entries) {
  std::string file, directory;
  for (const auto& [name, content] : entries) {
    const std::string sizes =
        little(content.size(), 4) + little(content.size(), 4) + little(name.size(), 2) + little(0, 2);
    directory +=
        "PK\1\2" + little(0, 16 - 4) + little(0, 4) + sizes + little(0, 10) + little(file.size(), 4) + name;
    file += "PK\3\4" + little(0, 10) + little(0, 4) + sizes + name + content;
  }
  return file + directory + "PK\5\6" + little(0, 4) + little(entries.size(), 2) + little(entries.size(), 2) +
         little(directory.size(), 4) + little(file.size(), 4) + little(0, 2);
}

// Building blocks of a pickle.
inline std::string pickle_text(const std::string& s) {
  return "X" + little(s.size(), 4) + s;
}
inline std::string pickle_int(int64_t n) {
  return "\x8a\x08" + little(static_cast<uint64_t>(n), 8);
}
inline std::string pickle_tuple(const std::vector<int64_t>& numbers) {
  std::string s = "(";
  for (const int64_t n : numbers)
    s += pickle_int(n);
  return s + "t";
}
inline std::string pickle_tensor(const std::string& key, int64_t elements, int64_t offset,
                                 const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + pickle_text("storage") + "ctorch\nFloatStorage\n" +
         pickle_text(key) + pickle_text("cpu") + pickle_int(elements) + "tQ" + pickle_int(offset) +
         pickle_tuple(shape) + pickle_tuple(strides) + "\x89)tR";
}
// Returns a torch.save file with this pickle and with storage "0" of six floats.
inline std::string torch_archive(const std::string& pickle) {
  return zip_archive({{"a/data.pkl", "\x80\x02" + pickle + "."}, {"a/data/0", std::string(24, '\1')}});
}
inline std::string torch_dict(const std::string& name, const std::string& value) {
  return "}" + pickle_text(name) + value + "s";
}

}  // namespace gpt
