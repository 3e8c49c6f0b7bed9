#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace gpt::serve {

class Call;

// What answers a kind of request.
struct Endpoint {
  std::string method, path;  // a path that ends in "/*" stands for all below it
  bool prepares = false;     // reads a body, and may take a while: not on the server's thread
  bool loads = false;        // and may take minutes
  bool open = false;         // needs no key
  std::function<void(const std::shared_ptr<Call>&)> run;
};

// Finds the endpoint of a request.
class Router {
 public:
  void add(Endpoint endpoint) { endpoints_.push_back(std::move(endpoint)); }
  // Throws ApiError: 404 for an unknown path, 405 for one with other methods. HEAD is GET.
  const Endpoint& find(std::string_view method, std::string_view path) const;
  // The methods of a path, "GET, POST"; "" where there are none.
  std::string allowed(std::string_view path) const;
  const std::vector<Endpoint>& all() const { return endpoints_; }

 private:
  std::vector<Endpoint> endpoints_;
};

}  // namespace gpt::serve
