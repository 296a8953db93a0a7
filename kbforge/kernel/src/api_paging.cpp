// Copies of a run, and subproblems that come and go: kbforge/clustering/compiled.py.
#include <algorithm>

#include "api.hpp"
#include "hold.hpp"
#include "run.hpp"

using kbforge::Index;
using kbforge::Number;
using kbforge::Run;
using kbforge::Table;

namespace {

void tell(Run* run, const std::vector<Index::Led>& found, kb_led* led) {
  run->keys.clear();
  run->counts.clear();
  run->families.clear();
  run->closed.clear();
  for (const auto& one : found) {
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

}  // namespace

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

void kb_export_led(Run* run, kb_led* led) { tell(run, run->index.contents(), led); }

void kb_changed_led(Run* run, kb_led* led) { tell(run, run->index.changed(), led); }

void kb_led_of(Run* run, std::int64_t n, const std::int64_t* keys, kb_led* led) {
  tell(run, run->index.contents(keys, static_cast<std::size_t>(n)), led);
}

void kb_keep_open(Run* run, std::int64_t n, const std::int64_t* keys) {
  for (std::int64_t k = 0; k < n; ++k) run->index.keep_open(keys[k]);
}

void kb_put_led(Run* run, std::int64_t n, const std::int64_t* keys, const std::int64_t* counts,
                const std::int64_t* families, const std::uint8_t* closed, std::int32_t changes) {
  std::vector<Number> led;
  for (std::int64_t k = 0; k < n; ++k) {
    led.assign(families, families + counts[k]);
    families += counts[k];
    run->index.put(keys[k], led, closed[k] != 0, changes != 0);
  }
}

std::int32_t kb_export_heaviest(Run* run, std::int64_t name, kb_pages* pages) {
  if (name < 0 || name >= run->state.n_fragments() || !run->state.blocks[name]) return 0;
  run->lengths.clear();
  run->members.clear();
  run->copy_heaviest(*run->state.blocks[name]);
  pages->lengths = run->lengths.data();
  pages->members = run->members.data();
  pages->n_slots = static_cast<std::int64_t>(run->lengths.size());
  pages->n_members = static_cast<std::int64_t>(run->members.size());
  return 1;
}

void kb_resume(Run* run, const kb_totals* totals, std::int32_t elsewhere) {
  auto& state = run->state;
  state.number(static_cast<Number>(totals->fragments), static_cast<kbforge::Slot>(totals->slots));
  state.free.assign(totals->free, totals->free + totals->n_free);
  state.n_subproblems = totals->subproblems;
  state.log10_effective = totals->log10_effective;
  run->step.evaluations = totals->evaluations;
  if (elsewhere) state.elsewhere.assign(totals->fragments, 1);
}

void kb_hold(Run* run, std::int64_t n, const std::int64_t* names, const kb_pages* pages) {
  kbforge::hold(run->state, n, names, *pages);
  for (std::int64_t k = 0; k < n && run->constraints; ++k) {
    run->tag_clusters(*run->state.blocks[names[k]]);
  }
}

void kb_drop(Run* run, std::int64_t n, const std::int64_t* names) {
  for (std::int64_t k = 0; k < n && run->constraints; ++k) {
    for (kbforge::Slot slot : run->state.blocks[names[k]]->slots) run->constraints->release(slot);
  }
  kbforge::drop(run->state, n, names);
}

void kb_replay(const Run* run, Table* table, std::int64_t n_slots, const std::int64_t* slots,
               const std::int64_t* lengths, const std::int64_t* members, std::int64_t n,
               const std::int64_t* fragments, const std::int64_t* record_start,
               const std::int32_t* attributes, const std::int32_t* values, double* scores) {
  const kbforge::Batch records{n, record_start, attributes, values, nullptr, nullptr};
  auto first_free = static_cast<std::int64_t>(run->state.clusters.size());
  for (std::int64_t k = 0; k < n_slots; ++k) first_free = std::max(first_free, slots[k] + 1);
  const kbforge::Placed placed{n_slots, slots, lengths, members, first_free};
  kbforge::replay(*table, placed, fragments, records, scores);
}

void kb_release(Table* table, std::int64_t n, const std::int64_t* slots) {
  table->release(std::vector<std::int64_t>(slots, slots + n));
}

void kb_count(Run* run, std::int64_t evaluations) { run->step.evaluations += evaluations; }

void kb_absent(Run* run, std::int64_t n, const std::int64_t* fragments) {
  auto& state = run->state;
  for (std::int64_t k = 0; k < n; ++k) {
    state.home[fragments[k]] = kbforge::kNone;
    if (state.is_elsewhere(static_cast<Number>(fragments[k]))) state.elsewhere[fragments[k]] = 0;
  }
}

void kb_homes(Run* run, std::int64_t n, const std::int64_t* fragments, std::int64_t* homes) {
  for (std::int64_t k = 0; k < n; ++k) homes[k] = run->state.home[fragments[k]];
}

std::int64_t kb_own_slot(const Run* run, std::int64_t fragment) {
  return run->own_slot(static_cast<Number>(fragment));
}

std::int64_t kb_elsewhere(Run* run, const std::int64_t* keys, std::int64_t n,
                          const std::int64_t** families) {
  const auto found = run->index.elsewhere(run->state, keys, static_cast<std::size_t>(n));
  run->families.assign(found.begin(), found.end());
  *families = run->families.data();
  return static_cast<std::int64_t>(found.size());
}

std::int64_t kb_missing(Run* run, std::int64_t n, const std::int64_t* key_start,
                        const std::int64_t* keys, const std::int64_t** families) {
  run->families.clear();
  for (std::int64_t k = 0; k < n && run->indexed; ++k) {
    run->look_up(keys + key_start[k], key_start[k + 1] - key_start[k]);
    const auto& missing = run->lookup.missing;
    run->families.insert(run->families.end(), missing.begin(), missing.end());
  }
  std::sort(run->families.begin(), run->families.end());
  const auto end = std::unique(run->families.begin(), run->families.end());
  run->families.erase(end, run->families.end());
  *families = run->families.data();
  return static_cast<std::int64_t>(run->families.size());
}

std::int64_t kb_rivals(Run* run, Table* table, std::int64_t fragment, std::int32_t lone,
                       const std::int64_t* record_start, const std::int32_t* attributes,
                       const std::int32_t* values, const std::int64_t* key_start,
                       const std::int64_t* keys, kb_rival* out) {
  const auto x = static_cast<Number>(fragment);
  if (!run->find_rivals(x, lone != 0, keys + key_start[0], key_start[1] - key_start[0])) return -1;
  const auto& slots = run->lookup.slots;
  run->told_slots.assign(slots.begin(), slots.end());
  run->scores.assign(slots.size(), 0.0);
  out->slots = run->told_slots.data();
  out->alone = 0.0;
  if (table) {
    const kbforge::Batch batch{1, record_start, attributes, values, key_start, keys};
    if (!table->knows(batch.record(0))) return -2;
    table->log_predictive(batch.record(0), slots, run->scores.data());
    out->alone = table->log_predictive_new(batch.record(0));
  }
  for (std::size_t k = 0; k < slots.size(); ++k) {
    run->scores[k] += run->state.log_size[run->state.clusters[slots[k]].size];
  }
  out->weights = run->scores.data();
  return static_cast<std::int64_t>(slots.size());
}
