#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

// A connection to a server on this machine, for tests that want to see every byte.
class HttpClient {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  struct Answer {
    int status = 0;                              // 0: the connection ended before one came
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                            // chunks put together
  };
  // Sends a request, with `headers` as lines, and reads its answer. A body is declared as JSON.
  Answer ask(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& headers = "");
  Answer post(const std::string& target, const std::string& body) { return ask("POST", target, body); }

  void send(const std::string& bytes);
  Answer read_answer();
  // Reads until what came contains a text; false where the connection ends first.
  bool read_until(const std::string& text);
  bool at_end();  // reads what is left; whether the server has closed the connection
  void half_close();
  void close();

 private:
  bool fill();
  std::string take_chunks();

  int socket_ = -1;
  std::string host_, read_;
};
