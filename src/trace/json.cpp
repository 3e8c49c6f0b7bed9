#include <nlohmann/json.hpp>

#include "model/config.h"
#include "model/model_counts.h"
#include "trace/text.h"

namespace gpt {
namespace {

using nlohmann::json;

json change_json(const Change& c) {
  return {{"added", c.added},
          {"absolute", c.absolute},
          {"relative", c.relative},
          {"cosine", c.cosine},
          {"norm", c.norm}};
}

json tokens_json(const Capture& capture, const TokenNames& names) {
  json tokens = json::array();
  for (const int32_t id : capture.ids()) {
    json token = {{"id", id}};
    if (names.known()) token.update({{"text", names.raw(id)}, {"bytes", names.hex(id, SIZE_MAX)}});
    tokens.push_back(token);
  }
  return tokens;
}

json prediction_json(const Prediction& p, const TokenNames& names) {
  json top = json::array();
  for (const Candidate& c : p.top) {
    json entry = {{"id", c.id}, {"logit", c.logit}, {"probability", c.probability}};
    if (names.known()) entry["text"] = names.raw(c.id);
    top.push_back(entry);
  }
  json out = {{"top", top}, {"entropy_bits", p.entropy}, {"log_sum", p.log_sum}};
  if (p.next >= 0)
    out.update({{"next", {{"id", p.next}, {"probability", p.next_probability}, {"rank", p.next_rank}}}});
  return out;
}

json block_json(const Capture& capture, int64_t layer, int64_t top_k) {
  const BlockChange change = block_change(capture, layer);
  json heads = json::array();
  for (int64_t head = 0; head < capture.config().n_head; ++head) {
    const HeadSummary s = head_summary(capture, layer, head);
    heads.push_back({{"entropy_bits", s.entropy},
                     {"itself", s.self},
                     {"previous", s.previous},
                     {"first", s.first},
                     {"distance", s.distance},
                     {"habit", head_habit(s)}});
  }
  const MlpSummary mlp = mlp_summary(capture, layer);
  json neurons = json::array();
  for (const Neuron& n : top_neurons(capture, layer, capture.n_tokens() - 1, top_k))
    neurons.push_back({{"index", n.index}, {"value", n.value}});
  return {{"attention", change_json(change.attention)},
          {"mlp", change_json(change.mlp)},
          {"block", change_json(change.block)},
          {"heads", heads},
          {"active", mlp.active},
          {"never_active", mlp.never},
          {"top_neurons_of_last_token", neurons}};
}

}  // namespace

std::string trace_json(Capture& capture, const TokenNames& names, const TraceRequest& r) {
  const ModelCounts counts(capture.config());
  json activations = json::array();
  for (const NamedActivation& a : capture.activations()) {
    activations.push_back({{"name", a.name},
                           {"shape", a.shape},
                           {"norm", frobenius(a.view)},
                           {"mean_row_norm", mean_row_norm(a.view)}});
  }
  json blocks = json::array(), positions = json::array(), lens = json::array();
  for (int64_t layer = 0; layer < capture.n_layer(); ++layer)
    blocks.push_back(block_json(capture, layer, r.top_k));
  for (const Prediction& p : predictions(capture, r.top_k))
    positions.push_back(prediction_json(p, names));
  for (const std::vector<Prediction>& stage : logit_lens(capture, 1)) {
    json row = json::array();
    for (const Prediction& p : stage)
      row.push_back(prediction_json(p, names));
    lens.push_back(row);
  }
  const json out = {{"model", r.model},
                    {"computed", r.computed},
                    {"config", model_keys_json(capture.config())},
                    {"parameters", counts.total},
                    {"kv_cache_bytes_per_token",
                     {{"fp32", counts.cache_bytes_per_token(4)}, {"bf16", counts.cache_bytes_per_token(2)}}},
                    {"tokens", tokens_json(capture, names)},
                    {"activations", activations},
                    {"blocks", blocks},
                    {"lens", lens},
                    {"predictions", positions}};
  return out.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

}  // namespace gpt
