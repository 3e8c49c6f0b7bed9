#include "lost_page.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>

#include "interrupt.h"

namespace gpt {
namespace {

// All of this runs inside a signal handler: nothing but open, read, write and _exit, no memory from the heap.

// The hexadecimal number at `at`, which moves behind it.
uintptr_t hexadecimal(const char*& at) {
  uintptr_t value = 0;
  for (;; ++at) {
    const char c = *at;
    if (c >= '0' && c <= '9') {
      value = value << 4 | static_cast<uintptr_t>(c - '0');
    } else if (c >= 'a' && c <= 'f') {
      value = value << 4 | static_cast<uintptr_t>(c - 'a' + 10);
    } else {
      return value;
    }
  }
}

// Whether a line of /proc/self/maps, "begin-end rights offset device inode path", covers an address.
bool covers(const char* line, uintptr_t address) {
  const uintptr_t begin = hexadecimal(line);
  if (*line++ != '-') return false;
  return begin <= address && address < hexadecimal(line);
}

void write_path(uintptr_t address) {
  const int maps = ::open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  char line[4352];  // longer than any path
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
  while (reporting.test_and_set())  // another thread touched the same file
    ::pause();
  write_in_handler("\ngpt: cannot read ");
  write_path(reinterpret_cast<uintptr_t>(info->si_addr));
  write_in_handler(": it became shorter while it was in use, or its disk failed; run the command again once it is whole\n");
  ::_exit(1);
}

}  // namespace

void install_lost_page_handler() {
  struct sigaction action = {};
  action.sa_sigaction = report;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_SIGINFO;
  ::sigaction(SIGBUS, &action, nullptr);
}

}  // namespace gpt
