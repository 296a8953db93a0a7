// Subproblems that were kept as pages, and are held again (kbforge/clustering/state.py).
#pragma once

#include <cstdint>
#include <vector>

#include "api.hpp"
#include "state.hpp"
#include "table.hpp"

namespace kbforge {

// Hold subproblems, whose fragments and slots have been numbered; totals stay as they are. Clusters
// that began alike share what they began with.
void hold(State& state, std::int64_t n, const std::int64_t* names, const kb_pages& pages);

// Clusters in slots, their members one after another.
struct Placed {
  std::int64_t n;
  const std::int64_t *slots, *lengths, *members;
  std::int64_t first_free;  // no cluster is in this slot or one after it
};

// Extend a table by clusters the way they grew: fragment by fragment, those that began alike as one
// (`replay` in kbforge/clustering/tables.py). So it says the bits that it did.
//
// fragments: at least those of the clusters, ascending; records: theirs; scores: if not null, take L
// of the clusters as sums of what each fragment adds.
void replay(Table& table, const Placed& placed, const std::int64_t* fragments,
            const Batch& records, double* scores);

// Hold some subproblems no longer.
void drop(State& state, std::int64_t n, const std::int64_t* names);

}  // namespace kbforge
