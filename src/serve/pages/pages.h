#pragma once

#include <string>
#include <vector>

#include "serve/http/http.h"
#include "serve/router.h"

namespace gpt::serve {

// Returns the endpoints of the files of the web pages, each at its own path: "/" is the chat page and
// "/training" shows training runs. The files need no key and contain no model data. The pages request their
// data like any other client. A server without models redirects "/" to "/training".
std::vector<Endpoint> page_endpoints();

// Returns the headers of a page or of one of its files. The content security policy allows scripts of this
// server, and the script of trace pages by its digest. The digest is needed because a page that is opened
// from a blob inherits the policy of the page that created it.
HttpHeaders page_headers();

// Returns a page that was generated for one client. The page must not be cached because it contains data of a
// model.
HttpReply made_page(std::string html);

}  // namespace gpt::serve
