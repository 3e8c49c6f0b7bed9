#pragma once

#include <memory>
#include <string>

namespace gpt {

// Serves the web page of the current training run to browsers on this machine, in a separate thread. It only
// reads the files of the run folder, and its errors do not affect the training.
class TrainingPage {
 public:
  // Starts to listen on 127.0.0.1. port 0: any free port. Throws Error if the port is in use. folder: the run
  // folder, which may still be empty.
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
