#include "trace/page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "base/error.h"
#include "kernels/quant.h"
#include "model/config.h"
#include "model/model_counts.h"
#include "report/utf8_text.h"
#include "tensor/element.h"
#include "trace/views.h"

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

constexpr int64_t kTopTokens = 12, kTopNeurons = 6;
constexpr double kNegligible = -40;  // exp of it, times any vocabulary, changes no digit
constexpr int kTemperatures = 20;    // 0.1, 0.2, ... 2.0

// Six significant digits are more than the page shows.
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
    out["components"] = json::array();
    for (const ComponentCount& part : counts.components)
      out["components"].push_back(
          {{"label", part.label}, {"total", part.total}, {"per_layer", part.per_layer}});
    out["params"] = params();
    out["steps"] = out["changes"] = out["heads"] = out["mlp"] = json::array();
    for (int64_t layer = 0; layer < c.n_layer; ++layer) {
      out["steps"].push_back(steps(layer));
      out["changes"].push_back(changes(layer));
      out["heads"].push_back(heads(layer));
      out["mlp"].push_back(mlp(layer));
    }
    add_stream(out);
    add_predictions(out);
    out["lens"] = lens();
    out["rope"] = json::array();
    if (c.position == Position::rope) {
      for (const double f : rope_frequencies(c))
        out["rope"].push_back(f);
    }
    out["texts"] = json::object();
    for (const int32_t id : shown_) {
      if (names_.known()) out["texts"][std::to_string(id)] = visible_text(names_.raw(id));
    }
    return out;
  }

 private:
  json tokens() {
    json list = json::array();
    for (const int32_t id : capture_.ids()) {
      shown_.insert(id);
      list.push_back({{"id", id}, {"hex", names_.hex(id, 16)}});
    }
    return list;
  }

  json params() const {
    const ModelCounts counts(capture_.config());
    json list = json::array();
    for (const ParamSpec& spec : capture_.model().table.specs()) {
      list.push_back({{"name", spec.name},
                      {"shape", spec.shape},
                      {"size", spec.size()},
                      {"layer", spec.layer},
                      {"component", counts.components[static_cast<size_t>(spec.component)].key}});
    }
    return list;
  }

  json steps(int64_t layer) const {
    json list = json::array();
    for (const BlockStep& s : block_steps(capture_, layer)) {
      json norms = json::array();
      if (s.name != "attention") {
        for (int64_t t = 0; t < capture_.n_tokens(); ++t)
          norms.push_back(brief(row_norm(s.view, t)));
      }
      list.push_back({{"name", s.name},
                      {"shape", s.shape},
                      {"about", s.about},
                      {"rms", brief(s.rms)},
                      {"low", brief(s.low)},
                      {"high", brief(s.high)},
                      {"norms", norms}});
    }
    return list;
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
    json list = json::array();
    for (int64_t head = 0; head < capture_.config().n_head; ++head) {
      const HeadSummary s = head_summary(capture_, layer, head);
      list.push_back({{"entropy", brief(s.entropy)},
                      {"self", brief(s.self)},
                      {"previous", brief(s.previous)},
                      {"first", brief(s.first)},
                      {"distance", brief(s.distance)},
                      {"habit", head_habit(s)}});
    }
    return list;
  }

  json mlp(int64_t layer) const {
    const MlpSummary s = mlp_summary(capture_, layer);
    json top = json::array();
    for (int64_t t = 0; t < capture_.n_tokens(); ++t) {
      json neurons = json::array();
      for (const Neuron& n : top_neurons(capture_, layer, t, kTopNeurons))
        neurons.push_back({n.index, brief(n.value)});
      top.push_back(neurons);
    }
    return {{"active", brief(s.active)}, {"never", brief(s.never)}, {"top", top}};
  }

  // The length of the stream after the embedding and every sub-layer, and how far each moves it, per token.
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
      json norms = json::array(), moves = json::array();
      for (int64_t t = 0; t < capture_.n_tokens(); ++t) {
        norms.push_back(brief(row_norm(stages[i], t)));
        if (i > 0)
          moves.push_back(
              brief(change(stages[i - 1].row_range(t, 1), {}, stages[i].row_range(t, 1)).absolute));
      }
      out["stream"].push_back(norms);
      if (i > 0) out["moves"].push_back(moves);
    }
  }

  // log of the sum of exp(logit / temperature) over all tokens but the likeliest ones.
  double rest_log_sum(int64_t t, const Prediction& p, double temperature) const {
    const TensorView logits = capture_.logits();
    const double floor = p.top.back().logit;  // none of the rest is above
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
    out["temperatures"] = json::array();
    for (int i = 1; i <= kTemperatures; ++i)
      out["temperatures"].push_back(i / 10.0);
    out["predictions"] = json::array();
    const std::vector<Prediction> all = predictions(capture_, kTopTokens);
    for (size_t t = 0; t < all.size(); ++t) {
      const Prediction& p = all[t];
      json top = json::array(), rest = json::array();
      for (const Candidate& c : p.top) {
        shown_.insert(c.id);
        top.push_back({c.id, c.logit});
      }
      for (int i = 1; i <= kTemperatures; ++i)
        rest.push_back(rest_log_sum(static_cast<int64_t>(t), p, i / 10.0));
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
    json stages = json::array();
    for (const std::vector<Prediction>& stage : logit_lens(capture_, 1)) {
      json row = json::array();
      for (const Prediction& p : stage) {
        shown_.insert(p.top.front().id);
        row.push_back(
            {p.top.front().id, brief(p.top.front().probability), brief(p.next_probability), p.next_rank});
      }
      stages.push_back(row);
    }
    return stages;
  }

  Capture& capture_;
  const TokenNames& names_;
  std::set<int32_t> shown_;  // tokens whose text the page needs
};

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
