#include "interrupt.h"

#include <unistd.h>

#include <csignal>

namespace gpt {
namespace {

volatile std::sig_atomic_t interrupt_count = 0;

// A handler may only do what is async-signal-safe: a flag, write, _exit.
void end_program(int) {
  ::_exit(kInterruptedStatus);
}

void count_interrupt(int) {
  if (interrupt_count > 0) ::_exit(kInterruptedStatus);
  interrupt_count = 1;
  constexpr char note[] =
      "\ninterrupted: finishing the step and saving; press Ctrl-C again to quit at once\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, note, sizeof note - 1);
}

void count_quietly(int) {
  if (interrupt_count > 0) ::_exit(kInterruptedStatus);
  interrupt_count = 1;
}

void install(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART;
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void install_signal_defaults() {
  install(SIGPIPE, SIG_IGN);
  install(SIGINT, end_program);
}

void install_graceful_interrupt() {
  install(SIGINT, count_interrupt);
  install(SIGTERM, count_interrupt);
}

QuietInterrupt::QuietInterrupt() {
  install(SIGINT, count_quietly);
}

QuietInterrupt::~QuietInterrupt() {
  install(SIGINT, end_program);
  interrupt_count = 0;
}

bool interrupted() {
  return interrupt_count > 0;
}

}  // namespace gpt
