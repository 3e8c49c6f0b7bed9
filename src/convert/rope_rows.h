#pragma once

#include <cstdint>

#include "model/param_table.h"

// The rows of a rotated head are stored either in halves, with pairs (i, i + D/2), or interleaved, with pairs
// (2i, 2i + 1).

namespace gpt {

inline bool is_rotated(Role role) {
  return role == Role::q_weight || role == Role::k_weight || role == Role::q_bias || role == Role::k_bias;
}

// Returns the row in the halves layout for row r of the interleaved layout. A head has D = head_dim rows.
inline int64_t half_of_pair(int64_t r, int64_t head_dim) {
  const int64_t head = r / head_dim * head_dim, i = r % head_dim;
  return head + i / 2 + i % 2 * (head_dim / 2);
}

}  // namespace gpt
