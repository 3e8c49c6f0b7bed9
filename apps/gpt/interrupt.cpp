#include "interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>

namespace gpt {
namespace {

volatile std::sig_atomic_t interrupt_count = 0;
const char* volatile graceful_work = "";
volatile bool is_distributed = false;
volatile double interrupted_at = 0;
void (*volatile quiet_work)() = nullptr;

void write_in_handler(const char* text) {
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text, std::strlen(text));
}

// Signal handlers may only use async-signal-safe operations: set a flag, write, clock_gettime, _exit.
void end_program(int) {
  ::_exit(kInterruptedStatus);
}

double monotonic_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A launcher or batch system may forward SIGHUP and SIGUSR1 repeatedly, so they only count once.
bool belongs_to_the_first(int signal) {
  return signal == SIGHUP || signal == SIGUSR1 || monotonic_seconds() - interrupted_at < kSameRequest;
}

void count_interrupt(int signal) {
  if (interrupt_count > 0) {
    if (!belongs_to_the_first(signal)) ::_exit(kInterruptedStatus);
    return;
  }
  interrupt_count = 1;
  interrupted_at = monotonic_seconds();
  if (graceful_work == nullptr) return;
  const bool of_mpirun = signal == SIGTERM && is_distributed;
  write_in_handler(of_mpirun ? "\nstopped by mpirun: " : "\ninterrupted: ");
  write_in_handler(graceful_work);
  write_in_handler(of_mpirun ? ", if the other ranks do so in time\n"
                             : "; press Ctrl-C again to exit immediately\n");
}

void count_quietly(int) {
  if (interrupt_count > 0) ::_exit(kInterruptedStatus);
  interrupt_count = 1;
  quiet_work();
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

void install_for_all(void (*handler)(int)) {
  install(SIGINT, handler);
  install(SIGTERM, handler);
  struct sigaction hangup = {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  if (hangup.sa_handler != SIG_IGN) install(SIGHUP, handler);
}

// The functions below run inside a signal handler. They only use open, read, write and _exit, and no heap
// memory.

// Returns true if a line of /proc/self/maps, "begin-end rights offset device inode path", covers the address.
bool covers(const char* line, uintptr_t address) {
  uintptr_t begin = 0, end = 0;
  const char* const stop = line + std::strlen(line);
  const char* const dash = std::from_chars(line, stop, begin, 16).ptr;
  if (*dash != '-') return false;  // NOLINT(clang-analyzer-core.*): read() has filled the line
  std::from_chars(dash + 1, stop, end, 16);
  return begin <= address && address < end;
}

void write_path(uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char line[4352];  // longer than the longest path
  size_t size = 0;
  char c = 0;
  while (maps >= 0 && ::read(maps, &c, 1) == 1) {
    if (c != '\n') {
      if (size + 1 < sizeof(line)) line[size++] = c;
      continue;
    }
    line[size] = '\0';
    const char* path = std::strchr(line, '/');
    if (path != nullptr && covers(line, address)) return write_in_handler(path);
    size = 0;
  }
  write_in_handler("a mapped file");
}

std::atomic_flag reporting;

void report(int, siginfo_t* info, void*) {
  while (reporting.test_and_set())  // another thread is already reporting the same file
    ::pause();
  write_in_handler("\ngpt: cannot read ");
  write_path(reinterpret_cast<uintptr_t>(info->si_addr));
  write_in_handler(
      ": the file was truncated while in use, or its disk failed; restore the file and run the command "
      "again\n");
  ::_exit(1);
}

}  // namespace

void install_signal_defaults() {
  install(SIGPIPE, SIG_IGN);
  install(SIGINT, end_program);
  install(SIGUSR1, end_program);
}

void install_ending_signals() {
  install_for_all(end_program);
}

void install_graceful_interrupt(const char* what, bool distributed) {
  graceful_work = what;
  is_distributed = distributed;
  install_for_all(count_interrupt);
  install(SIGUSR1, count_interrupt);
}

QuietInterrupt::QuietInterrupt(void (*then)()) {
  quiet_work = then;
  install(SIGINT, count_quietly);
}

QuietInterrupt::~QuietInterrupt() {
  install(SIGINT, end_program);
  interrupt_count = 0;
}

bool interrupted() {
  return interrupt_count > 0;
}

void install_lost_page_handler() {
  struct sigaction action = {};
  action.sa_sigaction = report;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace gpt
