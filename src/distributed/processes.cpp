#include "distributed/processes.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/error.h"
#include "base/parse.h"

namespace gpt {
namespace {

#ifdef GPT_MPI_BUILD
constexpr std::string_view kBuild = GPT_MPI_BUILD;
#else
constexpr std::string_view kBuild = "a build without MPI";
#endif

std::optional<int> number_in(const char* variable) {
  const char* const text = std::getenv(variable);
  return text == nullptr ? std::nullopt : parse_number<int>(text);
}

double seconds_in(const char* variable, double least, double fallback) {
  const char* const text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return fallback;
  const std::optional<double> seconds = parse_number<double>(text);
  if (!seconds || !(*seconds >= least && *seconds <= 1e7))
    fail_usage("the environment variable {}: expected a number of seconds from {} to 1e7, found \"{}\"",
               variable, least, std::string(text).substr(0, 64));
  return *seconds;
}

std::filesystem::path program_folder() {
  std::error_code unknown;
  return std::filesystem::read_symlink("/proc/self/exe", unknown).parent_path();
}

// Returns the path of gpt_mpi.so. In a build folder, the file is next to the program. After installation, the
// file is in lib/gptcpp of the installation prefix (cmake/GptInstall.cmake). Returns an empty path if neither
// file exists.
std::filesystem::path module_path() {
  std::error_code unknown;
  const std::filesystem::path folder = program_folder();
  for (const auto& path : {folder / "gpt_mpi.so", folder.parent_path() / "lib/gptcpp/gpt_mpi.so"}) {
    if (std::filesystem::exists(path, unknown)) return path;
  }
  return {};
}

}  // namespace

Launch launch_of_environment() {
  if (std::getenv("TORCHELASTIC_RUN_ID") != nullptr)
    fail_usage("torchrun cannot start this program, which uses MPI; start it with mpirun -n {} gpt ...",
               number_in("WORLD_SIZE").value_or(2));
  if (const auto size = number_in("OMPI_COMM_WORLD_SIZE"))
    return {.is_distributed = *size > 1, .size = *size};
  if (number_in("PMIX_RANK")) return {.is_distributed = true};
  if (number_in("PMI_SIZE").value_or(1) > 1)
    fail_usage(
        "this program was started by the mpiexec of a different MPI; start it with the mpirun of Open MPI");
  if (number_in("SLURM_STEP_NUM_TASKS").value_or(1) > 1)
    fail_usage("srun started several processes without PMIx; start them with srun --mpi=pmix gpt ...");
  return {};
}

int rank_of_environment() {
  const auto of_mpirun = number_in("OMPI_COMM_WORLD_RANK");
  return of_mpirun ? *of_mpirun : number_in("PMIX_RANK").value_or(0);
}

std::unique_ptr<Communicator> open_processes(const Launch& launch) {
  if (!launch.is_distributed) return nullptr;
  // Ranks send a heartbeat every second. The timeout is at least 3 s, so that a single late heartbeat does
  // not end the run.
  constexpr double kSigns = 3;
  const Timeouts patience{.silence = seconds_in("GPT_RANK_TIMEOUT", kSigns, Timeouts().silence),
                          .operation = seconds_in("GPT_COLLECTIVE_TIMEOUT", 1, Timeouts().operation)};
  const std::filesystem::path path = module_path();
  if (path.empty())
    fail(
        "gpt_mpi.so: not found in {} or {}, but distributed runs need it; install libopenmpi-dev, build "
        "again and run cmake --install, or copy the file from the build folder",
        program_folder().string(), (program_folder().parent_path() / "lib/gptcpp").string());
  // The module is never closed, because Open MPI leaves threads and handlers running.
  void* const module = ::dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (module == nullptr) fail("cannot open {}: {}", path.string(), ::dlerror());
  const auto open = reinterpret_cast<OpenMpi>(::dlsym(module, "gpt_open_mpi"));
  const auto build = reinterpret_cast<MpiBuild>(::dlsym(module, "gpt_mpi_build"));
  const std::string found = build == nullptr ? "none" : build();
  if (open == nullptr || found != kBuild)
    fail(
        "{} is from a different build than this program: expected \"{}\", found \"{}\"; build or install "
        "both again",
        path.string(), kBuild, found);
  return std::unique_ptr<Communicator>(open(patience));
}

}  // namespace gpt
