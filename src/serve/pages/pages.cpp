#include "serve/pages/pages.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "base/ranges.h"
#include "infer/sampler.h"
#include "serve/json_text.h"
#include "serve/openai/endpoints.h"

namespace gpt::detail {  // generated from src/serve/page and src/trace/page
const char* chat_page_html();
const char* chat_page_style();
const char* chat_page_script();
const char* training_page_html();
const char* training_page_style();
const char* training_page_script();
const char* trace_page_script_sha256();
}  // namespace gpt::detail

namespace gpt::serve {
namespace {

struct PageFile {
  std::string_view path;
  const char* help;
  const char* content_type;
  const char* (*text)();
};

constexpr const char* kHtml = "text/html; charset=utf-8";
constexpr const char* kStyle = "text/css; charset=utf-8";
constexpr const char* kScript = "text/javascript; charset=utf-8";

// Returns the script of the chat page. It begins with kSampling, which contains the defaults and ranges of
// the sampling parameters.
const char* chat_script() {
  static const std::string script = [] {
    nlohmann::ordered_json fields;
    const SamplingParams defaults;
    gptcpp::visit_sampling(defaults, [&](const SamplingField& f, const auto& value) {
      if constexpr (std::is_arithmetic_v<std::decay_t<decltype(value)>>)
        fields[f.name] = {{"default", value}, {"off", f.off}, {"min", f.request_min}, {"max", f.request_max}};
    });
    return "'use strict';\nconst kSampling = " + fields.dump() + ";\n" + detail::chat_page_script();
  }();
  return script.c_str();
}

constexpr PageFile kFiles[] = {
    {"/", "The chat page", kHtml, detail::chat_page_html},
    {"/chat.css", "Style sheet of the chat page", kStyle, detail::chat_page_style},
    {"/chat.js", "Script of the chat page", kScript, chat_script},
    {"/training", "The page that shows training runs", kHtml, detail::training_page_html},
    {"/training.css", "Style sheet of the training page", kStyle, detail::training_page_style},
    {"/training.js", "Script of the training page", kScript, detail::training_page_script}};

// Returns a hex digest in the notation of a content security policy.
std::string allowed_script(std::string_view hex) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(digit(hex[i]) * 16 + digit(hex[i + 1]));
  return "'sha256-" + base64(bytes) + "'";
}

// Inline styles are allowed because the trace pages use them. They come only from the program's own scripts.
const std::string& policy() {
  static const std::string text = fmt::format(
      "default-src 'none'; script-src 'self' {}; style-src 'self' 'unsafe-inline'; connect-src 'self'; "
      "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      allowed_script(detail::trace_page_script_sha256()));
  return text;
}

HttpReply file_reply(const PageFile& file) {
  HttpReply reply{.body = file.text(), .content_type = file.content_type, .headers = page_headers()};
  // A different version of the program has different files.
  reply.headers.emplace_back("Cache-Control", "no-cache");
  return reply;
}

HttpReply redirect_to(const char* path) {
  HttpReply reply{.status = 302, .content_type = kHtml, .headers = page_headers()};
  reply.headers.emplace_back("Location", path);
  // A server with a model may use this address later.
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

}  // namespace

HttpHeaders page_headers() {
  return {
      {"Content-Security-Policy", policy()}, {"Referrer-Policy", "no-referrer"}, {"X-Frame-Options", "DENY"}};
}

HttpReply made_page(std::string html) {
  HttpReply reply{.body = std::move(html), .content_type = kHtml, .headers = page_headers()};
  reply.headers.emplace_back("Cache-Control", "no-store");
  return reply;
}

namespace {

void send_page_file(const Service& service, const std::shared_ptr<Call>& call) {
  const std::string_view path = call->request().path();
  if (!service.has_chat && path == "/") return call->send(redirect_to("/training"));
  call->send(file_reply(*std::ranges::find(kFiles, path, &PageFile::path)));
}

}  // namespace

std::vector<Endpoint> page_endpoints() {
  return transformed(kFiles, [](const PageFile& file) {
    return Endpoint{.method = "GET",
                    .path = std::string(file.path),
                    .help = file.help,
                    .open = true,
                    .content_type = file.content_type,
                    .run = send_page_file};
  });
}

}  // namespace gpt::serve
