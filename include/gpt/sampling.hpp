#pragma once

// The parameters for sampling the next token, and their definitions. The checks of the library, the options
// of the C API, the flags of the command line, and the request fields of the server and its clients are all
// derived from visit_sampling. A new parameter is added there and in the sampler.

#include <cfloat>
#include <climits>
#include <cstdint>
#include <limits>
#include <map>

namespace gptcpp {

// Selects the last token that top_p keeps. Tokens are sorted by falling probability. The two rules differ
// only if the sum of the probabilities before a token equals p exactly.
enum class TopPRule {
  crossing,  // removes a token if the sum before it exceeds p; if the sum equals p, one more token is kept
  reaching,  // keeps tokens up to the first one whose sum, including itself, reaches p
};
inline constexpr const char* kTopPRules[] = {"crossing", "reaching"};

// The parameters for sampling the next token.
struct SamplingParams {
  double temperature = 0.8;  // >= 0; 0 = greedy: picks the most likely token, or the lowest id in a tie
  int64_t top_k = 40;        // keeps the k most likely tokens and all tokens that tie with the k-th; 0 = off
  double top_p = 1;          // (0, 1]; 1 = off
  TopPRule top_p_rule = TopPRule::crossing;
  double min_p = 0;  // [0, 1]: minimum probability relative to the most likely token
  // > 0. For ids in the prompt or the output: divides positive logits and multiplies other logits.
  double repetition_penalty = 1;
  double presence_penalty = 0;                // subtracted once from the logit of each id in the output
  double frequency_penalty = 0;               // subtracted from the logit once per occurrence in the output
  std::map<int32_t, double> logit_bias = {};  // added to the logit; -inf forbids an id, +inf forces it

  // Returns the parameters that sample from the unchanged distribution of the model.
  static SamplingParams neutral() { return {.temperature = 1, .top_k = 0}; }
  bool greedy() const { return temperature == 0; }
};

// The definition of a parameter.
struct SamplingField {
  const char* name;
  const char* help;
  double min = -DBL_MAX, max = DBL_MAX;  // range of valid values; infinity and NaN are outside of DBL_MAX
  bool above_min = false;                // true if `min` itself is invalid
  double off = std::numeric_limits<double>::quiet_NaN();  // value that disables the parameter; NaN: none
  // Range of valid values in requests to a server, as in OpenAI's API.
  double request_min = min, request_max = max;
  const char* aliases = "";  // flags of other programs, as "--a|--b"
  bool common = false;       // listed in short help texts
};

// Calls visit(SamplingField, field) for each field of `params`, in the order of their declaration. The fields
// are of type double, int64_t, TopPRule and std::map<int32_t, double>. The range of a map applies to its
// values.
template <class Params, class Visit>
// NOLINTNEXTLINE(readability-function-size): a table of definitions
void visit_sampling(Params& params, Visit&& visit) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // This limit is large enough for any use, and small enough that a penalty times a count cannot overflow.
  constexpr double kMostPenalty = 1e6;
  visit(SamplingField{.name = "temperature",
                      .help = "Sampling temperature; 0 selects the most likely token",
                      .min = 0,
                      .request_max = 2,
                      .aliases = "--temp",
                      .common = true},
        params.temperature);
  visit(SamplingField{.name = "top_k",
                      .help = "Sample only from the k most likely tokens; 0 turns the limit off",
                      .min = 0,
                      .off = 0,
                      .request_min = -1,
                      .request_max = INT32_MAX,
                      .common = true},
        params.top_k);
  visit(SamplingField{.name = "top_p",
                      .help = "Sample only from the most likely tokens whose probabilities add up to p; "
                              "1 turns the limit off",
                      .min = 0,
                      .max = 1,
                      .above_min = true,
                      .off = 1,
                      .common = true},
        params.top_p);
  visit(SamplingField{.name = "top_p_rule",
                      .help = "Last token that top-p keeps: the one after the sum crosses p, or the one with "
                              "which the sum reaches p"},
        params.top_p_rule);
  visit(SamplingField{.name = "min_p",
                      .help = "Minimum probability of a token relative to the most likely token; 0 turns the "
                              "limit off",
                      .min = 0,
                      .max = 1,
                      .off = 0},
        params.min_p);
  visit(SamplingField{.name = "repetition_penalty",
                      .help =
                          "Factor that makes tokens of the prompt and the output less likely; 1 turns it off",
                      .min = 0,
                      .max = kMostPenalty,
                      .above_min = true,
                      .off = 1,
                      .request_min = 0.01,
                      .request_max = 100,
                      .aliases = "--repeat-penalty"},
        params.repetition_penalty);
  visit(SamplingField{.name = "presence_penalty",
                      .help = "Value subtracted once from the logit of each token in the output",
                      .min = -kMostPenalty,
                      .max = kMostPenalty,
                      .off = 0,
                      .request_min = -2,
                      .request_max = 2},
        params.presence_penalty);
  visit(SamplingField{.name = "frequency_penalty",
                      .help = "Value subtracted from the logit of a token for each occurrence in the output",
                      .min = -kMostPenalty,
                      .max = kMostPenalty,
                      .off = 0,
                      .request_min = -2,
                      .request_max = 2},
        params.frequency_penalty);
  visit(SamplingField{.name = "logit_bias",
                      .help = "Values added to the logits of token ids",
                      .min = -kInfinity,
                      .max = kInfinity,
                      .request_min = -100,
                      .request_max = 100},
        params.logit_bias);
}

}  // namespace gptcpp
