// Tests gpt chat URL with a fake server that sends the responses that a test defines, including malformed
// ones.

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>

#include "run_gpt.h"

namespace {

using nlohmann::json;

std::string reply(int status, const std::string& type, const std::string& body) {
  return "HTTP/1.1 " + std::to_string(status) + " X\r\nContent-Type: " + type +
         "\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string event(const json& data) {
  return "data: " + data.dump() + "\n\n";
}
std::string delta(const std::string& text) {
  return event({{"choices", {{{"delta", {{"content", text}}}}}}});
}
const std::string kDone = "data: [DONE]\n\n";

// A server that sends a fixed response for each path and records the requests.
class FakeServer {
 public:
  FakeServer(std::string models, std::string completion)
      : models_(std::move(models)), completion_(std::move(completion)) {
    listener_ = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    const bool listens = bind(listener_, reinterpret_cast<sockaddr*>(&address), size) == 0 &&
                         listen(listener_, 8) == 0 &&
                         getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size) == 0;
    EXPECT_TRUE(listens);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~FakeServer() {
    shutdown(listener_, SHUT_RDWR);
    thread_.join();
    close(listener_);
  }
  FakeServer(const FakeServer&) = delete;
  FakeServer& operator=(const FakeServer&) = delete;

  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_) + "/v1"; }
  // Returns the bodies of all POST requests so far.
  std::vector<json> bodies() {
    const std::lock_guard lock(mutex_);
    return bodies_;
  }

 private:
  void serve() {
    for (int client = accept(listener_, nullptr, nullptr); client >= 0;
         client = accept(listener_, nullptr, nullptr)) {
      answer(client);
      close(client);
    }
  }
  void answer(int client) {
    std::string request;
    size_t end = std::string::npos;
    char piece[4096];
    const auto read_more = [&] {
      const ssize_t n = recv(client, piece, sizeof piece, 0);
      if (n > 0) request.append(piece, static_cast<size_t>(n));
      return n > 0;
    };
    while ((end = request.find("\r\n\r\n")) == std::string::npos && read_more()) {
    }
    if (end == std::string::npos) return;
    const bool posts = request.starts_with("POST");
    if (posts) {
      const size_t at = request.find("ontent-Length: ") + 15;
      const size_t whole = end + 4 + std::stoul(request.substr(at));
      while (request.size() < whole && read_more()) {
      }
      const std::lock_guard lock(mutex_);
      bodies_.push_back(json::parse(request.substr(end + 4)));
    }
    const std::string& bytes = posts ? completion_ : models_;
    for (size_t sent = 0; sent < bytes.size();) {
      const ssize_t n = send(client, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<size_t>(n);
    }
  }

  std::string models_, completion_;
  int listener_ = -1, port_ = 0;
  std::mutex mutex_;
  std::vector<json> bodies_;
  std::thread thread_;
};

const std::string kToyModels = reply(200, "application/json", R"({"data": [{"id": "toy"}]})");

std::string stream(const std::string& events) {
  return reply(200, "text/event-stream", events);
}

GptRun chat(const FakeServer& server, const std::string& input, std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"chat", server.url()});
  return run_gpt(more, {}, input);
}

TEST(ChatServer, AnswersAreShownAndRemembered) {
  FakeServer server(kToyModels, stream(delta("Hel") + delta("lo") + kDone));
  const GptRun run = chat(server, "one\ntwo\n", {"--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out.substr(0, run.out.find('\n')))["text"], "Hello");
  const std::vector<json> bodies = server.bodies();
  ASSERT_EQ(bodies.size(), 2u);
  EXPECT_EQ(bodies[0]["model"], "toy");
  const json& messages = bodies[1]["messages"];
  ASSERT_EQ(messages.size(), 3u);
  EXPECT_EQ(messages[1]["content"], "Hello");
  EXPECT_EQ(messages[2]["content"], "two");
}

// Values of an unexpected type are ignored and do not end the program.
TEST(ChatServer, UnexpectedTypesAreLeftOut) {
  FakeServer server(
      kToyModels,
      stream(event({{"choices", 3}}) + event({{"choices", {{{"delta", {{"content", 5}}}}}}}) + delta("ok") +
             event({{"usage", {{"completion_tokens", "many"}}}, {"choices", {}}}) + kDone));
  const GptRun run = chat(server, "one\n", {"--json"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["text"], "ok");
}

TEST(ChatServer, DamagedListsOfModelsAreRefused) {
  const std::string deep(100000, '[');
  for (const std::string& body :
       {std::string(), std::string("no"), deep, std::string(R"({"data": []})"),
        std::string(R"({"data": [{"id": 5}]})"), std::string(R"({"data": 1e999})")}) {
    FakeServer server(reply(200, "application/json", body), kDone);
    expect_error(chat(server, "one\n"), 1, {server.url() + "/models"});
  }
}

TEST(ChatServer, DamagedAnswersAreRefused) {
  const std::string deep(100000, '[');
  for (const std::string& events : {"data: " + deep + "\n\n", std::string("data: no\n\n"), delta("cut off"),
                                    std::string("data: 1\n\n"), std::string()}) {
    FakeServer server(kToyModels, stream(events));
    const GptRun run = chat(server, "one\n");
    expect_error(run, 1, {server.url()});
    EXPECT_LT(run.err.size(), 1000u);
  }
}

TEST(ChatServer, ErrorsOfTheServerAreShown) {
  FakeServer refuses(kToyModels, reply(401, "application/json", R"({"error": {"message": "no key 77"}})"));
  expect_error(chat(refuses, "one\n"), 1, {"77", "401", "--api-key-file"});
  FakeServer fails(kToyModels, stream(event({{"error", {{"message", "broken 78"}}}})));
  expect_error(chat(fails, "one\n"), 1, {"78"});
  FakeServer talks(kToyModels, reply(500, "text/html", "\x1b[2J" + std::string(300000, 'x')));
  const GptRun run = chat(talks, "one\n");
  expect_error(run, 1, {"500"});
  EXPECT_LT(run.err.size(), 1000u);
  EXPECT_EQ(run.err.find('\x1b'), std::string::npos);
}

}  // namespace
