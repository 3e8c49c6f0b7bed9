#include "finetune/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "base/error.h"

namespace gpt {
namespace {

constexpr size_t kMostOutput = size_t{64} << 20;

class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  ~Descriptor() { close(); }
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return fd_; }
  bool is_open() const { return fd_ >= 0; }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }

 private:
  int fd_;
};

// Two ends that are connected: a pipe, whose writer gets an error and no signal when nobody reads.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail("reward command: no pipe: {}", std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
  int read, write;
};

// A shell with a command, in a process group of its own.
class Child {
 public:
  explicit Child(const std::string& command) : Child(command, Pipe(), Pipe()) {}
  ~Child() {
    if (pid_ > 0) {
      ::kill(-pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // The status, once it has ended.
  std::optional<int> ended() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return status;
  }

  Descriptor in, out;  // of ours: what it reads, what it writes

 private:
  Child(const std::string& command, Pipe input, Pipe output) : in(input.write), out(output.read) {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setpgid(0, 0);
      ::dup2(input.read, 0);
      ::dup2(output.write, 1);
      ::signal(SIGPIPE, SIG_DFL);
      ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      ::_exit(127);
    }
    ::close(input.read);
    ::close(output.write);
    if (pid_ < 0) fail("reward command: cannot start it: {}", std::strerror(errno));
    ::setpgid(pid_, pid_);
    ::fcntl(in.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(out.get(), F_SETFL, O_NONBLOCK);
  }

  pid_t pid_ = -1;
};

// Writes what can be written now; closes at the end, or when nobody reads.
void feed(Descriptor& to, std::string_view& rest) {
  const ssize_t n = ::send(to.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
  if (rest.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) to.close();
}

// Reads what is there; false at the end.
bool drain(const Descriptor& from, std::string& to) {
  std::array<char, 65536> buffer;
  const ssize_t n = ::read(from.get(), buffer.data(), buffer.size());
  if (n > 0) to.append(buffer.data(), static_cast<size_t>(n));
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

}  // namespace

std::string run_command(const std::string& command, const std::string& input, double seconds) {
  Child child(command);
  std::string_view rest = input;
  if (rest.empty()) child.in.close();
  std::string output;
  const auto start = Clock::now();
  for (bool open = true; open;) {
    const double left = seconds - seconds_since(start);
    if (left <= 0) fail("reward command: no answer in {:g} s: it was ended", seconds);
    std::array<pollfd, 2> files = {{{.fd = child.out.get(), .events = POLLIN, .revents = 0},
                                    {.fd = child.in.get(), .events = POLLOUT, .revents = 0}}};
    ::poll(files.data(), child.in.is_open() ? 2 : 1, static_cast<int>(std::clamp(left * 1000, 1.0, 1000.0)));
    if (child.in.is_open() && files[1].revents != 0) feed(child.in, rest);
    if (files[0].revents != 0) open = drain(child.out, output);
    if (output.size() > kMostOutput) fail("reward command: it writes more than {} MiB", kMostOutput >> 20);
  }
  std::optional<int> found;
  while (!(found = child.ended())) {
    if (seconds_since(start) > seconds)
      fail("reward command: still runs after {:g} s: it was ended", seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int status = *found;
  if (WIFSIGNALED(status)) fail("reward command: ended by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) fail("reward command: ended with status {}", WEXITSTATUS(status));
  return output;
}

}  // namespace gpt
