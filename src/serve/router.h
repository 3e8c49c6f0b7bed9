#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "serve/openai/api_types.h"

namespace gpt::serve {

class Call;
struct Service;

// The thread that runs an endpoint. POST /trace continues on the tracing thread, and a request with a grammar
// on the compiling thread.
enum class Runs {
  on_server,     // must return immediately
  on_preparing,  // parsing and tokenizing, at most a second
  on_loading,    // loading and unloading, which may take minutes
  on_watching,   // reading run folders
};

// An endpoint of the API.
struct Endpoint {
  std::string method, path;  // a path that ends in "/*" matches all paths below it
  const char* help = "";     // what the endpoint does
  const char* below = "";    // for a path that ends in "/*": the name of the part after the last "/"
  Runs runs = Runs::on_server;
  bool open = false;          // needs no key
  const char* request = "";   // name of the ApiType of the body; "": no body
  const char* response = "";  // name of the ApiType of the response; "": not a described JSON object
  const char* content_type = "application/json";
  bool streams = false;            // may respond with text/event-stream
  ApiField header = {.name = ""};  // a header that a response may have
  // Status codes and their meanings, in addition to those of all similar endpoints.
  std::vector<std::pair<int, const char*>> errors = {};
  // Responds to a call, immediately or later. An exception is sent to the client (see current_error).
  void (*run)(const Service& service, const std::shared_ptr<Call>& call) = nullptr;

  bool has_body() const { return *request != 0; }
};

// Returns all endpoints. The router, the OpenAPI document and docs/api-server.md are derived from them.
const std::vector<Endpoint>& endpoint_table();

// Finds the endpoint of a request.
class Router {
 public:
  void add(Endpoint endpoint) { endpoints_.push_back(std::move(endpoint)); }
  // Throws ApiError: 404 for an unknown path, 405 if the path only has other methods. HEAD is treated as GET.
  const Endpoint& find(std::string_view method, std::string_view path) const;
  // Returns the methods of a path, such as "GET, POST", or "" if the path is unknown.
  std::string allowed(std::string_view path) const;
  const std::vector<Endpoint>& all() const { return endpoints_; }

 private:
  std::vector<Endpoint> endpoints_;
};

}  // namespace gpt::serve
