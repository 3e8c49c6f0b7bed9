#include "finetune/child_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
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

// A connected pair of sockets that is used as a pipe. If the reading end is closed, a write returns an error
// instead of raising a signal.
struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      fail("reward command: cannot create a pipe: {}", std::strerror(errno));
    read = ends[0];
    write = ends[1];
  }
  int read, write;
};

// Returns the parent of a process, as read from /proc. Returns 0 if the process has ended.
pid_t parent_of(const char* pid) {
  std::array<char, 512> text{};
  const std::string path = std::string("/proc/") + pid + "/stat";
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t n = ::read(fd, text.data(), text.size() - 1);
  ::close(fd);
  if (n <= 0) return 0;
  // The format is "PID (NAME) STATE PPID ..."; NAME may contain any characters.
  const char* const end_of_name = std::strrchr(text.data(), ')');
  int parent = 0;
  if (end_of_name == nullptr || std::sscanf(end_of_name + 1, " %*c %d", &parent) != 1) return 0;
  return parent;
}

void kill_children() {
  DIR* const all = ::opendir("/proc");
  if (all == nullptr) return;
  while (const dirent* entry = ::readdir(all)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && parent_of(entry->d_name) == ::getpid()) ::kill(pid, SIGKILL);
  }
  ::closedir(all);
}

// Ends all descendants of this process. This process is a subreaper, so descendants whose parents have ended
// become its children.
void end_descendants() {
  for (;;) {
    kill_children();
    const pid_t ended = ::waitpid(-1, nullptr, 0);
    if (ended < 0 && errno == ECHILD) return;
  }
}

// Ends this process with the exit status or the signal of another process.
[[noreturn]] void end_like(int status) {
  if (WIFEXITED(status)) ::_exit(WEXITSTATUS(status));
  ::prctl(PR_SET_DUMPABLE, 0);  // prevents a core file of this process
  sigset_t none;
  ::sigemptyset(&none);
  ::signal(WTERMSIG(status), SIG_DFL);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::kill(::getpid(), WTERMSIG(status));
  ::_exit(128 + WTERMSIG(status));
}

[[noreturn]] void run_shell(const std::string& command, int input, int output) {
  ::setpgid(0, 0);
  ::dup2(input, 0);
  ::dup2(output, 1);
  ::signal(SIGPIPE, SIG_DFL);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
  ::_exit(127);
}

// Runs a shell command. Ends all processes that the command started when the shell ends, when the parent
// sends SIGTERM, or when the parent ends. The function runs in a separate process, because the program has
// threads and other children.
[[noreturn]] void supervise(const std::string& command, int input, int output, pid_t parent) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::setpgid(0, 0);  // signals from a terminal are handled by the parent
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  const pid_t shell = ::fork();
  if (shell == 0) run_shell(command, input, output);
  ::close(input);
  ::close(output);
  int status = 127 << 8;
  for (bool runs = shell > 0; runs;) {
    int signal = 0;
    sigset_t awaited;
    ::sigemptyset(&awaited);
    ::sigaddset(&awaited, SIGCHLD);
    ::sigaddset(&awaited, SIGTERM);
    ::sigwait(&awaited, &signal);
    runs = signal != SIGTERM;
    for (pid_t ended = 1; runs && ended > 0;) {
      int its_status = 0;
      ended = ::waitpid(-1, &its_status, WNOHANG);
      if (ended != shell) continue;
      status = its_status;
      runs = false;
    }
  }
  end_descendants();
  end_like(status);
}

// Runs a command in a shell. When the shell ends, all of its descendants are killed.
class Child {
 public:
  explicit Child(const std::string& command) : Child(command, Pipe(), Pipe()) {}
  ~Child() {
    if (pid_ > 0) {
      ::kill(pid_, SIGTERM);
      ::waitpid(pid_, nullptr, 0);
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // Returns the wait status of the shell, or nothing if the shell is still running.
  std::optional<int> ended() {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    pid_ = -1;
    return status;
  }

  Descriptor in, out;  // this process's ends of the pipes: `in` is the child's input, `out` its output

 private:
  Child(const std::string& command, Pipe input, Pipe output) : in(input.write), out(output.read) {
    const pid_t parent = ::getpid();
    pid_ = ::fork();
    if (pid_ == 0) {
      in.close();
      out.close();
      supervise(command, input.read, output.write, parent);
    }
    ::close(input.read);
    ::close(output.write);
    if (pid_ < 0) fail("reward command: cannot start: {}", std::strerror(errno));
    ::fcntl(in.get(), F_SETFL, O_NONBLOCK);
    ::fcntl(out.get(), F_SETFL, O_NONBLOCK);
  }

  pid_t pid_ = -1;  // process id of the supervising process
};

// Writes as many bytes as possible without blocking. Closes the pipe when all bytes are written or when the
// reading end is closed.
void feed(Descriptor& to, std::string_view& rest) {
  const ssize_t n = ::send(to.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (n > 0) rest.remove_prefix(static_cast<size_t>(n));
  if (rest.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) to.close();
}

// Reads the bytes that are available. Returns false at the end of the output.
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
    if (left <= 0)
      fail("reward command: timed out after {:g} s and was terminated; set a larger `reward_seconds`",
           seconds);
    std::array<pollfd, 2> files = {{{.fd = child.out.get(), .events = POLLIN, .revents = 0},
                                    {.fd = child.in.get(), .events = POLLOUT, .revents = 0}}};
    ::poll(files.data(), child.in.is_open() ? 2 : 1, static_cast<int>(std::clamp(left * 1000, 1.0, 1000.0)));
    if (child.in.is_open() && files[1].revents != 0) feed(child.in, rest);
    if (files[0].revents != 0) open = drain(child.out, output);
    if (output.size() > kMostOutput)
      fail("reward command: the output is larger than {} MiB", kMostOutput >> 20);
  }
  std::optional<int> found;
  while (!(found = child.ended())) {
    if (seconds_since(start) > seconds)
      fail("reward command: timed out after {:g} s and was terminated; set a larger `reward_seconds`",
           seconds);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const int status = *found;
  if (WIFSIGNALED(status)) fail("reward command: terminated by signal {}", WTERMSIG(status));
  if (WEXITSTATUS(status) != 0) fail("reward command: exited with status {}", WEXITSTATUS(status));
  return output;
}

}  // namespace gpt
