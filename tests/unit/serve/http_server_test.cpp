#include "serve/http/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "support/patience.h"

namespace gpt::serve {
namespace {

// Runs a server concurrently with the test.
class Running {
 public:
  Running(const ServerLimits& limits, HttpServer::Handler handler)
      : server("127.0.0.1", 0, limits, std::move(handler)), thread_([this] { server.run(); }) {}
  ~Running() {
    server.stop();
    thread_.join();
  }
  HttpServer server;

 private:
  std::thread thread_;
};

class Client {
 public:
  explicit Client(const Running& running) : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(running.server.port()));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~Client() { ::close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void send(const std::string& bytes) const {
    EXPECT_EQ(::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL), std::ssize(bytes));
  }
  // Receives bytes until they contain the text or the connection ends.
  std::string read_until(const std::string& text) const {
    const timeval most{.tv_sec = test::kPatience.count(), .tv_usec = 0};
    ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &most, sizeof(most));
    std::string all;
    char bytes[1024];
    while (all.find(text) == std::string::npos) {
      const ssize_t n = ::recv(socket_, bytes, sizeof(bytes), 0);
      if (n <= 0) break;
      all.append(bytes, static_cast<size_t>(n));
    }
    return all;
  }
  // Receives up to `most` bytes and returns their number, or 0 at the end of the connection.
  size_t read_some(size_t most) const {
    std::string bytes(most, ' ');
    return static_cast<size_t>(std::max<ssize_t>(::recv(socket_, bytes.data(), most, 0), 0));
  }

 private:
  int socket_;
};

constexpr const char* kGet = "GET /%s HTTP/1.1\r\nHost: localhost\r\n\r\n";
std::string get(const std::string& path) {
  std::string text = kGet;
  return text.replace(text.find("%s"), 2, path);
}

void echo(HttpRequest request, const std::shared_ptr<Responder>& responder) {
  responder->send({.body = "<" + request.target + request.body + ">"});
}

TEST(HttpServer, AnswersRequestsOfAConnectionInOrder) {
  Running running({}, echo);
  const Client client(running);
  client.send(get("a") + get("b") +
              "POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nxyz\r\n0\r\n\r\n" + get("d"));
  const std::string all = client.read_until("</d>");
  EXPECT_LT(all.find("</a>"), all.find("</b>"));
  EXPECT_LT(all.find("</b>"), all.find("</cxyz>"));
  EXPECT_LT(all.find("</cxyz>"), all.find("</d>"));
}

TEST(HttpServer, WaitsForAClientThatAsksWhetherToGoOn) {
  Running running({}, echo);
  const Client client(running);
  client.send("POST /a HTTP/1.1\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n");
  EXPECT_EQ(client.read_until("\r\n\r\n"), "HTTP/1.1 100 Continue\r\n\r\n");
  client.send("hi");
  EXPECT_NE(client.read_until("</ahi>").find("</ahi>"), std::string::npos);
}

TEST(HttpServer, CutsOffWhoDoesNotRead) {
  // This number of pieces is more than the limit for unsent bytes plus the buffers of two sockets.
  constexpr int kMostPieces = 1 << 16;
  std::atomic<bool> closed = false;
  std::thread writing;
  {
    Running running({.unsent_bytes = 1 << 16}, [&](HttpRequest, const std::shared_ptr<Responder>& responder) {
      responder->on_closed([&] { closed = true; });
      responder->begin_stream({});
      writing = std::thread([&closed, responder] {
        const std::string piece(1 << 12, 'x');
        for (int i = 0; i < kMostPieces && !closed; ++i)
          responder->write(piece);
      });
    });
    const Client client(running);
    client.send(get("stream"));
    EXPECT_TRUE(test::wait_until([&] { return closed.load(); }));
  }
  if (writing.joinable()) writing.join();
}

TEST(HttpServer, TakesTransferEncodingChunkedAlone) {
  const std::string chunks = "3\r\nxyz\r\n0\r\n\r\n";
  const struct {
    const char* version;
    std::string headers;
    int status;
  } cases[] = {
      {"1.1", "Transfer-Encoding: chunked\r\n", 200},
      {"1.1", "transfer-encoding:Chunked \t\r\n", 200},
      {"1.1", "Transfer-Encoding: gzip, chunked\r\n", 501},
      {"1.1", "Transfer-Encoding: gzip\r\n", 501},
      {"1.1", "Transfer-Encoding: identity\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked, identity\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked, chunked\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked,\r\n", 501},
      {"1.1", "Transfer-Encoding: , chunked\r\n", 501},
      {"1.1", "Transfer-Encoding: xchunked\r\n", 501},
      {"1.1", "Transfer-Encoding: \"chunked\"\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked;q=1\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked ; a=b\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked\xa0\r\n", 501},
      {"1.1", "Transfer-Encoding:\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", 501},
      {"1.1", "Transfer-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked\r\nX: 1\r\ntransfer-encoding:\r\n", 501},
      {"1.1", "Transfer-Encoding:\r\n chunked\r\n", 501},
      {"1.1", "Transfer-Encoding:\r\n\tchunked\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked\r\n \r\n", 501},
      {"1.1", "Transfer-Encoding: gzip,\r\n chunked\r\n", 501},
      {"1.0", "Transfer-Encoding: chunked\r\n", 501},
      {"1.0", "Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n", 501},
      {"1.1", "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n", 400},
      {"1.1", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400},
      {"1.1", "Content-Length: 3\r\nTransfer-Encoding: gzip\r\n", 400},
      {"1.1", "Transfer-Encoding: gzip\r\nContent-Length: 3\r\n", 400},
      {"1.1", "Content-Length: 0\r\nTransfer-Encoding:\r\n chunked\r\n", 400},
      {"1.0", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", 400},
      {"1.1", "Transfer-Encoding : chunked\r\n", 400},
  };
  Running running({}, echo);
  for (const auto& c : cases) {
    const Client client(running);
    client.send(std::string("POST /a HTTP/") + c.version + "\r\nHost: localhost\r\n" + c.headers + "\r\n" +
                chunks);
    // Other responses end the connection.
    const std::string answer = client.read_until(c.status == 200 ? "</axyz>" : "never");
    EXPECT_TRUE(answer.starts_with("HTTP/1.1 " + std::to_string(c.status) + " ")) << c.headers << answer;
  }
}

TEST(HttpServer, ASlowReaderOfAWholeAnswerIsCutOff) {
  const size_t size = size_t{16} << 20;
  Running running(
      {.read_rate = 1e12, .write_time = 0.2},
      [&](HttpRequest, const std::shared_ptr<Responder>& r) { r->send({.body = std::string(size, 'x')}); });
  const Client client(running);
  client.send(get("large"));
  size_t got = 0;
  for (size_t n = 1; n > 0; got += n) {
    n = client.read_some(4096);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_LT(got, size);
}

// Waits up to a minute for a condition. Returns true if it holds.
template <class Condition>
bool wait_until(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

TEST(HttpServer, UnsentBytesOfAllConnectionsAreLimited) {
  const int64_t limit = int64_t{50} << 20;
  std::atomic<int> answered = 0, closed = 0;
  Running running({.unsent_bytes = limit, .total_unsent_bytes = limit},
                  [&](HttpRequest, const std::shared_ptr<Responder>& responder) {
                    responder->on_closed([&] { ++closed; });
                    responder->send({.body = std::string(size_t{20} << 20, 'x')});
                    ++answered;
                  });
  const Client clients[] = {Client(running), Client(running), Client(running), Client(running)};
  for (const Client& client : clients)
    client.send(get("large"));
  EXPECT_TRUE(
      wait_until([&] { return answered == 4 && closed > 0 && running.server.unsent_bytes() <= limit; }));
  EXPECT_LT(closed, 4);
}

TEST(HttpServer, TheConnectionThatIsSilentForLongestMakesRoom) {
  Running running({.connections = 2, .silence = 0}, echo);
  const Client silent(running);
  ASSERT_TRUE(test::wait_until([&] { return running.server.connections() >= 1; }));
  const Client second(running), third(running);
  second.send(get("b"));
  third.send(get("c"));
  EXPECT_NE(third.read_until("</c>").find("</c>"), std::string::npos);
  EXPECT_EQ(silent.read_until("never"), "") << "closed";
}

TEST(HttpServer, AConnectionThatCameJustNowIsNotSilent) {
  Running running({.connections = 1, .silence = 1e6}, echo);
  const Client first(running);
  ASSERT_TRUE(test::wait_until([&] { return running.server.connections() >= 1; }));
  const Client second(running);
  EXPECT_TRUE(second.read_until("never").starts_with("HTTP/1.1 503 "));
  first.send(get("a"));
  EXPECT_NE(first.read_until("</a>").find("</a>"), std::string::npos);
}

TEST(HttpServer, AClientGoesAwayBehindWhatItSentAhead) {
  std::atomic<bool> closed = false;
  std::shared_ptr<Responder> kept;
  Running running({}, [&](HttpRequest, const std::shared_ptr<Responder>& responder) {
    kept = responder;
    kept->on_closed([&] { closed = true; });
  });
  {
    const Client client(running);
    client.send(get("a") + "\r\n");
  }
  EXPECT_TRUE(test::wait_until([&] { return closed.load(); }));
}

TEST(HttpServer, AHandlerThatThrowsIsAnError) {
  Running running({}, [](HttpRequest, const std::shared_ptr<Responder>&) { throw std::runtime_error("x"); });
  const Client client(running);
  client.send(get("a"));
  EXPECT_TRUE(client.read_until("\r\n\r\n").starts_with("HTTP/1.1 500 "));
}

}  // namespace
}  // namespace gpt::serve
