#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace gpt::serve {

// Parses a stream of server-sent events (HTML standard, section 9.2) piece by piece.
class EventReader {
 public:
  // `take` is called with the data of each event. Several data lines are joined by newlines.
  explicit EventReader(std::function<void(const std::string& data)> take) : take_(std::move(take)) {}
  void push(std::string_view piece);
  static constexpr size_t kLongest = size_t{16}
                                     << 20;  // maximum bytes of an event; a longer event throws Error

 private:
  void take_line(std::string_view line);

  std::function<void(const std::string&)> take_;
  std::string line_, data_;
  bool any_ = false;
};

}  // namespace gpt::serve
