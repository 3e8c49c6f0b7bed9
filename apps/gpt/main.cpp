#include <cstdio>
#include <cstdlib>
#include "verify/verify.h"
int main(int argc, char** argv) {
  try {
    gpt::VerifyOptions o;
    o.golden = std::string(argv[1]) + "/golden.safetensors";
    const char* isa = getenv("GPT_ISA");
    o.isa = isa ? gpt::parse_isa(isa) : gpt::best_isa();
    o.threads = 2;
    if (argc > 2) o.dtype = gpt::DType::f64;
    auto r = gpt::verify_model(argv[1], o);
    for (auto& c : r.checks) if (!c.passed) std::printf("%s %g > %g %s\n", c.name.c_str(), c.error, c.tolerance, c.detail.c_str());
    std::puts(r.passed() ? "PASS" : "FAIL");
  } catch (std::exception& e) { std::puts(e.what()); return 1; }
}
