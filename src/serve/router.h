#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt::serve {

class Call;

// An endpoint of the API.
struct Endpoint {
  std::string method, path;  // a path that ends in "/*" matches all paths below it
  bool prepares = false;     // reads a body and may take a while, so it must not run on the server thread
  bool loads = false;        // may even take minutes
  bool open = false;         // needs no key
  std::function<void(const std::shared_ptr<Call>&)> run;
};

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
