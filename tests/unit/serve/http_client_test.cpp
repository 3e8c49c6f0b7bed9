#include "serve/http/http_client.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "serve/http/http_server.h"

namespace gpt::serve {
namespace {

// A server that responds to every request with a body of 100,000 bytes.
class LongAnswers : public testing::Test {
 protected:
  LongAnswers()
      : server_("127.0.0.1", 0, {},
                [](const HttpRequest&, const std::shared_ptr<Responder>& responder) {
                  responder->send({.status = 200, .body = std::string(kBytes, 'x')});
                }),
        thread_([this] { server_.run(); }) {}
  ~LongAnswers() override {
    server_.stop();
    thread_.join();
  }

  static constexpr size_t kBytes = 100000;
  HttpServer server_;
  std::thread thread_;
};

TEST_F(LongAnswers, AreReadUpToALimit) {
  HttpClient enough(server_.url(), "", kBytes), less(server_.url(), "", kBytes - 1);
  EXPECT_EQ(enough.get("/models").body.size(), kBytes);
  EXPECT_THROW(less.get("/models"), Error);
  size_t taken = 0;
  const auto take = [&](int, std::string_view piece) { taken += piece.size(); };
  EXPECT_EQ(enough.post("/completions", "{}", take), 200);
  EXPECT_EQ(taken, kBytes);
  taken = 0;
  EXPECT_THROW(less.post("/completions", "{}", take), Error);
  EXPECT_LT(taken, kBytes);
}

}  // namespace
}  // namespace gpt::serve
