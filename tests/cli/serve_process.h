#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "chat_model.h"
#include "gpt_process.h"
#include "http_client.h"

// Runs gpt serve and sends requests to it.
class Server {
 public:
  explicit Server(const std::vector<std::string>& arguments) : process_(words(arguments)) {
    const std::string mark = "http://127.0.0.1:";
    EXPECT_TRUE(process_.wait_for_note(mark)) << process_.notes();
    EXPECT_TRUE(
        process_.wait_until([&] { return process_.notes().find('\n', place(mark)) != std::string::npos; }));
    port_ = std::stoi(process_.notes().substr(place(mark)));
  }
  int port() const { return port_; }
  GptProcess& process() { return process_; }

  nlohmann::json post(const std::string& path, const nlohmann::json& body, int status = 200) {
    HttpClient client(port_);
    const HttpClient::Answer answer = client.post(path, body.dump());
    EXPECT_EQ(answer.status, status) << answer.body;
    return nlohmann::json::parse(answer.body);
  }
  // Sends a request that must fail and returns the field that the error names.
  std::string refused(const std::string& path, const std::string& body, int status = 400) {
    HttpClient client(port_);
    const HttpClient::Answer answer = client.post(path, body);
    EXPECT_EQ(answer.status, status) << body.substr(0, 200) << "\n" << answer.body;
    const nlohmann::json error = nlohmann::json::parse(answer.body)["error"];
    EXPECT_TRUE(error["message"].is_string() && error["type"].is_string()) << answer.body;
    return error["param"].is_string() ? error["param"] : "";
  }
  // Returns the value of a metric from GET /metrics.
  int64_t metric(const std::string& name) {
    HttpClient client(port_);
    const std::string page = client.ask("GET", "/metrics").body;
    const size_t at = page.find("\n" + name + " ");
    return at == std::string::npos ? -1 : std::stoll(page.substr(at + name.size() + 2));
  }
  bool wait_for_metric(const std::string& name, int64_t value) {
    return process_.wait_until([&] { return metric(name) == value; });
  }

 private:
  static std::vector<std::string> words(const std::vector<std::string>& arguments) {
    std::vector<std::string> all = {"serve", "--port", "0", "--threads", "1"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }
  size_t place(const std::string& mark) const { return process_.notes().find(mark) + mark.size(); }

  GptProcess process_;
  int port_ = 0;
};

// A test suite with one chat model, which is trained once.
class Serve : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder() = std::filesystem::path(testing::TempDir()) / ("serve" + std::to_string(::getpid()));
    train_chat_model(folder().string());
  }
  static void TearDownTestSuite() { std::filesystem::remove_all(folder()); }
  static std::filesystem::path& folder() {
    static std::filesystem::path path;
    return path;
  }
  static std::vector<std::string> arguments(const std::vector<std::string>& more = {}) {
    std::vector<std::string> all = {"tiny=" + folder().string(), "--template", "nanochat"};
    all.insert(all.end(), more.begin(), more.end());
    return all;
  }
  static nlohmann::json question(const nlohmann::json& more = {}) {
    nlohmann::json body = {{"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}},
                           {"max_tokens", 12},
                           {"temperature", 0}};
    body.update(more.is_null() ? nlohmann::json::object() : more);
    return body;
  }
};
