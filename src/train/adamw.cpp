#include <fmt/format.h>

#include <utility>

#include "tensor/device.h"
#include "train/adamw.h"

namespace gpt {
namespace {

AdamWRule rule_of(const ParamTable& table, const OptimizerSettings& settings, int id) {
  AdamWRule rule = adamw_rule(settings);
  if (!table[id].decay) rule.weight_decay = 0;
  rule.lr_scale = settings.scale(id);
  return rule;
}

// Merges adjacent parameters that have the same rule into one range. A range includes the padding after its
// parameters; the update leaves the padding at zero.
std::vector<AdamWRange> ranges_of(const ParamTable& table, const OptimizerSettings& settings) {
  const ParamLayout layout(table);
  std::vector<AdamWRange> ranges;
  for (int id = 0; id < table.count(); ++id) {
    if (!table[id].trainable) continue;
    const AdamWRule rule = rule_of(table, settings, id);
    const int64_t begin = layout.offset[static_cast<size_t>(id)];
    if (!ranges.empty()) ranges.back().end = begin;
    if (ranges.empty() || ranges.back().rule != rule) ranges.push_back({begin, begin, rule});
  }
  if (!ranges.empty()) ranges.back().end = layout.elements;
  return ranges;
}

// Returns the parts of `ranges` that overlap `slice`, as element indices relative to the start of the slice.
std::vector<AdamWRange> ranges_in(const ElementRange& slice, const std::vector<AdamWRange>& ranges) {
  std::vector<AdamWRange> inside;
  for (AdamWRange range : ranges) {
    const ElementRange both = common(slice, {range.begin, range.end});
    if (both.size() == 0) continue;
    range.begin = both.begin - slice.begin;
    range.end = both.end - slice.begin;
    inside.push_back(range);
  }
  return inside;
}

class AdamW : public Optimizer {
 public:
  AdamW(const ParamTable& table, const OptimizerSettings& settings) : table_(table), settings_(settings) {}

  std::vector<OptimizerBuffer> buffers() const override { return {{"m"}, {"v"}}; }

  void bind(std::vector<ParamSlice> slices, const OptimizerState&) override {
    const std::vector<AdamWRange> ranges = ranges_of(table_, settings_);
    parts_.clear();
    for (ParamSlice& slice : slices) {
      std::vector<AdamWRange> inside = ranges_in(slice.range, ranges);
      parts_.push_back({std::move(slice), std::move(inside)});
    }
  }

  void update(const ExecContext& ctx, DeviceSpan<const StepState> step) const override {
    for (const auto& [slice, ranges] : parts_) {
      ctx.kernels.adamw(ctx, {.param = slice.weight,
                              .grad = slice.grad,
                              .m = slice.state[0],
                              .v = slice.state[1],
                              .ranges = ranges,
                              .step = step});
    }
  }

  std::vector<UpdateSquares> last_update(const ExecContext& ctx,
                                         DeviceSpan<const StepState> step) const override {
    std::vector<UpdateSquares> sums(static_cast<size_t>(table_.count()));
    for (const Part& part : parts_) {
      const ParamSlice& slice = part.slice;
      std::vector<int> ids;
      std::vector<AdamWRange> ranges;
      for (const auto& [id, range] : params_in(slice.range, table_)) {
        ids.push_back(id);
        ranges.push_back(
            {range.begin - slice.range.begin, range.end - slice.range.begin, rule_of(table_, settings_, id)});
      }
      std::vector<double> values(2 * ranges.size());
      DeviceArray<double> device_values(&ctx.device);
      ctx.kernels.update_squares(ctx, {.param = slice.weight,
                                       .m = slice.state[0],
                                       .v = slice.state[1],
                                       .ranges = ranges,
                                       .step = step,
                                       .sums = device_values.share(values, Access::write)});
      device_values.download(values);
      for (size_t i = 0; i < ids.size(); ++i) {
        UpdateSquares& sum = sums[static_cast<size_t>(ids[i])];
        sum.update += values[2 * i];
        sum.weight += values[2 * i + 1];
      }
    }
    return sums;
  }

  std::string describe() const override {
    int64_t tensors[2] = {0, 0}, parameters[2] = {0, 0};
    for (const ParamSpec& spec : table_.specs()) {
      if (!spec.trainable) continue;
      ++tensors[spec.decay];
      parameters[spec.decay] += spec.size();
    }
    return fmt::format(
        "AdamW: weight decay {} on {} tensors with {} parameters, no decay on {} tensors with {} parameters",
        settings_.weight_decay, tensors[1], parameters[1], tensors[0], parameters[0]);
  }

 private:
  struct Part {
    ParamSlice slice;
    std::vector<AdamWRange> ranges;
  };
  const ParamTable& table_;
  OptimizerSettings settings_;
  std::vector<Part> parts_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adamw(const ParamTable& table, const OptimizerSettings& settings) {
  return std::make_unique<AdamW>(table, settings);
}

}  // namespace gpt
