#pragma once

#include "serve/http.h"
#include "serve/router.h"

namespace gpt::serve {

// The files of the web pages, each at a path of its own, open and without anything of a model: "/" to chat,
// "/training" to look at runs. What they show they ask for, as any client does.
// has_chat: else "/" leads to "/training".
void add_pages(Router& router, bool has_chat);

// The headers of a page or of a file of one. Scripts are the server's own files, and that of trace pages by
// its digest: a page that is opened from a blob has the policy of the page that made it.
HttpHeaders page_headers();

// A page that the server made for one client: what is made of a model is not kept by anybody.
HttpReply made_page(std::string html);

}  // namespace gpt::serve
