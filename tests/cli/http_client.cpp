#include "http_client.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>

HttpClient::HttpClient(int port) : host_("127.0.0.1:" + std::to_string(port)) {
  socket_ = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
}

HttpClient::~HttpClient() {
  close();
}

void HttpClient::close() {
  if (socket_ >= 0) ::close(socket_);
  socket_ = -1;
}

void HttpClient::half_close() {
  ::shutdown(socket_, SHUT_WR);
}

void HttpClient::send(const std::string& bytes) {
  for (size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
    if (n <= 0) return;  // the server has closed the connection; its response says why
    at += static_cast<size_t>(n);
  }
}

bool HttpClient::fill() {
  char bytes[4096];
  const ssize_t n = ::recv(socket_, bytes, sizeof(bytes), 0);
  if (n <= 0) return false;
  read_.append(bytes, static_cast<size_t>(n));
  return true;
}

bool HttpClient::read_until(const std::string& text) {
  while (read_.find(text) == std::string::npos) {
    if (!fill()) return false;
  }
  return true;
}

bool HttpClient::at_end() {
  while (fill()) {
  }
  return true;
}

HttpClient::Answer HttpClient::ask(const std::string& method, const std::string& target,
                                   const std::string& body, const std::string& headers) {
  std::string head = method + " " + target + " HTTP/1.1\r\n" + headers;
  if (headers.find("Host:") == std::string::npos) head += "Host: " + host_ + "\r\n";
  if (!body.empty() && headers.find("Content-Type:") == std::string::npos)
    head += "Content-Type: application/json\r\n";
  if (!body.empty()) head += "Content-Length: " + std::to_string(body.size()) + "\r\n";
  send(head + "\r\n" + body);
  return read_answer();
}

HttpClient::Answer HttpClient::read_answer() {
  Answer answer;
  if (!read_until("\r\n\r\n")) return answer;
  const size_t end = read_.find("\r\n\r\n");
  const std::string head = read_.substr(0, end + 2);
  read_.erase(0, end + 4);
  answer.status = std::stoi(head.substr(head.find(' ') + 1, 3));
  for (size_t at = head.find("\r\n") + 2; at < head.size();) {
    const size_t line_end = head.find("\r\n", at), colon = head.find(':', at);
    std::string name = head.substr(at, colon - at);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    answer.headers[name] = head.substr(colon + 2, line_end - colon - 2);
    at = line_end + 2;
  }
  if (answer.headers.contains("transfer-encoding")) {
    answer.body = take_chunks();
  } else {
    const size_t size = std::stoul("0" + answer.headers["content-length"]);
    while (read_.size() < size && fill()) {
    }
    answer.body = read_.substr(0, size);
    read_.erase(0, size);
  }
  return answer;
}

std::string HttpClient::take_chunks() {
  std::string body;
  while (read_until("\r\n")) {
    const size_t size = std::stoul(read_, nullptr, 16), begin = read_.find("\r\n") + 2;
    while (read_.size() < begin + size + 2 && fill()) {
    }
    body += read_.substr(begin, size);
    read_.erase(0, begin + size + 2);
    if (size == 0) break;
  }
  return body;
}
