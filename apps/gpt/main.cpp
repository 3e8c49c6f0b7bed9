#include <cstdio>

int main() {
  std::puts("gpt");
  return 0;
}
