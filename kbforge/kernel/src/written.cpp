// Clusters that go to other machines, written as how they were put together.
//
// A cluster is a sequence of numbers: a record is how many values it has, their attributes, and the
// values; -1 has the last of those that are there go into the one before. So L is worked out elsewhere
// in the order in which it is here.
#include <cstdint>
#include <vector>

#include "api.hpp"
#include "rounds.hpp"

namespace kbforge {

namespace {

constexpr std::int32_t kTogether = -1;

// Have the slot hold the written cluster, with those from `spare` on for what waits; false, and
// nothing is held, if it is none.
bool read_cluster(Table& table, const std::int32_t* at, const std::int32_t* end, Slot slot,
                  Slot spare) {
  std::vector<Slot> held;
  bool whole = true;
  while (whole && at != end) {
    const std::int32_t n = *at++;
    if (n == kTogether) {
      whole = held.size() > 1;
      if (!whole) break;
      table.merge(held.back(), held[held.size() - 2]);
      held.pop_back();
      continue;
    }
    whole = n >= 0 && n <= (end - at) / 2;
    for (std::int32_t k = 0; whole && k < n; ++k) {
      whole = at[k] > (k ? at[k - 1] : -1) && at[n + k] >= 0;
    }
    const Record record{at, at + n, static_cast<std::size_t>(whole ? n : 0)};
    if (!whole || !table.knows(record)) {
      whole = false;
      break;
    }
    held.push_back(held.empty() ? slot : spare + static_cast<Slot>(held.size()) - 1);
    table.extend(record, {kNone}, {held.back()});
    at += 2 * std::int64_t{n};
  }
  if (whole && held.size() == 1) return true;
  table.release({held.begin(), held.end()});
  return false;
}

}  // namespace

}  // namespace kbforge

using kbforge::Rounds;
using kbforge::Slot;
using kbforge::Table;

// The units as written clusters: where each begins, shape [units + 1], all, for which
// there is room, and how many fragments each has.
KB_API void kb_rounds_written(Rounds* rounds, std::int64_t* starts, std::int32_t* out,
                              std::int64_t* sizes) {
  std::int64_t at = 0;
  for (std::int64_t unit = 0; unit < rounds->n_units(); ++unit) {
    starts[unit] = at;
    sizes[unit] = rounds->size(static_cast<std::int32_t>(unit));
    const std::int64_t begin = rounds->unit_start()[unit], end = rounds->unit_start()[unit + 1];
    for (std::int64_t k = begin; k < end; ++k) {
      const kbforge::Record x = rounds->fragments().record(rounds->unit_fragments()[k]);
      out[at++] = static_cast<std::int32_t>(x.n);
      for (std::size_t i = 0; i < x.n; ++i) out[at++] = x.attributes[i];
      for (std::size_t i = 0; i < x.n; ++i) out[at++] = x.values[i];
      if (k != begin) out[at++] = kbforge::kTogether;
    }
  }
  starts[rounds->n_units()] = at;
}

// L(C + D) - L(C) - L(D) of pairs of n written clusters, nats, in a table without slots; 0: they
// cannot be read. Pairs with the same first one are best next to each other.
KB_API std::int32_t kb_written_ratios(Table* table, std::int64_t n, const std::int64_t* starts,
                                      const std::int32_t* written, std::int64_t pairs,
                                      const std::int32_t* one, const std::int64_t* other,
                                      double* out) {
  std::vector<std::int64_t> held;
  const auto spare = static_cast<Slot>(n);
  for (Slot slot = 0; slot < spare; ++slot) {
    if (!kbforge::read_cluster(*table, written + starts[slot], written + starts[slot + 1], slot,
                               spare)) {
      table->release(held);
      return 0;
    }
    held.push_back(slot);
  }
  for (std::int64_t k = 0; k < pairs;) {
    std::int64_t end = k + 1;
    while (end < pairs && one[end] == one[k]) ++end;
    table->log_merge_ratios(0, static_cast<Slot>(one[k]), end - k, other + k, out + k);
    k = end;
  }
  table->release(held);
  return 1;
}

KB_API std::int32_t kb_rounds_resume(Rounds* rounds, std::int64_t n_merges, const void* merges,
                                     std::int64_t n_rivals, const void* rivals,
                                     std::int64_t n_edges, const void* edges,
                                     std::int64_t n_compared, const void* compared) {
  using Pair = std::pair<std::int32_t, std::int32_t>;
  static_assert(sizeof(kbforge::Merge) == 12 && sizeof(kbforge::Rival) == 12 &&
                    sizeof(kbforge::Before::Pair) == 12 && sizeof(Pair) == 8,
                "rows of numbers of 32 bits");
  return rounds->resume({n_merges, n_rivals, n_edges, n_compared,
                         static_cast<const kbforge::Merge*>(merges),
                         static_cast<const kbforge::Rival*>(rivals),
                         static_cast<const kbforge::Before::Pair*>(edges),
                         static_cast<const Pair*>(compared)});
}
