#include "trace/page.h"

#include <nlohmann/json.hpp>
#include <string_view>

#include "base/error.h"
#include "kernels/quant.h"
#include "model/model_counts.h"
#include "tensor/element.h"

namespace gpt {
namespace {

using nlohmann::json;

constexpr int64_t kExactQk = int64_t{12} << 20;    // bytes of queries and keys that go in as fp32
constexpr int64_t kResults = int64_t{8} << 20;     // bytes of all other results
constexpr int64_t kParameters = int64_t{1} << 20;  // parameters of a model small enough to show them

void append_base64(std::string& out, std::string_view bytes) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t v = 0;
    const size_t n = std::min<size_t>(3, bytes.size() - i);
    for (size_t k = 0; k < 3; ++k)
      v = v << 8 | (k < n ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (size_t k = 0; k < 4; ++k)
      out += k <= n ? kDigits[v >> (18 - 6 * k) & 63] : '=';
  }
}

// Numbers of any floating type, or of blocks, as fp32.
std::vector<float> numbers(const TensorView& v) {
  std::vector<float> out(static_cast<size_t>(v.size()));
  for (int64_t r = 0; r < v.rows(); ++r) {
    float* row = out.data() + r * v.cols();
    if (is_quantized(v.dtype)) {
      dequantize_row(v.dtype, v.row_range(r, 1).data, v.cols(), row);
      continue;
    }
    for (int64_t c = 0; c < v.cols(); ++c)
      row[c] = static_cast<float>(element(v, r, c));
  }
  return out;
}

// The tensors that the page carries: a list of them, and a script element with the numbers of each.
class PageTensors {
 public:
  void add(const std::string& name, const TensorView& view, const Shape& shape, const char* group,
           bool half) {
    const std::vector<float> values = numbers(view);
    std::string bytes;
    if (half) {
      std::vector<f16> small;
      small.reserve(values.size());
      for (const float x : values)
        small.push_back(to_f16(x));
      bytes.assign(reinterpret_cast<const char*>(small.data()), small.size() * sizeof(f16));
    } else {
      bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    }
    list_.push_back({{"name", name},
                     {"shape", shape},
                     {"cols", view.cols()},
                     {"type", half ? "f16" : "f32"},
                     {"group", group}});
    elements_ += "<script type=\"text/plain\" id=\"t-" + name + "\">";
    append_base64(elements_, bytes);
    elements_ += "</script>\n";
  }

  std::string list() const { return list_.dump(); }
  const std::string& elements() const { return elements_; }

 private:
  json list_ = json::array();
  std::string elements_;
};

bool is_query_or_key(const std::string& name) {
  return name.size() > 2 && (name.substr(name.size() - 2) == ".q" || name.substr(name.size() - 2) == ".k");
}

void add_results(PageTensors& tensors, const Capture& capture, bool half) {
  int64_t bytes = 0;
  const std::vector<NamedActivation> all = capture.activations();
  for (const NamedActivation& a : all)
    bytes += is_query_or_key(a.name) ? 0 : a.view.size() * static_cast<int64_t>(sizeof(float));
  for (const NamedActivation& a : all) {
    // Attention is computed in the page; the rest is there in full or not at all.
    const bool weights = a.shape.size() == 3 && a.name.find(".attention") != std::string::npos;
    if (is_query_or_key(a.name)) {
      tensors.add(a.name, a.view, a.shape, "activation", half);
    } else if (!weights && bytes <= kResults) {
      tensors.add(a.name, a.view, a.shape, "activation", false);
    }
  }
}

void add_parameters(PageTensors& tensors, const Model& model) {
  if (model.table.total() > kParameters) return;
  for (int id = 0; id < model.table.count(); ++id) {
    const ParamSpec& spec = model.table[id];
    tensors.add(spec.name, model.weights[static_cast<size_t>(id)], spec.shape, "parameter", true);
  }
}

// What stands where "@@NAME@@" does in the page's frame.
void fill_in(std::string& page, const std::string& name, std::string_view content) {
  const std::string mark = "@@" + name + "@@";
  const size_t at = page.find(mark);
  GPT_ASSERT(at != std::string::npos);
  page.replace(at, mark.size(), content);
}

// JSON inside a script element: "<" would be the only way out of it.
std::string without_markup(const std::string& json_text) {
  std::string out;
  out.reserve(json_text.size());
  for (const char c : json_text) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string trace_page(Capture& capture, const TokenNames& names, const PageRequest& request) {
  const ModelConfig& c = capture.config();
  const int64_t qk = capture.n_tokens() * (c.q_dim() + c.kv_dim()) * c.n_layer;
  const bool half = qk * static_cast<int64_t>(sizeof(float)) > kExactQk;
  if (qk * 3 > kMaxPageBytes) {  // two bytes each, four thirds of that in base64
    fail("a page of {} tokens and {} blocks would need more than {} MiB; give a shorter prompt",
         capture.n_tokens(), c.n_layer, kMaxPageBytes >> 20);
  }
  PageTensors tensors;
  add_parameters(tensors, capture.model());
  add_results(tensors, capture, half);
  std::string page = detail::trace_page_html();
  fill_in(page, "STYLE", detail::trace_page_style());
  fill_in(page, "SCRIPT", detail::trace_page_script());
  fill_in(page, "TENSORS", tensors.elements());
  fill_in(page, "META", without_markup(detail::page_meta(capture, names, request, tensors.list(), half)));
  return page;
}

}  // namespace gpt
