#pragma once

#include <boost/beast/http.hpp>

#include "serve/http/http.h"

namespace gpt::serve {

// Beast's request parser. Also detects a folded Transfer-Encoding header, which Beast unfolds.
class RequestParser : public boost::beast::http::request_parser<boost::beast::http::string_body> {
 public:
  // Returns true if the Transfer-Encoding header extends over several lines (obs-fold of RFC 9112, section
  // 5.2).
  bool folded_encoding() const { return folded_encoding_; }

 private:
  using Text = boost::beast::string_view;

  // The name and a value that was not unfolded point into the same input, separated by a colon and white
  // space.
  void on_field_impl(boost::beast::http::field field, Text name, Text value,
                     boost::beast::error_code& error) override {
    error = {};
    if (field == boost::beast::http::field::transfer_encoding) {
      const char* at = name.data() + name.size() + 1;
      while (*at == ' ' || *at == '\t')
        ++at;
      folded_encoding_ = folded_encoding_ || at != value.data();
    }
    get().insert(field, name, value);
  }

  bool folded_encoding_ = false;
};

}  // namespace gpt::serve
