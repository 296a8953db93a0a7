#include "api.hpp"

#include <algorithm>
#include <memory>

#include "counts.hpp"
#include "gaussian.hpp"
#include "index.hpp"
#include "keys.hpp"
#include "pairs.hpp"
#include "state.hpp"
#include "step.hpp"
#include "trees.hpp"
#include "urns.hpp"
#include "wave.hpp"

namespace kbforge {

// A run: state, index and step, and what was last told of them.
struct Run {
  Run(Rules rules, bool is_indexed, IndexRules index_rules)
      : step(state, rules), index(index_rules), indexed(is_indexed) {}

  State state;
  Step step;
  Index index;
  bool indexed;

  Lookup lookup;
  Tallies tallies;
  std::unique_ptr<Waves> waves;  // none: one thread does everything
  std::vector<std::int64_t> told_slots;
  std::vector<double> predictive;
  // of the fragments of one call
  std::vector<std::int64_t> before, after, before_start, after_start;
  std::vector<std::int64_t> subproblems, evaluations;
  std::vector<double> log10;
  // copies
  std::vector<std::int64_t> names, free;
  std::vector<std::int64_t> clusters, particles, page_slots, lengths, members, rows, cells;
  std::vector<double> scores, weights;
  std::vector<std::int64_t> keys, counts, families;
  std::vector<std::uint8_t> closed;

  void look_up(const std::int64_t* wanted, std::int64_t n) {
    if (indexed) {
      index.look_up(state, wanted, static_cast<std::size_t>(n), tallies, lookup);
      return;
    }
    lookup.slots.clear();
    for (std::size_t slot = 0; slot < state.clusters.size(); ++slot) {
      if (state.clusters[slot].live) lookup.slots.push_back(static_cast<Slot>(slot));
    }
  }

  void begin() {
    before.clear();
    after.clear();
    before_start.assign(1, 0);
    after_start.assign(1, 0);
    subproblems.clear();
    evaluations.clear();
    log10.clear();
  }

  // Take in the fragment of that lookup.
  Outcome take_in(const Lookup& looked, const double* gains, double alone) {
    // a cluster may hold all fragments
    if (state.log_size.size() < state.blocks.size() + 2) return Outcome::kNotTold;
    const Outcome outcome = step.take_in(looked.slots, gains, alone);
    if (outcome != Outcome::kDone) return outcome;
    if (indexed) index.extend(looked, step.done.families);
    before.insert(before.end(), step.done.before.begin(), step.done.before.end());
    after.insert(after.end(), step.done.after.begin(), step.done.after.end());
    before_start.push_back(static_cast<std::int64_t>(before.size()));
    after_start.push_back(static_cast<std::int64_t>(after.size()));
    subproblems.push_back(state.n_subproblems);
    evaluations.push_back(step.evaluations);
    log10.push_back(state.log10_effective);
    return outcome;
  }

  // Take in fragments one after another, by a table of the kernel's own.
  Outcome add(Table& table, const Batch& batch) {
    const bool ahead = waves && indexed && table.ahead() != kbforge::Ahead::kNever;
    if (ahead) waves->restart();
    for (std::int64_t k = 0; k < batch.n; ++k) {
      if (ahead && waves->ended(k)) waves->look(k, batch, state, index, table);
      const Lookup* looked = ahead ? waves->found(k, predictive) : nullptr;
      const Record x = batch.record(k);
      if (!looked) {
        const std::int64_t first = batch.key_start[k];
        look_up(batch.keys + first, batch.key_start[k + 1] - first);
        predictive.resize(lookup.slots.size());
        table.log_predictive(x, lookup.slots, predictive.data());
        looked = &lookup;
      }
      const Outcome outcome =
          take_in(*looked, predictive.data(), table.log_predictive_new(x));
      if (outcome != Outcome::kDone) return outcome;
      table.extend(x, step.done.parents, step.done.children);
      table.release(step.done.dropped);
      if (ahead) waves->note(*looked, step.done.disturbed);
    }
    return Outcome::kDone;
  }

  void tell(Outcome outcome, kb_done* done) const {
    const Done& last = step.done;
    done->taken = static_cast<std::int64_t>(log10.size());
    done->outcome = static_cast<std::int32_t>(outcome);
    done->evaluations = step.evaluations;
    done->subproblems = state.n_subproblems;
    done->log10_effective = state.log10_effective;
    done->parents = last.parents.data();
    done->children = last.children.data();
    done->dropped = last.dropped.data();
    done->n_children = static_cast<std::int64_t>(last.children.size());
    done->n_dropped = static_cast<std::int64_t>(last.dropped.size());
    done->before = before.data();
    done->after = after.data();
    done->before_start = before_start.data();
    done->after_start = after_start.data();
    done->subproblems_after = subproblems.data();
    done->evaluations_after = evaluations.data();
    done->log10_after = log10.data();
  }

  void copy_page(const Block& block) {
    clusters.push_back(static_cast<std::int64_t>(block.slots.size()));
    particles.push_back(block.rows());
    std::vector<Number> held;
    std::int32_t place = 0;
    for (Slot slot : block.slots) {
      state.clusters[slot].place = place++;
      page_slots.push_back(slot);
      scores.push_back(state.clusters[slot].score);
      state.members(slot, held);
      lengths.push_back(static_cast<std::int64_t>(held.size()));
      members.insert(members.end(), held.begin(), held.end());
    }
    for (std::int32_t row = 0; row < block.rows(); ++row) rows.push_back(block.length(row));
    for (Slot slot : block.cells) cells.push_back(state.clusters[slot].place);
    weights.insert(weights.end(), block.weights.begin(), block.weights.end());
  }
};

// Keys, and those that were last told.
class KeyMaker {
 public:
  explicit KeyMaker(std::size_t most) : keys(most) {}

  Keys keys;
  std::vector<std::int64_t> starts, out;
};

}  // namespace kbforge

using kbforge::AttributeTable;
using kbforge::KeyMaker;
using kbforge::Outcome;
using kbforge::Run;
using kbforge::Table;

namespace {

std::vector<std::unique_ptr<kbforge::Urns>>& attributes_of(Table* table) {
  return static_cast<AttributeTable*>(table)->attributes;
}

}  // namespace

std::int32_t kb_version(void) { return 4; }

void kb_functions(std::int64_t n, const double* x, double* out) {
  for (std::int64_t k = 0; k < n; ++k) {
    out[k] = std::exp(-x[k]);
    out[n + k] = std::log(x[k]);
    out[2 * n + k] = std::log10(x[k]);
    out[3 * n + k] = std::pow(x[k], 0.7);
  }
}

kbforge::Run* kb_run_new(std::int32_t particles, double log_floor, std::int32_t splits,
                         double log_alpha, std::int32_t indexed, std::int32_t most,
                         std::int32_t shared, std::int32_t compared) {
  const kbforge::Rules rules{particles, log_floor, splits != 0, log_alpha};
  return new Run(rules, indexed != 0, kbforge::IndexRules{most, shared, compared});
}

void kb_run_free(Run* run) { delete run; }

void kb_run_workers(Run* run, std::int32_t workers) {
  run->waves.reset(workers > 1 ? new kbforge::Waves(static_cast<std::size_t>(workers)) : nullptr);
}

void kb_run_sizes(Run* run, std::int64_t n, const double* log_size, const double* log_cluster) {
  run->state.log_size.assign(log_size, log_size + n);
  run->state.log_cluster.assign(log_cluster, log_cluster + n);
}

std::int64_t kb_look_up(Run* run, const std::int64_t* keys, std::int64_t n,
                        const std::int64_t** slots) {
  run->look_up(keys, n);
  run->told_slots.assign(run->lookup.slots.begin(), run->lookup.slots.end());
  *slots = run->told_slots.data();
  return static_cast<std::int64_t>(run->told_slots.size());
}

void kb_take_in(Run* run, const double* predictive, double alone, kb_done* done) {
  run->begin();
  run->tell(run->take_in(run->lookup, predictive, alone), done);
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

std::int64_t kb_names(Run* run, const std::int64_t** names) {
  run->names.clear();
  for (std::size_t name = 0; name < run->state.blocks.size(); ++name) {
    if (run->state.blocks[name]) run->names.push_back(static_cast<std::int64_t>(name));
  }
  *names = run->names.data();
  return static_cast<std::int64_t>(run->names.size());
}

void kb_export_pages(Run* run, std::int64_t n, const std::int64_t* names, kb_pages* pages) {
  for (auto* column : {&run->clusters, &run->particles, &run->page_slots, &run->lengths,
                       &run->members, &run->rows, &run->cells}) {
    column->clear();
  }
  run->scores.clear();
  run->weights.clear();
  for (std::int64_t k = 0; k < n; ++k) run->copy_page(*run->state.blocks[names[k]]);
  pages->clusters = run->clusters.data();
  pages->particles = run->particles.data();
  pages->slots = run->page_slots.data();
  pages->lengths = run->lengths.data();
  pages->members = run->members.data();
  pages->rows = run->rows.data();
  pages->cells = run->cells.data();
  pages->scores = run->scores.data();
  pages->weights = run->weights.data();
  pages->n_slots = static_cast<std::int64_t>(run->page_slots.size());
  pages->n_members = static_cast<std::int64_t>(run->members.size());
  pages->n_rows = static_cast<std::int64_t>(run->rows.size());
  pages->n_cells = static_cast<std::int64_t>(run->cells.size());
}

void kb_export_totals(Run* run, kb_totals* totals) {
  run->free.assign(run->state.free.begin(), run->state.free.end());
  totals->fragments = run->state.n_fragments();
  totals->slots = static_cast<std::int64_t>(run->state.clusters.size());
  totals->subproblems = run->state.n_subproblems;
  totals->evaluations = run->step.evaluations;
  totals->n_free = static_cast<std::int64_t>(run->free.size());
  totals->free = run->free.data();
  totals->log10_effective = run->state.log10_effective;
}

void kb_export_led(Run* run, kb_led* led) {
  run->keys.clear();
  run->counts.clear();
  run->families.clear();
  run->closed.clear();
  for (const auto& one : run->index.contents()) {
    run->keys.push_back(one.key);
    run->counts.push_back(static_cast<std::int64_t>(one.families.size()));
    run->families.insert(run->families.end(), one.families.begin(), one.families.end());
    run->closed.push_back(one.closed);
  }
  led->n_keys = static_cast<std::int64_t>(run->keys.size());
  led->n_families = static_cast<std::int64_t>(run->families.size());
  led->keys = run->keys.data();
  led->counts = run->counts.data();
  led->families = run->families.data();
  led->closed = run->closed.data();
}

KeyMaker* kb_keys_new(std::int64_t most) { return new KeyMaker(static_cast<std::size_t>(most)); }

void kb_keys_free(KeyMaker* keys) { delete keys; }

void kb_keys_values(KeyMaker* keys, std::int64_t n, const std::int64_t* single_start,
                    const std::int64_t* singles, const std::int64_t* paired_start,
                    const std::int64_t* paired) {
  keys->keys.add(n, single_start, singles, paired_start, paired);
}

std::int64_t kb_keys_of(KeyMaker* keys, std::int64_t n, const std::int64_t* value_start,
                        const std::int64_t* values, const std::int64_t* more_start,
                        const std::int64_t* more, const std::int64_t** starts,
                        const std::int64_t** out) {
  keys->starts.assign(1, 0);
  keys->out.clear();
  for (std::int64_t k = 0; k < n; ++k) {
    keys->keys.compose(values + value_start[k],
                       static_cast<std::size_t>(value_start[k + 1] - value_start[k]),
                       more + more_start[k],
                       static_cast<std::size_t>(more_start[k + 1] - more_start[k]), keys->out);
    keys->starts.push_back(static_cast<std::int64_t>(keys->out.size()));
  }
  *starts = keys->starts.data();
  *out = keys->out.data();
  return static_cast<std::int64_t>(keys->out.size());
}

Table* kb_attributes_new(void) { return new AttributeTable(); }

void kb_table_free(Table* table) { delete table; }

void kb_attributes_begin(Table* table, double concentration, double discount,
                         std::int64_t n_weights, const double* weights, std::int32_t numeric,
                         std::int64_t alphabet, std::int64_t n_letters,
                         const std::uint32_t* letters,
                         void (*by_words)(std::int32_t, std::int32_t, std::int32_t, double*)) {
  kbforge::AttributeRules rules;
  rules.concentration = concentration;
  rules.discount = discount;
  rules.weights.assign(weights, weights + n_weights);
  rules.numeric = numeric != 0;
  rules.alphabet = alphabet;
  rules.letters.assign(letters, letters + n_letters);
  rules.by_words = by_words;
  const auto attribute = static_cast<std::int32_t>(attributes_of(table).size());
  attributes_of(table).push_back(std::make_unique<kbforge::Urns>(attribute, std::move(rules)));
}

std::int32_t kb_attributes_values(Table* table, std::int32_t attribute, std::int64_t first,
                          std::int64_t n, const double* base, const std::uint8_t* counted,
                          const std::int64_t* char_start, const std::uint32_t* chars,
                          const std::int64_t* feature_start, const std::int32_t* names,
                          const std::int32_t* features, const double* masses) {
  kbforge::Values& values = attributes_of(table)[attribute]->values;
  if (values.size() != first) return 0;
  values.add(n, base, counted, char_start, chars, feature_start,
                                           names, features, masses);
  return 1;
}

double kb_attributes_draw(Table* table, std::int32_t attribute, std::int32_t u,
                          std::int32_t v) {
  return attributes_of(table)[attribute]->values.draw(u, v);
}

Table* kb_counts_new(void (*more)(std::int32_t, std::int64_t, std::int64_t, double*)) {
  return new kbforge::CountTable(more);
}

std::int32_t kb_counts_rows(Table* table, std::int64_t first, std::int64_t n, std::int64_t width,
                            const double* factors) {
  auto* counts = static_cast<kbforge::CountTable*>(table);
  if (counts->n_rows() != first) return 0;
  counts->add_rows(n, width, factors);
  return 1;
}

Table* kb_gaussian_new(void) { return new kbforge::GaussianTable(); }

void kb_gaussian_begin(Table* table, std::int64_t dimensions, std::int64_t n_ends,
                       const std::int64_t* ends, const double* a, const double* b,
                       const double* lam, const double* centre) {
  const auto by_dimension = [dimensions](const double* x) {
    return std::vector<double>(x, x + dimensions);
  };
  static_cast<kbforge::GaussianTable*>(table)->begin(
      {by_dimension(a), by_dimension(b), by_dimension(lam), by_dimension(centre),
       std::vector<std::int64_t>(ends, ends + n_ends)});
}

void kb_gaussian_sizes(Table* table, std::int64_t n, const double* log_gammas) {
  static_cast<kbforge::GaussianTable*>(table)->set_sizes(n, log_gammas);
}

std::int32_t kb_gaussian_points(Table* table, std::int64_t first, std::int64_t n,
                                const double* points) {
  auto* gaussian = static_cast<kbforge::GaussianTable*>(table);
  if (gaussian->n_points() != first) return 0;
  gaussian->add_points(n, points);
  return 1;
}

Table* kb_pairs_new(std::int64_t rows, const std::int64_t* start, const std::int32_t* second,
                    const std::int32_t* above, const std::int64_t* back_start,
                    const std::int32_t* back, const std::int32_t* back_first,
                    const std::int32_t* own, std::int64_t apart, double units) {
  const kbforge::Links links{rows, start, second, above, back_start, back, back_first, own};
  return new kbforge::PairTable(links, apart, units);
}

std::int32_t kb_pairs_rows(Table* table, std::int64_t first, std::int64_t n,
                           const std::int64_t* start, const std::int32_t* rows,
                           const std::int32_t* above) {
  auto* pairs = static_cast<kbforge::PairTable*>(table);
  if (pairs->n_rows() != first) return 0;
  pairs->add_rows(n, start, rows, above);
  return 1;
}

void kb_trees_add(std::int64_t trees, std::int64_t nodes, const std::int64_t* feature,
                  const double* threshold, const std::uint64_t* kept_right,
                  const std::uint64_t* whole, const std::int64_t* first,
                  const std::int64_t* leaves, const double* values, std::int64_t rows,
                  const double* sides, double* sums) {
  const kbforge::TreeMasks masks{trees, nodes, feature, threshold, kept_right,
                                 whole, first, leaves};
  kbforge::add_trees(masks, values, rows, sides, sums);
}
