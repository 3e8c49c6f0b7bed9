#include "serve/http/http_exchange.h"

#include <gtest/gtest.h>

namespace gpt::serve {
namespace {

std::string taken(HttpExchange& exchange, bool& ended) {
  std::string bytes;
  exchange.take(bytes, ended);
  exchange.sent(bytes.size());
  return bytes;
}

TEST(HttpExchange, SendsAWholeAnswer) {
  int woken = 0;
  HttpExchange exchange({}, [&] { ++woken; });
  exchange.send({.status = 404, .body = "{}", .headers = {{"Allow", "GET"}}});
  exchange.send({.body = "twice"});
  EXPECT_EQ(woken, 1);
  bool ended = false;
  EXPECT_EQ(taken(exchange, ended),
            "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 2\r\nAllow: GET\r\n"
            "X-Content-Type-Options: nosniff\r\n\r\n{}");
  EXPECT_TRUE(ended);
}

TEST(HttpExchange, StreamsInChunksAndWakesOnceForAllThatWaits) {
  int woken = 0;
  HttpExchange exchange({}, [&] { ++woken; });
  exchange.begin_stream({.body = "first", .content_type = "text/event-stream"});
  exchange.write("second piece of text");
  EXPECT_EQ(woken, 1);
  bool ended = true;
  EXPECT_TRUE(taken(exchange, ended).ends_with("\r\n\r\n5\r\nfirst\r\n14\r\nsecond piece of text\r\n"));
  EXPECT_FALSE(ended);
  exchange.end();
  exchange.write("too late");
  EXPECT_EQ(taken(exchange, ended), "0\r\n\r\n");
  EXPECT_TRUE(ended);
  EXPECT_EQ(woken, 2);
}

TEST(HttpExchange, OldClientsGetAStreamThatEndsWithItsConnection) {
  HttpExchange exchange({.http11 = false}, [] {});
  exchange.begin_stream({.body = "a"});
  exchange.end();
  bool ended = false;
  EXPECT_TRUE(taken(exchange, ended).ends_with("\r\nConnection: close\r\n\r\na"));
  EXPECT_FALSE(exchange.keep_alive());
}

TEST(HttpExchange, AStreamThatIsNotReadIsTooSlow) {
  HttpExchange exchange({.most_unsent = 1000}, [] {});
  exchange.begin_stream({});
  std::string bytes;
  bool ended = false;
  exchange.take(bytes, ended);  // taken but not sent
  EXPECT_FALSE(exchange.too_slow());
  exchange.write(std::string(1000, 'x'));
  EXPECT_TRUE(exchange.too_slow());
  exchange.take(bytes, ended);
  EXPECT_TRUE(exchange.too_slow());
  exchange.sent(bytes.size());
  EXPECT_FALSE(exchange.too_slow());
}

TEST(HttpExchange, CountsUnsentBytesOfAll) {
  std::atomic<int64_t> total = 0;
  HttpExchange whole({.total_unsent = &total}, [] {}), stream({.total_unsent = &total}, [] {});
  whole.send({.body = std::string(1000, 'x')});
  stream.begin_stream({});
  const int64_t both = total;
  EXPECT_EQ(both, static_cast<int64_t>(whole.unsent() + stream.unsent()));
  EXPECT_GT(whole.unsent(), 1000u);
  std::string bytes;
  bool ended = false;
  whole.take(bytes, ended);
  whole.sent(600);
  EXPECT_EQ(total, both - 600);
  whole.close();
  EXPECT_EQ(total, static_cast<int64_t>(stream.unsent()));
  stream.close();
  EXPECT_EQ(total, 0);
}

TEST(HttpExchange, TellsThatTheClientHasGoneOnceAndNotAfterTheAnswer) {
  int closed = 0;
  HttpExchange gone({}, [] {});
  gone.on_closed([&] { ++closed; });
  gone.close();
  gone.close();
  EXPECT_EQ(closed, 1);
  gone.on_closed([&] { ++closed; });
  EXPECT_EQ(closed, 2) << "at once";
  gone.send({});
  std::string bytes;
  bool ended = false;
  EXPECT_FALSE(gone.take(bytes, ended));

  HttpExchange done({}, [] {});
  done.on_closed([&] { ++closed; });
  done.send({});
  taken(done, ended);
  done.close();
  EXPECT_EQ(closed, 2);
}

TEST(HttpExchange, TimeEndsAStreamWithItsLastWordsAndOthersWith504) {
  bool ended = false, closed = false;
  HttpExchange stream({}, [] {});
  stream.begin_stream({});
  stream.on_closed([&] { closed = true; });
  taken(stream, ended);
  stream.time_out("bye");
  EXPECT_TRUE(closed);
  EXPECT_EQ(taken(stream, ended), "3\r\nbye\r\n0\r\n\r\n");
  HttpExchange whole({}, [] {});
  whole.time_out("bye");
  EXPECT_TRUE(taken(whole, ended).starts_with("HTTP/1.1 504 "));
}

}  // namespace
}  // namespace gpt::serve
