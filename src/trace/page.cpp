#include "trace/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"
#include "base/ranges.h"
#include "kernels/quant.h"
#include "model/config.h"
#include "model/model_counts.h"
#include "report/utf8_text.h"
#include "tensor/element.h"
#include "trace/views.h"

namespace gpt {
namespace {

using nlohmann::json;

// Maximum total bytes of queries and keys that are stored as fp32. Larger queries and keys are stored as
// fp16.
constexpr int64_t kExactQk = int64_t{12} << 20;
constexpr int64_t kResults = int64_t{8} << 20;  // maximum total bytes of all other results
constexpr int64_t kParameters = int64_t{1}
                                << 20;  // maximum parameter count of a model whose parameters are included

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

// Returns all elements of a tensor as fp32. The dtype is a floating-point or quantized type.
std::vector<float> numbers(const TensorView& v) {
  std::vector<float> out(static_cast<size_t>(v.size()));
  for (int64_t r = 0; r < v.rows(); ++r) {
    float* row = out.data() + r * v.cols();
    if (is_quantized(v.dtype)) {
      dequantize_row(v.dtype, v.slice_rows(r, 1).data, v.cols(), row);
      continue;
    }
    for (int64_t c = 0; c < v.cols(); ++c)
      row[c] = static_cast<float>(element(v, r, c));
  }
  return out;
}

// Collects the tensors of the page: a JSON list of their descriptions, and one script element with the values
// of each tensor.
class PageTensors {
 public:
  void add(const std::string& name, const TensorView& view, const Shape& shape, const char* group,
           bool half) {
    const std::vector<float> values = numbers(view);
    std::string bytes;
    if (half) {
      const std::vector<f16> small = transformed(values, to_f16);
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

  const json& list() const { return list_; }
  const std::string& elements() const { return elements_; }

 private:
  json list_ = json::array();
  std::string elements_;
};

bool is_query_or_key(const std::string& name) {
  return name.ends_with(".q") || name.ends_with(".k");
}

void add_results(PageTensors& tensors, const Capture& capture, bool half) {
  int64_t bytes = 0;
  const std::vector<NamedActivation> all = capture.activations();
  for (const NamedActivation& a : all)
    bytes += is_query_or_key(a.name) ? 0 : a.view.size() * static_cast<int64_t>(sizeof(float));
  for (const NamedActivation& a : all) {
    // The page recomputes attention weights from queries and keys. The page contains either all other results
    // or none of them.
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

// Replaces the placeholder "@@NAME@@" in the page template with the content.
void fill_in(std::string& page, const std::string& name, std::string_view content) {
  const std::string mark = "@@" + name + "@@";
  const size_t at = page.find(mark);
  GPT_ASSERT(at != std::string::npos);
  page.replace(at, mark.size(), content);
}

constexpr int64_t kTopTokens = 12, kTopNeurons = 6;
constexpr double kNegligible = -40;  // exp(-40) is too small to change any digit of the sum
constexpr int kTemperatures = 20;    // 0.1, 0.2, ... 2.0

// Rounds a value to six significant digits. The page shows fewer digits. Non-finite values become 0.
double brief(double x) {
  return std::isfinite(x) ? std::strtod(fmt::format("{:.6g}", x).c_str(), nullptr) : 0;
}

class PageMeta {
 public:
  PageMeta(Capture& capture, const TokenNames& names) : capture_(capture), names_(names) {}

  json all() {
    const ModelConfig& c = capture_.config();
    const ModelCounts counts(c);
    json out = {{"config", model_keys_json(c)},
                {"parameters", counts.total},
                {"cache_elements", counts.cache_bytes_per_token(1)},
                {"tokens", tokens()}};
    out["components"] = transformed(counts.components, [](const ComponentCount& part) {
      return json{{"label", part.label}, {"total", part.total}, {"per_layer", part.per_layer}};
    });
    out["params"] = params();
    const auto in_layers = [&](json (PageMeta::*part)(int64_t) const) {
      return transformed_indices(c.n_layer, [&](int64_t layer) { return (this->*part)(layer); });
    };
    out["steps"] = in_layers(&PageMeta::steps);
    out["changes"] = in_layers(&PageMeta::changes);
    out["heads"] = in_layers(&PageMeta::heads);
    out["mlp"] = in_layers(&PageMeta::mlp);
    add_stream(out);
    add_predictions(out);
    out["lens"] = lens();
    out["rope"] = c.position == Position::rope ? json(rope_frequencies(rope_of(c))) : json::array();
    out["texts"] = json::object();
    for (const int32_t id : shown_) {
      if (names_.known()) out["texts"][std::to_string(id)] = visible_text(names_.raw(id));
    }
    return out;
  }

 private:
  json tokens() {
    return transformed(capture_.ids(), [&](int32_t id) {
      shown_.insert(id);
      return json{{"id", id}, {"hex", names_.hex(id, 16)}};
    });
  }

  json params() const {
    const ModelCounts counts(capture_.config());
    return transformed(capture_.model().table.specs(), [&](const ParamSpec& spec) {
      return json{{"name", spec.name},
                  {"shape", spec.shape},
                  {"size", spec.size()},
                  {"layer", spec.layer},
                  {"component", counts.components[static_cast<size_t>(spec.component)].key}};
    });
  }

  json steps(int64_t layer) const {
    return transformed(block_steps(capture_, layer), [&](const BlockStep& s) {
      return json{{"name", s.name},
                  {"shape", s.shape},
                  {"about", s.about},
                  {"rms", brief(s.rms)},
                  {"low", brief(s.low)},
                  {"high", brief(s.high)},
                  {"norms", s.name == "attention" ? json::array() : norms_of(s.view)}};
    });
  }

  json changes(int64_t layer) const {
    const BlockChange b = block_change(capture_, layer);
    const auto one = [](const Change& c) {
      return json{{"added", brief(c.added)},
                  {"absolute", brief(c.absolute)},
                  {"relative", brief(c.relative)},
                  {"cosine", brief(c.cosine)}};
    };
    return {{"attention", one(b.attention)}, {"mlp", one(b.mlp)}, {"block", one(b.block)}};
  }

  json heads(int64_t layer) const {
    return transformed_indices(capture_.config().n_head, [&](int64_t head) {
      const HeadSummary s = head_summary(capture_, layer, head);
      return json{{"entropy", brief(s.entropy)},   {"self", brief(s.self)},
                  {"previous", brief(s.previous)}, {"first", brief(s.first)},
                  {"distance", brief(s.distance)}, {"habit", head_habit(s)}};
    });
  }

  json mlp(int64_t layer) const {
    const MlpSummary s = mlp_summary(capture_, layer);
    const auto top = transformed_indices(capture_.n_tokens(), [&](int64_t t) {
      return transformed(top_neurons(capture_, layer, t, kTopNeurons), [](const Neuron& n) {
        return json::array({n.index, brief(n.value)});
      });
    });
    return {{"active", brief(s.active)}, {"never", brief(s.never)}, {"top", top}};
  }

  // Returns the Euclidean norm of every row.
  json norms_of(const TensorView& x) const {
    return transformed_indices(x.rows(), [&](int64_t t) { return brief(row_norm(x, t)); });
  }

  // Adds the norm of the residual stream for each token after the embedding and after every sub-layer, and
  // the norm of the change that each sub-layer makes.
  void add_stream(json& out) const {
    const bool post = capture_.config().norm_position == NormPosition::post;
    std::vector<TensorView> stages = {capture_.residual(0)};
    for (int64_t layer = 0; layer < capture_.n_layer(); ++layer) {
      const BlockTrace& a = capture_.block(layer);
      stages.push_back(post ? a.norm1_out : a.mid);
      stages.push_back(a.out);
    }
    out["stream"] = out["moves"] = json::array();
    for (size_t i = 0; i < stages.size(); ++i) {
      out["stream"].push_back(norms_of(stages[i]));
      if (i == 0) continue;
      out["moves"].push_back(transformed_indices(capture_.n_tokens(), [&](int64_t t) {
        return brief(change(stages[i - 1].slice_rows(t, 1), {}, stages[i].slice_rows(t, 1)).absolute);
      }));
    }
  }

  // Returns log(sum(exp(logit / temperature))) over all tokens except the top candidates.
  double rest_log_sum(int64_t t, const Prediction& p, double temperature) const {
    const TensorView logits = capture_.logits();
    const double floor = p.top.back().logit;  // upper bound of the remaining logits
    const auto is_top = [&](int64_t v) {
      return std::ranges::any_of(p.top, [v](const Candidate& c) { return c.id == v; });
    };
    double sum = 0;
    for (int64_t v = 0; v < logits.cols(); ++v) {
      const double z = (element(logits, t, v) - floor) / temperature;
      if (z > kNegligible && z <= 0 && !(z == 0 && is_top(v))) sum += std::exp(z);
    }
    return sum > 0 ? floor / temperature + std::log(sum) : -1e30;
  }

  void add_predictions(json& out) {
    const auto temperatures =
        transformed_indices(kTemperatures, [](int64_t i) { return static_cast<double>(i + 1) / 10; });
    out["temperatures"] = temperatures;
    out["predictions"] = json::array();
    const std::vector<Prediction> all = predictions(capture_, kTopTokens);
    for (size_t t = 0; t < all.size(); ++t) {
      const Prediction& p = all[t];
      const auto top = transformed(p.top, [&](const Candidate& c) {
        shown_.insert(c.id);
        return json::array({c.id, c.logit});
      });
      const auto rest =
          transformed(temperatures, [&](double x) { return rest_log_sum(static_cast<int64_t>(t), p, x); });
      out["predictions"].push_back({{"top", top},
                                    {"rest", rest},
                                    {"entropy", brief(p.entropy)},
                                    {"next", p.next},
                                    {"nextP", brief(p.next_probability)},
                                    {"rank", p.next_rank},
                                    {"first", p.top.front().probability}});
    }
  }

  json lens() {
    const auto cell = [&](const Prediction& p) {
      const Candidate& best = p.top.front();
      shown_.insert(best.id);
      return json::array({best.id, brief(best.probability), brief(p.next_probability), p.next_rank});
    };
    return transformed(logit_lens(capture_, 1),
                       [&](const std::vector<Prediction>& stage) { return transformed(stage, cell); });
  }

  Capture& capture_;
  const TokenNames& names_;
  std::set<int32_t> shown_;  // ids of the tokens whose text the page needs
};

}  // namespace

std::string trace_page(Capture& capture, const TokenNames& names, const PageRequest& request) {
  const ModelConfig& c = capture.config();
  const int64_t qk = capture.n_tokens() * (c.q_dim() + c.kv_dim()) * c.n_layer;
  const bool half = qk * static_cast<int64_t>(sizeof(float)) > kExactQk;
  if (qk * 3 > kMaxPageBytes) {  // each value takes 2 bytes, or 8/3 bytes in base64
    fail("a page for {} tokens and {} blocks would be larger than {} MiB; use a shorter prompt",
         capture.n_tokens(), c.n_layer, kMaxPageBytes >> 20);
  }
  PageTensors tensors;
  add_parameters(tensors, capture.model());
  add_results(tensors, capture, half);
  json meta = PageMeta(capture, names).all();
  meta.update({{"model", visible_text(request.model)},
               {"computed", request.computed},
               {"half", half},
               {"tensors", tensors.list()}});
  std::string page = detail::trace_page_html();
  fill_in(page, "STYLE", detail::trace_page_style());
  fill_in(page, "SCRIPT", detail::trace_page_script());
  fill_in(page, "TENSORS", tensors.elements());
  fill_in(page, "META", escape_script(meta.dump(-1, ' ', false, json::error_handler_t::replace)));
  return page;
}

}  // namespace gpt
