// Tests parsing of server-sent events in clients.

#include "serve/http/http_client.h"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.h"

namespace gpt::serve {
namespace {

// Returns the events of a stream that arrives in pieces of n bytes.
std::vector<std::string> events_of(const std::string& stream, size_t n) {
  std::vector<std::string> events;
  EventReader reader([&](const std::string& data) { events.push_back(data); });
  for (size_t at = 0; at < stream.size(); at += n)
    reader.push(std::string_view(stream).substr(at, n));
  return events;
}

TEST(EventReader, TakesTheDataHoweverItIsCut) {
  const std::string stream =
      ": a comment\r\ndata: one\r\n\r\nevent: x\nid: 3\ndata:two\ndata:  three\n\n\ndata\n\ndata:\n\ndata: "
      "[DONE]\n\ndata: cut";
  for (const size_t n : {size_t{1}, size_t{2}, size_t{7}, size_t{1000}})
    EXPECT_EQ(events_of(stream, n), (std::vector<std::string>{"one", "two\n three", "", "[DONE]"})) << n;
}

TEST(EventReader, RefusesEventsWithoutEnd) {
  EventReader reader([](const std::string&) {});
  const std::string piece(size_t{1} << 20, 'x');
  EXPECT_THROW(
      {
        for (int i = 0; i < 20; ++i)
          reader.push(piece);
      },
      Error);
}

}  // namespace
}  // namespace gpt::serve
