#pragma once

#include <string>

#include "trace/capture.h"
#include "trace/token_names.h"

namespace gpt {

// Text for the header of a trace page.
struct PageRequest {
  std::string model;     // model name as given by the user
  std::string computed;  // dtype and instruction set, for example "fp32, avx512"
};

// Returns the trace as one HTML page that needs no network and no server. Text from the model is embedded as
// JSON with every "<" escaped, and the page inserts it only as plain text. A content security policy in the
// page blocks all external resources. Queries and keys are stored as fp32, or as fp16 if they are large.
// Other results and the parameters of small models are included if they fit. Throws Error if the page would
// be larger than kMaxPageBytes.
std::string trace_page(Capture& capture, const TokenNames& names, const PageRequest& request);

inline constexpr int64_t kMaxPageBytes = int64_t{256} << 20;

// The source files of the page from src/trace/page, embedded as strings.
namespace detail {
const char* trace_page_html();
const char* trace_page_style();
const char* trace_page_script();
}  // namespace detail

}  // namespace gpt
