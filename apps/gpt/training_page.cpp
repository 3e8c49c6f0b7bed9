#include "training_page.h"

#include <filesystem>
#include <thread>

#include "base/thread.h"
#include "serve/api.h"
#include "serve/http/http_server.h"

namespace gpt {
namespace {

constexpr int64_t kConnections = 16, kBodyBytes = 4096;  // small limits, because few people look at the page

std::string name_of(const std::string& folder) {
  const std::filesystem::path path = std::filesystem::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).filename().string();
}

}  // namespace

class TrainingPage::Server {
 public:
  Server(const std::string& folder, int port)
      : server_("127.0.0.1", port, {.body_bytes = kBodyBytes, .connections = kConnections},
                [this](serve::HttpRequest request, std::shared_ptr<serve::Responder> responder) {
                  api_->handle(std::move(request), std::move(responder));
                }),
        api_(std::make_unique<serve::Api>(
            models_, serve::ApiOptions{.hosts = {"localhost", "127.0.0.1", "[::1]"},
                                       .runs = {{.name = name_of(folder), .folder = folder}},
                                       .has_chat = false})) {
    thread_ = start_thread_without_signals("the training page", [this] { run(); });
  }

  ~Server() {
    server_.stop();
    thread_.join();
    api_ = nullptr;  // its responses must not outlive the server
  }

  std::string url() const { return server_.url() + "/training"; }

 private:
  void run() noexcept {
    try {
      server_.run();
    } catch (const std::exception&) {  // the page ends, but the training continues
    }
  }

  serve::ModelSet models_;  // contains no models
  serve::HttpServer server_;
  std::unique_ptr<serve::Api> api_;
  std::thread thread_;
};

TrainingPage::TrainingPage(const std::string& folder, int port)
    : server_(std::make_unique<Server>(folder, port)) {}
TrainingPage::~TrainingPage() = default;
std::string TrainingPage::url() const {
  return server_->url();
}

}  // namespace gpt
