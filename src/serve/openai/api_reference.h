#pragma once

#include <string>

namespace gpt::serve {

// Returns the OpenAPI document of the API as JSON. It is built once.
const std::string& openapi_document();
// Returns the API reference in Markdown, docs/api-server.md.
std::string api_reference();

}  // namespace gpt::serve
