#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>

// A connection to a local server, for tests that need to control and check every byte.
class HttpClient {
 public:
  explicit HttpClient(int port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  struct Answer {
    int status = 0;                              // 0: the connection ended before a response
    std::map<std::string, std::string> headers;  // names in lower case
    std::string body;                            // decoded if chunked
  };
  // Sends a request with `headers` as header lines and reads the response. A body is sent as JSON.
  Answer ask(const std::string& method, const std::string& target, const std::string& body = "",
             const std::string& headers = "");
  Answer post(const std::string& target, const std::string& body) { return ask("POST", target, body); }

  void send(const std::string& bytes);
  Answer read_answer();
  // Reads until the received bytes contain a text. Returns false if the connection ends first.
  bool read_until(const std::string& text);
  bool at_end();  // reads the rest; true if the server has closed the connection
  void half_close();
  void close();

 private:
  bool fill();
  std::string take_chunks();

  int socket_ = -1;
  std::string host_, read_;
};
