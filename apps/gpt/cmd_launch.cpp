// gpt launch: mpirun with what a run needs, and once more from the last checkpoint when it was torn down.

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>

#include "base/error.h"
#include "base/format.h"
#include "base/json.h"
#include "base/thread_pool.h"
#include "command.h"
#include "interrupt.h"
#include "options.h"
#include "output.h"
#include "train/checkpoint.h"
#include "world.h"

namespace gpt {
namespace {

using Words = std::vector<std::string>;

constexpr const char* kFooter = R"(Examples:
  gpt launch -n 2 -- train --preset mini-gpt --data input.txt --out run
  gpt launch -n 16 --hostfile hosts.txt --restart 5 -- train --config run.json --out run
  gpt launch -n 4 -- train --resume --out run
  gpt launch -n 4 -- eval run --data test.txt

This is mpirun -n N gpt train ..., with an equal share of the cores for each process (mpirun alone gives each of one or two a single core, unless it has --bind-to none), or room for more processes than cores. All processes need the same program and the same files, so folders must be on a file system that they share.
Ctrl-C and SIGTERM reach the processes as SIGUSR1: they finish the step and save. (mpirun alone leaves them a second.))";

struct LaunchArguments {
  int n = 0, restart = 0;
  std::string hostfile;
  Words words;  // of the command, its name first
};

volatile std::sig_atomic_t stop_count = 0;
volatile pid_t child = -1;

// mpirun passes SIGUSR1 on to all processes; after SIGTERM it leaves them a second.
void pass_on(int) {
  stop_count = stop_count + 1;
  if (child > 0) ::kill(child, stop_count == 1 ? SIGUSR1 : SIGTERM);
}

Words mpirun_words(const LaunchArguments& a, const Words& command) {
  Words words = {"mpirun", "-n", std::to_string(a.n)};
  if (!a.hostfile.empty()) words.insert(words.end(), {"--hostfile", a.hostfile});
  // Open MPI binds each of one or two processes to a single core; each takes its share of all by itself.
  const int cores = available_cpus() / a.n;
  if (a.hostfile.empty() && cores == 0) words.push_back("--oversubscribe");
  if (a.hostfile.empty() && cores > 1) words.insert(words.end(), {"--bind-to", "none"});
  if (::geteuid() == 0) words.push_back("--allow-run-as-root");
  for (char** variable = environ; *variable != nullptr; ++variable) {  // for processes on other machines
    const std::string setting = *variable;
    if (setting.starts_with("GPT_")) words.insert(words.end(), {"-x", setting.substr(0, setting.find('='))});
  }
  words.push_back(std::filesystem::read_symlink("/proc/self/exe").string());
  words.insert(words.end(), command.begin(), command.end());
  return words;
}

// The exit status, 128 and the signal where one ended it.
int run_words(const Words& words) {
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid < 0) fail("cannot start {}: {}", words.front(), std::strerror(errno));
  if (pid == 0) {
    ::setpgid(0, 0);  // what a terminal signals is passed on by its parent
    ::execvp(argv.front(), argv.data());
    ::_exit(127);
  }
  child = pid;
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  child = -1;
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

// The words of a command that goes on with the run that this launch began. What config.json has is in the
// run; what it does not have, and where the run is to stop, is said again.
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

// What a command with --resume goes on from: the step of a run's last checkpoint, the plan of a sweep; "":
// nothing.
std::string saved(const std::string& out) {
  if (std::filesystem::exists(out + "/sweep.json")) return "its plan";
  if (!std::filesystem::exists(out + "/last/train_state.json")) return "";
  return "step " + format_thousands(read_run_state(out + "/last").step);
}

void check(const LaunchArguments& a) {
  if (a.n < 1 || a.n > 1 << 20)
    fail_usage("launch -n: expected the number of processes, 1 or more, found {}", a.n);
  const std::vector<std::string>& shared = shared_commands();
  if (a.words.empty() || std::ranges::find(shared, a.words.front()) == shared.end())
    fail_usage("launch: expected -- {} and its flags{}; see gpt launch --help", fmt::join(shared, " or "),
               a.words.empty() ? "" : fmt::format(", found -- {}", a.words.front().substr(0, 64)));
  if (a.restart > 0 && out_folder(a.words).empty())
    fail_usage("launch --restart: the training needs --out DIR to go on from");
}

int run(const LaunchArguments& a) {
  check(a);
  struct sigaction action = {};
  action.sa_handler = pass_on;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP})
    ::sigaction(signal, &action, nullptr);
  const std::string out = out_folder(a.words);
  // A run that was there before is not taken for the one that this launch was to begin.
  const bool may_restart = a.restart > 0 && (resumes(a.words) || saved(out).empty());
  Words words = a.words;
  for (int restarts = 0;; ++restarts) {
    const int status = run_words(mpirun_words(a, words));
    if (status == 127)
      fail("mpirun was not found: install openmpi-bin; gpt must be built with libopenmpi-dev");
    constexpr int kUsage = 2;
    const bool restart = status != 0 && status != kUsage && status != kInterruptedStatus && stop_count == 0 &&
                         restarts < a.restart;
    if (restart && !may_restart)
      write_note(fmt::format(
          "launch: no restart: {} held a run before this one; launch ... -- {} --resume goes on with it\n",
          out, a.words.front()));
    if (!restart || !may_restart) return status;
    const std::string from = saved(out);
    if (!from.empty()) words = words_to_go_on(a.words, out);
    write_note(fmt::format("launch: the run ended with status {}; restart {} of {} {}\n", status,
                           restarts + 1, a.restart,
                           from.empty() ? "begins anew: nothing was saved yet" : "goes on from " + from));
  }
}

}  // namespace

Command add_launch_command(CLI::App& root, const Words& words) {
  auto a = std::make_shared<LaunchArguments>();
  a->words = words;
  CLI::App* app =
      add_command(root, "launch", "train, evaluate or sweep with several processes (mpirun)", kFooter);
  add_value(*app, "-n", a->n, "N", "processes");
  add_value(*app, "--restart", a->restart, "K", "start again from the last checkpoint, at most so often (0)");
  add_value(*app, "--hostfile", a->hostfile, "FILE", "machines and their slots, as mpirun reads them");
  return {app, [a] { return run(*a); }};
}

}  // namespace gpt
