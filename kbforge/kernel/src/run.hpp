// A run: what the functions of api.hpp work on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "api.hpp"
#include "constraints.hpp"
#include "index.hpp"
#include "state.hpp"
#include "step.hpp"
#include "table.hpp"

namespace kbforge {

// How a fragment is taken in: as the likelihood proposes, as a surrogate has proposed, or into a
// subproblem of its own.
enum class How { kScored = 0, kProposed = 1, kApart = 2 };

// A run: state, index and step, and what was last told of them.
struct Run {
  Run(Rules rules, bool is_indexed, IndexRules index_rules)
      : step(state, rules), index(index_rules), indexed(is_indexed) {}

  State state;
  Step step;
  Index index;
  bool indexed;

  std::unique_ptr<Constraints> constraints;  // none are in force without

  Lookup lookup;
  Constraints::Bounds bounds{&lookup.slots};  // of the fragment looked up
  Tallies tallies;
  std::vector<std::int64_t> told_slots;
  std::vector<double> predictive;
  std::vector<Slot> proposed;  // by a surrogate
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

  // Where these keys lead, or, without an index, all clusters.
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

  // The cluster of a fragment in the heaviest particle.
  Slot own_slot(Number x) const {
    const Block& block = *state.blocks[state.home[x]];
    std::uint32_t at = 0;
    while (!state.has_member(block.cells[at], x)) ++at;
    return block.cells[at];
  }

  // Leave in `lookup` the clusters of heaviest particles that a fragment could belong to instead of
  // its own, none unless `lone` if that has no other fragment; whether all are here.
  bool find_rivals(Number x, bool lone, const std::int64_t* wanted, std::int64_t n) {
    const Slot own = own_slot(x);
    lookup.slots.clear();
    if (!lone && state.clusters[own].size == 1) return true;
    look_up(wanted, n);
    if (!lookup.missing.empty()) return false;
    std::vector<Number> owners;
    for (Slot slot : lookup.slots) owners.push_back(state.clusters[slot].owner);
    std::sort(owners.begin(), owners.end());
    owners.erase(std::unique(owners.begin(), owners.end()), owners.end());
    std::vector<Slot> heaviest;
    for (Number owner : owners) {
      const Block& near = *state.blocks[owner];
      heaviest.insert(heaviest.end(), near.cells.begin(), near.cells.begin() + near.row_start[1]);
    }
    std::sort(heaviest.begin(), heaviest.end());
    const auto other = [&](Slot slot) {
      return slot == own || !std::binary_search(heaviest.begin(), heaviest.end(), slot);
    };
    auto& slots = lookup.slots;
    slots.erase(std::remove_if(slots.begin(), slots.end(), other), slots.end());
    return true;
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

  // Leave in `bounds` the clusters to compare a fragment with, of those looked up.
  void bound(Number fragment) {
    bounds = constraints ? constraints->bound(fragment, lookup.slots)
                         : Constraints::Bounds{&lookup.slots};
  }

  // Take in the fragment looked up, of which the clusters of `bounds` are scored, or those that were
  // last proposed.
  Outcome take_in(const Scored& scored, How how = How::kScored) {
    const auto largest = static_cast<std::size_t>(state.largest) + 1;
    if (state.log_size.size() <= largest) return Outcome::kNotTold;
    const Number x = state.n_fragments();
    const Outcome outcome = how == How::kApart      ? step.take_apart(scored.alone)
                            : how == How::kProposed ? step.take_in_proposed(scored, bounds.joins)
                                                    : step.take_in(scored, bounds.joins);
    if (outcome != Outcome::kDone) return outcome;
    if (indexed) index.extend(lookup, step.done.families);
    if (constraints) {
      constraints->follow(x, step.done.parents, step.done.children, step.done.dropped);
    }
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
    for (std::int64_t k = 0; k < batch.n; ++k) {
      const Record x = batch.record(k);
      const std::int64_t first = batch.key_start[k];
      look_up(batch.keys + first, batch.key_start[k + 1] - first);
      if (!lookup.missing.empty()) return Outcome::kElsewhere;
      bound(state.n_fragments());
      predictive.resize(bounds.slots->size());
      table.log_predictive(x, *bounds.slots, predictive.data());
      const Scored scored{*bounds.slots, predictive.data(), nullptr, table.log_predictive_new(x)};
      const Outcome outcome = take_in(scored);
      if (outcome != Outcome::kDone) return outcome;
      table.extend(x, step.done.parents, step.done.children);
      table.release(step.done.dropped);
      table.forget(x);
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

  // Have a subproblem's clusters the tags of their fragments.
  void tag_clusters(const Block& block) {
    std::vector<Number> held;
    for (Slot slot : block.slots) {
      state.members.read(state.clusters[slot].list, held);
      constraints->put(slot, held);
    }
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
      state.members.read(state.clusters[slot].list, held);
      lengths.push_back(static_cast<std::int64_t>(held.size()));
      members.insert(members.end(), held.begin(), held.end());
    }
    for (std::int32_t row = 0; row < block.rows(); ++row) rows.push_back(block.length(row));
    for (Slot slot : block.cells) cells.push_back(state.clusters[slot].place);
    weights.insert(weights.end(), block.weights.begin(), block.weights.end());
  }

  // The heaviest particle's clusters alone: their lengths and members.
  void copy_heaviest(const Block& block) {
    std::vector<Number> held;
    for (std::uint32_t at = 0; at < block.row_start[1]; ++at) {
      state.members.read(state.clusters[block.cells[at]].list, held);
      lengths.push_back(static_cast<std::int64_t>(held.size()));
      members.insert(members.end(), held.begin(), held.end());
    }
  }
};

}  // namespace kbforge
