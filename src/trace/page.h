#pragma once

#include <string>

#include "trace/capture.h"
#include "trace/token_names.h"

namespace gpt {

// What a trace page says of its model.
struct PageRequest {
  std::string model;     // as named by the user
  std::string computed;  // "fp32, avx512"
};

// The trace as one HTML page that needs no network and no server. Texts from models go in as JSON with every
// "<" escaped and are shown as text only; a policy in the page forbids everything from outside. Queries and
// keys go in as fp32, or as fp16 where there are many; other results, and the parameters of small models,
// where they fit. Throws Error when the page would be larger than kMaxPageBytes.
std::string trace_page(Capture& capture, const TokenNames& names, const PageRequest& request);

inline constexpr int64_t kMaxPageBytes = int64_t{256} << 20;

// The pieces of the page, from src/trace/page.
namespace detail {
const char* trace_page_html();
const char* trace_page_style();
const char* trace_page_script();
}  // namespace detail

}  // namespace gpt
