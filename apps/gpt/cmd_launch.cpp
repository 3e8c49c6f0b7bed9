// gpt launch: runs a command under mpirun with the options that it needs, and restarts it from the last
// checkpoint after a failure.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>

#include "base/clock.h"
#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "command.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "report/next_step.h"
#include "run/checkpoint.h"
#include "world.h"

namespace gpt {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kLaunchFooter = R"(Examples:
  gpt launch -n 2 -- train --preset mini-gpt --data input.txt --out run
  gpt launch -n 16 --hostfile hosts.txt --restart 5 -- train --config run.json --out run
  gpt launch -n 4 -- train --resume --out run
  gpt launch -n 4 -- eval run --data test.txt

This is mpirun -n N gpt train ..., with an equal share of the cores for each process (mpirun alone gives each of one or two a single core, unless it has --bind-to none), or room for more processes than cores. All processes need the same program and the same files, so folders must be on a file system that they share.
Ctrl-C, SIGTERM and SIGUSR1 reach the processes as SIGUSR1: they finish the step and save. (mpirun alone leaves them a second.))";

struct LaunchArguments {
  int n = 0, restart = 0;
  std::string hostfile;
  Words words;  // words of the command, starting with its name
};

// Handles SIGINT (Ctrl-C), SIGTERM, SIGHUP and SIGUSR1 during its lifetime. The signals are blocked and
// received synchronously by `wait`, so none is lost between two starts or reaches a process that is being
// created.
class StopRequests {
 public:
  StopRequests() {
    std::signal(SIGCHLD, SIG_DFL);
    struct sigaction hangup = {};
    ::sigaction(SIGHUP, nullptr, &hangup);
    ::sigemptyset(&set_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGCHLD}) {
      // SIGHUP is ignored under nohup.
      if (signal != SIGHUP || hangup.sa_handler != SIG_IGN) ::sigaddset(&set_, signal);
    }
    ::pthread_sigmask(SIG_BLOCK, &set_, &before_);
  }
  ~StopRequests() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  // Restores the original signal mask in a new process.
  void restore() const { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  enum class Event : uint8_t { request, child, none };
  // Returns an event that is pending or arrives within this many seconds, or `none`.
  Event wait(double seconds) {
    const auto until = Clock::now() + std::chrono::duration<double>(seconds);
    for (;;) {
      const double left = std::max(std::chrono::duration<double>(until - Clock::now()).count(), 0.0);
      const auto whole = static_cast<time_t>(left);
      const timespec rest{.tv_sec = whole,
                          .tv_nsec = static_cast<long>((left - static_cast<double>(whole)) * 1e9)};
      const int signal = ::sigtimedwait(&set_, nullptr, &rest);
      if (signal == SIGCHLD) return Event::child;
      if (signal < 0 && errno != EINTR) return Event::none;
      if (signal < 0 || (count_ > 0 && belongs_to_the_first(signal))) continue;
      ++count_;
      last_ = Clock::now();
      return Event::request;
    }
  }
  int count() const { return count_; }

 private:
  bool belongs_to_the_first(int signal) const {
    return signal == SIGHUP || signal == SIGUSR1 || seconds_since(last_) < kSameRequest;
  }

  sigset_t set_ = {}, before_ = {};
  int count_ = 0;
  Clock::time_point last_;
};

Words launch_words(const LaunchArguments& a) {
  Words words = {"gpt", "launch", "-n", std::to_string(a.n)};
  if (!a.hostfile.empty()) words.insert(words.end(), {"--hostfile", a.hostfile});
  if (a.restart > 0) words.insert(words.end(), {"--restart", std::to_string(a.restart)});
  words.emplace_back("--");
  return words;
}

Words mpirun_words(const LaunchArguments& a, const Words& command) {
  Words words = {"mpirun", "-n", std::to_string(a.n)};
  if (!a.hostfile.empty()) words.insert(words.end(), {"--hostfile", a.hostfile});
  // Open MPI would bind each of one or two processes to a single core. The processes choose their share of
  // the cores themselves.
  const int cores = available_cpus() / a.n;
  if (a.hostfile.empty() && cores == 0) words.push_back("--oversubscribe");
  if (a.hostfile.empty() && cores > 1) words.insert(words.end(), {"--bind-to", "none"});
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  // Pass the variables to processes on other machines.
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string setting = *variable;
    if (setting.starts_with("GPT_")) words.insert(words.end(), {"-x", setting.substr(0, setting.find('='))});
  }
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// Waits for mpirun to end and forwards requests to stop. Returns the status of `waitpid`. mpirun forwards
// SIGUSR1 to all processes; after SIGTERM it gives them one second. A request that mpirun receives before it
// has started the processes is lost. Requests are therefore repeated at increasing intervals; the processes
// count repeated requests as one.
int wait_for(pid_t pid, StopRequests& stops) {
  constexpr double kUntilSomething = 3600;
  double pause = 0.25;  // seconds; doubles with each repetition
  for (;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) return status;
    if (ended < 0 && errno != EINTR) fail("cannot wait for mpirun: {}", std::strerror(errno));
    const StopRequests::Event event = stops.wait(stops.count() == 0 ? kUntilSomething : pause);
    if (event == StopRequests::Event::child || stops.count() == 0) continue;
    ::kill(pid, stops.count() == 1 ? SIGUSR1 : SIGTERM);
    if (event == StopRequests::Event::none) pause *= 2;
  }
}

// Runs a command. Returns its exit status, or 128 plus the number of the signal that ended it.
int run_words(const Words& words, StopRequests& stops) {
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) fail("cannot start {}: {}", words.front(), std::strerror(errno));
  if (pid == 0) {
    ::setpgid(0, 0);  // so that signals from the terminal only reach the parent, which forwards them
    stops.restore();
    ::execvp(argv.front(), argv.data());
    ::_exit(127);
  }
  const int status = wait_for(pid, stops);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string out_folder(const Words& words) {
  for (size_t i = 0; i < words.size(); ++i) {
    if ((words[i] == "--out" || words[i] == "-o") && i + 1 < words.size()) return words[i + 1];
    if (words[i].starts_with("--out=")) return words[i].substr(std::strlen("--out="));
  }
  return "";
}

bool resumes(const Words& words) {
  return std::ranges::find(words, "--resume") != words.end();
}

// Returns the command that resumes the run of this launch. Settings in config.json are part of the run. Flags
// that are not in config.json, and --stop-after, are repeated.
Words words_to_go_on(const Words& words, const std::string& out) {
  if (resumes(words)) return words;
  Words again = {words.front(), "--resume", "--out", out};
  for (size_t i = 1; i < words.size(); ++i) {
    const std::string flag = words[i].substr(0, words[i].find('='));
    if (flag == "--verbose" || flag == "--quiet") again.push_back(words[i]);
    if (flag != "--threads" && flag != "-t" && flag != "--stop-after" && flag != "--serve") continue;
    again.push_back(words[i]);
    if (flag.size() == words[i].size() && i + 1 < words.size()) again.push_back(words[++i]);
  }
  return again;
}

// Describes what a command with --resume would continue from: the step of a run's last checkpoint, or the
// plan of a sweep. Returns "" if there is nothing to resume.
std::string saved(const std::string& out) {
  if (out.empty()) return "";
  if (std::filesystem::exists(out + "/sweep.json")) return "its plan";
  if (!std::filesystem::exists(out + "/last/train_state.json")) return "";
  return "step " + format_thousands(read_run_state(out + "/last").step);
}

void check(const LaunchArguments& a) {
  if (a.n < 1 || a.n > 1 << 20)
    fail_usage("launch -n: expected the number of processes, 1 or more, found {}", a.n);
  if (a.restart < 0) fail_usage("launch --restart: expected 0 or more restarts, found {}", a.restart);
  const std::vector<std::string>& shared = shared_commands();
  if (a.words.empty() || std::ranges::find(shared, a.words.front()) == shared.end())
    fail_usage("launch: expected -- {} and its options{}; see gpt launch --help", format_choices(shared),
               a.words.empty() ? "" : fmt::format(", found -- {}", a.words.front().substr(0, 64)));
  if (a.restart > 0 && out_folder(a.words).empty())
    fail_usage("launch --restart: requires --out DIR in the training command");
}

// A failed attempt of a distributed run.
struct Failure {
  int status = 0;
  std::string saved;  // what the run could be resumed from
  bool operator==(const Failure&) const = default;
};

// Returns the exit status after a request to stop, if the processes ended before they could save, or were
// still starting.
int status_after_stop(int status) {
  if (status < 128 || status == kInterruptedStatus) return status;
  write_note("launch: stopped before the first step was saved\n");
  return kInterruptedStatus;
}

class Launcher {
 public:
  explicit Launcher(const LaunchArguments& a)
      : a_(a),
        out_(out_folder(a.words)),
        // A run that existed before is not mistaken for the run that this launch starts.
        own_run_(!out_.empty() && (resumes(a.words) || saved(out_).empty())),
        words_(a.words) {}

  int run() {
    for (;;) {
      if (stops_.wait(0) == StopRequests::Event::request) return status_after_stop(128 + SIGTERM);
      const int status = run_words(mpirun_words(a_, words_), stops_);
      if (status == 127)
        fail("mpirun was not found: install openmpi-bin; gpt must be built with libopenmpi-dev");
      if (stops_.count() > 0) return status_after_stop(status);
      constexpr int kUsage = 2;
      if (status == 0 || status == kUsage || status == kInterruptedStatus) return status;
      if (!starts_again({status, saved(out_)})) return status;
    }
  }

 private:
  bool starts_again(const Failure& failure) {
    const bool goes_on = own_run_ && !failure.saved.empty();
    const std::string way_on = fmt::format("; {} {} resumes the run", shell_command(launch_words(a_)),
                                           shell_command(words_to_go_on(a_.words, out_)));
    if (restarts_ == a_.restart) {  // also if no restarts were requested
      if (goes_on) write_note(fmt::format("launch: {} has {}{}\n", out_, failure.saved, way_on));
      return false;
    }
    if (!own_run_) {
      write_note(fmt::format("launch: no restart, because {} already contained a run{}\n", out_, way_on));
      return false;
    }
    if (last_ == failure) {
      write_note(
          fmt::format("launch: no further restart, because the run failed twice with status {} without "
                      "saving a checkpoint in between; see its messages above{}\n",
                      failure.status, goes_on ? ", then" + way_on.substr(1) : ""));
      return false;
    }
    last_ = failure;
    if (goes_on) words_ = words_to_go_on(a_.words, out_);
    write_note(fmt::format(
        "launch: the run failed with status {}; restart {} of {} {}\n", failure.status, ++restarts_,
        a_.restart, goes_on ? "resumes from " + failure.saved : "starts again, because nothing was saved"));
    return true;
  }

  const LaunchArguments& a_;
  StopRequests stops_;
  std::string out_;
  bool own_run_;
  Words words_;
  int restarts_ = 0;
  std::optional<Failure> last_;
};

int run(const LaunchArguments& a) {
  check(a);
  ::setenv(kLaunchedBy, shell_command(launch_words(a)).c_str(), 1);
  return Launcher(a).run();
}

}  // namespace

Command add_launch_command(CLI::App& root, const Words& words) {
  auto a = std::make_shared<LaunchArguments>();
  a->words = words;
  CLI::App* app =
      add_command(root, "launch", "train, evaluate or sweep with several processes (mpirun)", kLaunchFooter);
  add(*app, {.flags = "-n", .value = "N", .help = "Number of processes"}, a->n);
  add(*app,
      {.flags = "--restart",
       .value = "K",
       .help = "Maximum number of restarts from the last checkpoint after a failure"},
      a->restart);
  add(*app,
      {.flags = "--hostfile",
       .value = "FILE",
       .help = "Machines and their slots in the format of mpirun",
       .kind = ValueKind::path},
      a->hostfile);
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt
