#pragma once

#include <memory>
#include <string>

namespace gpt {

// The page of a run that this process trains, for browsers on this machine, from a thread of its own. It
// reads what the run writes into its folder, and nothing that it does or that goes wrong with it reaches the
// training.
class TrainingPage {
 public:
  // Listens from now on at 127.0.0.1; port 0: any free one. Throws Error where the port is taken. folder: the
  // run's, which may have nothing in it yet.
  TrainingPage(const std::string& folder, int port);
  ~TrainingPage();
  TrainingPage(const TrainingPage&) = delete;
  TrainingPage& operator=(const TrainingPage&) = delete;

  std::string url() const;  // "http://127.0.0.1:8080/training"

 private:
  class Server;
  std::unique_ptr<Server> server_;
};

}  // namespace gpt
