#include "distributed/same.h"

#include "base/error.h"

namespace gpt {

void require_same(Communicator& processes, const std::string& what, const std::string& own) {
  if (processes.size() == 1) return;
  constexpr size_t kMost = 200;  // maximum number of bytes shown in the error
  const std::vector<std::string> all = gather(processes, own, "comparing the ranks");
  for (int rank = 1; rank < processes.size(); ++rank) {
    const std::string& found = all[static_cast<size_t>(rank)];
    if (found == all[0]) continue;
    fail(
        "rank {} on {} has a different {} than rank 0 on {}: expected {}, found {}; it must be the same on "
        "all ranks",
        rank, processes.host(rank), what, processes.host(0), all[0].substr(0, kMost), found.substr(0, kMost));
  }
}

}  // namespace gpt
