#pragma once

#include <string>

#include "trace/capture.h"
#include "trace/token_names.h"

namespace gpt {

// The texts in the header of a trace page.
struct PageRequest {
  std::string model;     // model name as given by the user
  std::string computed;  // dtype and instruction set, for example "fp32, avx512"
};

// Returns the trace as a single HTML page that works without a network or a server. Text from the model is
// embedded as JSON with every "<" escaped, and the page inserts it only as plain text. A content security
// policy in the page blocks all external resources. The page contains queries and keys as fp32, or as fp16 if
// they are large. It also contains the other results and the parameters of the model, if they are small
// enough. Throws Error if the page would be larger than kMaxPageBytes.
std::string trace_page(Capture& capture, const TokenNames& names, const PageRequest& request);

inline constexpr int64_t kMaxPageBytes = int64_t{256} << 20;

// The source files of the page from src/trace/page, embedded as strings.
namespace detail {
const char* trace_page_html();
const char* trace_page_style();
const char* trace_page_script();
}  // namespace detail

}  // namespace gpt
