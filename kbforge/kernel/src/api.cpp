#include "api.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <utility>

#include "keys.hpp"
#include "names.hpp"
#include "run.hpp"

namespace kbforge {

// Keys, and those that were last told.
class KeyMaker {
 public:
  explicit KeyMaker(std::size_t most) : keys(most) {}

  Keys keys;
  std::vector<std::int64_t> starts, out;
};

}  // namespace kbforge

using kbforge::KeyMaker;
using kbforge::Outcome;
using kbforge::Run;
using kbforge::Table;

std::int32_t kb_version(void) { return 27; }

void kb_functions(std::int64_t n, const double* x, double* out) {
  for (std::int64_t k = 0; k < n; ++k) {
    out[k] = kbforge::libm.exp(-x[k]);
    out[n + k] = kbforge::libm.log(x[k]);
    out[2 * n + k] = kbforge::libm.log10(x[k]);
    out[3 * n + k] = kbforge::libm.pow(x[k], 0.7);
  }
}

kbforge::Run* kb_run_new(std::int32_t particles, double log_floor, std::int32_t splits,
                         std::int32_t marginal, double log_alpha, kbforge::Draw draw,
                         kbforge::Sample sample, std::int32_t indexed, std::int32_t most,
                         std::int32_t shared, std::int32_t compared) {
  const kbforge::Rules rules{particles, log_floor, splits != 0, marginal != 0, log_alpha,
                             draw,      sample};
  return new Run(rules, indexed != 0, kbforge::IndexRules{most, shared, compared});
}

void kb_run_free(Run* run) { delete run; }

std::int64_t kb_run_largest(const Run* run) { return run->state.largest; }

void kb_run_sizes(Run* run, std::int64_t n, const double* log_size, const double* log_cluster) {
  run->state.log_size.assign(log_size, log_size + n);
  run->state.log_cluster.assign(log_cluster, log_cluster + n);
}

void kb_bind(Run* run, std::int64_t components, const std::int64_t* apart_start,
             const std::int64_t* apart) {
  run->constraints.reset(components < 0 ? nullptr : new kbforge::Constraints());
  if (run->constraints) run->constraints->bind(components, apart_start, apart);
}

void kb_tag(Run* run, std::int64_t n, const std::int64_t* fragments,
            const std::int64_t* components, const std::int64_t* value_start,
            const std::int64_t* values, const std::int64_t* set_start, const std::int64_t* sets) {
  for (std::int64_t k = 0; k < n; ++k) {
    run->constraints->tag(static_cast<kbforge::Number>(fragments[k]),
                          kbforge::tags_at(k, components, value_start, values, set_start, sets));
  }
}

void kb_put_sets(Run* run, std::int64_t n, const std::int64_t* attribute,
                 const std::int64_t* start, const std::int64_t* values) {
  run->constraints->apart.put_sets(n, attribute, start, values);
}

void kb_tag_clusters(Run* run) {
  for (const kbforge::Block* block : run->state.blocks) {
    if (block) run->tag_clusters(*block);
  }
}

std::int64_t kb_look_up(Run* run, std::int64_t fragment, const std::int64_t* keys,
                        std::int64_t n, const std::int64_t** slots) {
  run->look_up(keys, n);
  if (!run->lookup.missing.empty()) return -1;
  run->bound(static_cast<kbforge::Number>(fragment));
  run->told_slots.assign(run->bounds.slots->begin(), run->bounds.slots->end());
  *slots = run->told_slots.data();
  return static_cast<std::int64_t>(run->told_slots.size());
}

std::int64_t kb_open_keys(Run* run, const std::int64_t** keys) {
  *keys = run->lookup.open.data();
  return static_cast<std::int64_t>(run->lookup.open.size());
}

std::int64_t kb_propose(Run* run, const double* predictive, std::int64_t limit,
                        const std::int64_t** slots, std::int64_t* heaviest) {
  const auto most = static_cast<std::size_t>(limit);
  if (run->step.propose(*run->bounds.slots, predictive, most) != Outcome::kDone) return -1;
  run->proposed = run->step.proposed();
  run->told_slots.assign(run->proposed.begin(), run->proposed.end());
  *slots = run->told_slots.data();
  *heaviest = run->step.heaviest_proposed();
  return static_cast<std::int64_t>(run->told_slots.size());
}

void kb_take_in(Run* run, const double* predictive, const double* joined, double alone,
                std::int32_t proposed, std::int64_t evaluations, kb_done* done) {
  run->begin();
  const auto& slots = proposed == 1 ? run->proposed : *run->bounds.slots;
  const kbforge::Scored scored{slots, predictive, joined, alone};
  const Outcome outcome = run->take_in(scored, static_cast<kbforge::How>(proposed));
  if (outcome == Outcome::kDone && evaluations >= 0) {
    run->step.evaluations = run->evaluations.back() = evaluations;
  }
  run->tell(outcome, done);
}

void kb_owners(const Run* run, std::int64_t n, const std::int64_t* slots, std::int64_t* owners) {
  for (std::int64_t k = 0; k < n; ++k) owners[k] = run->state.clusters[slots[k]].owner;
}

void kb_members(Run* run, std::int64_t n, const std::int64_t* slots, kb_pages* pages) {
  run->lengths.clear();
  run->members.clear();
  run->scores.clear();
  std::vector<kbforge::Number> held;
  for (std::int64_t k = 0; k < n; ++k) {
    const kbforge::Cluster& cluster = run->state.clusters[slots[k]];
    run->state.members.read(cluster.list, held);
    run->lengths.push_back(static_cast<std::int64_t>(held.size()));
    run->members.insert(run->members.end(), held.begin(), held.end());
    run->scores.push_back(cluster.score);
  }
  pages->lengths = run->lengths.data();
  pages->members = run->members.data();
  pages->scores = run->scores.data();
  pages->n_slots = n;
  pages->n_members = static_cast<std::int64_t>(run->members.size());
}

std::int32_t kb_log_predictive(Table* table, const std::int64_t* record_start,
                               const std::int32_t* attributes, const std::int32_t* values,
                               std::int64_t n, const std::int64_t* slots, double* out) {
  const kbforge::Batch batch{1, record_start, attributes, values, nullptr, nullptr};
  if (!table->knows(batch.record(0))) return 0;
  const std::vector<kbforge::Slot> asked(slots, slots + n);
  if (n) {
    table->log_predictive(batch.record(0), asked, out);
  } else {
    *out = table->log_predictive_new(batch.record(0));
  }
  return 1;
}

void kb_extend(Table* table, const std::int64_t* record_start, const std::int32_t* attributes,
               const std::int32_t* values, std::int64_t n, const std::int64_t* parents,
               const std::int64_t* children, std::int32_t last) {
  const kbforge::Batch batch{1, record_start, attributes, values, nullptr, nullptr};
  table->extend(batch.record(0), {parents, parents + n}, {children, children + n});
  if (last) table->forget(batch.record(0));
}

void kb_hold_each(Table* table, std::int64_t first, std::int64_t n,
                  const std::int64_t* record_start, const std::int32_t* attributes,
                  const std::int32_t* values) {
  const kbforge::Batch batch{n, record_start, attributes, values, nullptr, nullptr};
  for (std::int64_t k = 0; k < n; ++k) table->extend(batch.record(k), {kbforge::kNone}, {first + k});
}

void kb_log_marginals(Table* table, std::int64_t slot, double* out) {
  table->log_marginals(static_cast<kbforge::Slot>(slot), out);
}

void kb_merge_ratios(Table* table, std::int64_t slot, std::int64_t n, const std::int64_t* others,
                     double* out) {
  table->log_merge_ratios(0, static_cast<kbforge::Slot>(slot), n, others, out);
}

void kb_merge(Table* table, std::int64_t slot, std::int64_t into) {
  table->merge(static_cast<kbforge::Slot>(slot), static_cast<kbforge::Slot>(into));
}

void kb_add(Run* run, Table* table, std::int64_t n, const std::int64_t* record_start,
            const std::int32_t* attributes, const std::int32_t* values,
            const std::int64_t* key_start, const std::int64_t* keys, kb_done* done) {
  run->begin();
  // what the table does not know of is not looked at
  kbforge::Batch batch{0, record_start, attributes, values, key_start, keys};
  while (batch.n < n && table->knows(batch.record(batch.n))) ++batch.n;
  Outcome outcome = run->add(*table, batch);
  if (outcome == Outcome::kDone && batch.n < n) outcome = Outcome::kNotTold;
  run->tell(outcome, done);
}

KeyMaker* kb_keys_new(std::int64_t most) { return new KeyMaker(static_cast<std::size_t>(most)); }

void kb_keys_free(KeyMaker* keys) { delete keys; }

void kb_keys_values(KeyMaker* keys, std::int64_t n, const std::int64_t* single_start,
                    const std::int64_t* singles, const std::int64_t* paired_start,
                    const std::int64_t* paired) {
  keys->keys.add(n, single_start, singles, paired_start, paired);
}

std::int64_t kb_keys_holders(KeyMaker* keys, std::int64_t n, const std::int64_t* value_start,
                             const std::int32_t* values, std::int64_t n_wanted,
                             const std::int64_t* wanted, std::int64_t most, std::int64_t workers,
                             const std::int64_t** out_starts, const std::int64_t** out) {
  const kbforge::PlaceOf place_of(n_wanted, wanted);
  struct Held {
    std::int32_t place, fragment;
  };
  std::vector<std::vector<Held>> held(kbforge::parts_of(n));
  kbforge::for_each_keys(
      keys->keys, {n, value_start, values, nullptr, nullptr}, workers,
      [&](std::size_t part, std::int64_t k, const std::vector<std::int64_t>& made) {
        for (const std::int64_t key : made) {
          const std::int64_t place = place_of(key);
          if (place < 0) continue;
          held[part].push_back({static_cast<std::int32_t>(place), static_cast<std::int32_t>(k)});
        }
      });
  std::vector<std::int64_t> count(static_cast<std::size_t>(n_wanted));
  for (const auto& some : held) {
    for (const Held& one : some) ++count[one.place];
  }
  keys->starts.assign(1, 0);
  for (const std::int64_t one : count) {
    keys->starts.push_back(keys->starts.back() + (one > most ? 0 : one));
  }
  keys->out.resize(static_cast<std::size_t>(keys->starts.back()));
  std::vector<std::int64_t> next(keys->starts.begin(), keys->starts.end() - 1);
  for (const auto& some : held) {
    for (const Held& one : some) {
      if (count[one.place] <= most) keys->out[next[one.place]++] = one.fragment;
    }
  }
  *out_starts = keys->starts.data();
  *out = keys->out.data();
  return static_cast<std::int64_t>(keys->out.size());
}

std::int64_t kb_keys_of(KeyMaker* keys, std::int64_t n, const std::int64_t* value_start,
                        const std::int32_t* values, const std::int64_t* more_start,
                        const std::int64_t* more, std::int64_t workers,
                        const std::int64_t** starts, const std::int64_t** out) {
  std::vector<std::vector<std::int64_t>> parts(kbforge::parts_of(n));
  keys->starts.assign(static_cast<std::size_t>(n) + 1, 0);
  kbforge::for_each_keys(
      keys->keys, {n, value_start, values, more_start, more}, workers,
      [&](std::size_t part, std::int64_t k, const std::vector<std::int64_t>& made) {
        parts[part].insert(parts[part].end(), made.begin(), made.end());
        keys->starts[k + 1] = static_cast<std::int64_t>(made.size());
      });
  std::partial_sum(keys->starts.begin(), keys->starts.end(), keys->starts.begin());
  keys->out.clear();
  keys->out.reserve(static_cast<std::size_t>(keys->starts.back()));
  for (auto& part : parts) {
    keys->out.insert(keys->out.end(), part.begin(), part.end());
    std::vector<std::int64_t>().swap(part);
  }
  *starts = keys->starts.data();
  *out = keys->out.data();
  return static_cast<std::int64_t>(keys->out.size());
}

void kb_table_free(Table* table) { delete table; }

std::int64_t kb_names_parts(std::int64_t n, const std::uint8_t* text, const std::int64_t* starts,
                            std::int32_t* sizes, std::int32_t* parts, std::int64_t* hashes) {
  return kbforge::number_parts({n, text, starts}, sizes, parts, hashes);
}

void kb_names_nearest(std::int64_t n, const std::int64_t* starts, const std::int32_t* parts,
                      const double* rarity, const double* scale, const std::int64_t* often,
                      std::int64_t keys, std::int64_t sharing, std::int64_t alike,
                      std::int32_t workers, std::int64_t* pairs) {
  kbforge::nearest_names({n, starts, parts, rarity, scale}, {often, keys, sharing, alike}, workers,
                         pairs);
}

void kb_names_products(std::int64_t n, const std::int64_t* starts, const std::int32_t* parts,
                       const double* rarity, const double* scale, std::int64_t pairs,
                       const std::int64_t* firsts, const std::int64_t* seconds,
                       std::int64_t* product_starts, double* products) {
  kbforge::shared_products({n, starts, parts, rarity, scale}, pairs, firsts, seconds, product_starts,
                           products);
}
