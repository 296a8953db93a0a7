// The step as a whole, and growing: x is put into its place on every particle of the joint.
#include "step.hpp"

#include <algorithm>
#include <memory>

namespace kbforge {

Outcome Step::take_in(const Scored& scored, bool joins) {
  const Outcome outcome =
      propose_joins(scored.slots, scored.predictive, rules_.limit(), rules_.log_floor);
  return outcome == Outcome::kDone ? decide(scored, joins) : outcome;
}

Outcome Step::take_in_proposed(const Scored& scored, bool joins) {
  reweigh(scored);
  return decide(scored, joins);
}

Outcome Step::take_apart(double alone) {
  if (std::isnan(alone) || alone == -kNever) return Outcome::kBadAlone;
  if (alone == kNever) return Outcome::kNoPlace;
  state_.tidy();
  open(state_.n_fragments(), alone);
  return Outcome::kDone;
}

// What becomes of x, by the joins proposed.
Outcome Step::decide(const Scored& scored, bool joins) {
  double alone = scored.alone;
  if (std::isnan(alone) || alone == -kNever) return Outcome::kBadAlone;
  if (joins) {
    if (pool_.empty()) return Outcome::kCornered;
    alone = kNever;
  }
  state_.tidy();
  const Number x = state_.n_fragments();
  if (pool_.empty() && (rules_.splits || !state_.n_subproblems)) {
    if (alone == kNever) return Outcome::kNoPlace;
    open(x, alone);
    return Outcome::kDone;
  }
  if (!add_singletons(on_grid(rules_.log_alpha + alone))) return Outcome::kNoPlace;
  if (!resample()) return Outcome::kNotDrawn;
  discard_weak_merges();
  const auto opens = [](const Putative& one) { return one.cell == kNone; };
  if (rules_.splits && std::all_of(pool_.begin(), pool_.end(), opens)) {
    open(x, alone);
    return Outcome::kDone;
  }
  if (!merge()) return Outcome::kNotDrawn;
  grow(x, scored);
  return Outcome::kDone;
}

// x gets a subproblem of its own.
void Step::open(Number x, double alone) {
  state_.count_fragment();
  const Slot slot = state_.place(x, kNone, alone);
  ++evaluations;
  auto* block = new Block{{0.0}, {0, 1}, {slot}, {slot}};
  state_.install(x, block);
  state_.home[x] = x;
  done.parents.assign(1, -1);
  done.children.assign(1, slot);
  done.dropped.clear();
  done.before.clear();
  done.after.assign(1, x);
  done.families.assign(1, x);
}

void Step::grow(Number x, const Scored& scored) {
  parents_.clear();
  for (std::int32_t putative : placed_.putative) parents_.push_back(pool_[putative].slot);
  std::sort(parents_.begin(), parents_.end());
  parents_.erase(std::unique(parents_.begin(), parents_.end()), parents_.end());
  old_slots_.clear();
  for (Number name : names_) {
    const Block& block = *state_.blocks[name];
    old_slots_.insert(old_slots_.end(), block.slots.begin(), block.slots.end());
  }
  state_.count_fragment();
  children_.clear();
  done.families.clear();
  for (Slot parent : parents_) {
    double score = scored.alone;
    if (parent != kNone) {
      const auto& slots = scored.slots;
      const auto at = std::lower_bound(slots.begin(), slots.end(), parent) - slots.begin();
      score = scored.joined ? scored.joined[at]
                            : state_.clusters[parent].score + scored.predictive[at];
    }
    const Slot child = state_.place(x, parent, score);
    ++evaluations;
    children_.push_back(child);
    const Number family = state_.clusters[child].first;
    if (std::find(done.families.begin(), done.families.end(), family) == done.families.end()) {
      done.families.push_back(family);
    }
  }
  auto grown = std::make_unique<Block>();
  copy_rows(*grown);
  grown->weights = placed_.value;
  normalise(grown->weights);
  done.parents.assign(parents_.begin(), parents_.end());
  done.children.assign(children_.begin(), children_.end());
  done.before.assign(names_.begin(), names_.end());
  for (Number name : names_) delete state_.remove(name);
  keep_held(*grown);
  for (std::int64_t slot : done.dropped) state_.release(static_cast<Slot>(slot));
  done.after.clear();
  split(grown.release());
  follow_homes(x);
}

// Where nothing merged or fell apart, x alone has come somewhere.
void Step::follow_homes(Number x) {
  if (done.before.size() == 1 && done.before == done.after) {
    state_.home[x] = static_cast<Number>(done.after[0]);
    return;
  }
  for (std::int64_t name : done.after) state_.follow_home(static_cast<Number>(name));
}

// A particle's row is those of its subproblems, with the cell that takes x replaced or x appended.
void Step::copy_rows(Block& grown) {
  const std::size_t columns = names_.size();
  for (std::size_t k = 0; k < placed_.value.size(); ++k) {
    const Putative& chosen = pool_[placed_.putative[k]];
    const auto at = std::lower_bound(parents_.begin(), parents_.end(), chosen.slot);
    const Slot child = children_[at - parents_.begin()];
    const std::size_t start = grown.cells.size();
    grown.row_start.push_back(static_cast<std::uint32_t>(start));
    for (std::size_t column = 0; column < columns; ++column) {
      const Block& block = *state_.blocks[names_[column]];
      const std::int32_t row = placed_.rows[k * columns + column];
      const std::size_t landing = grown.cells.size();
      grown.cells.insert(grown.cells.end(), block.cells.begin() + block.row_start[row],
                         block.cells.begin() + block.row_start[row + 1]);
      if (chosen.cell != kNone && chosen.subproblem == names_[column]) {
        grown.cells[landing + chosen.cell - block.row_start[row]] = child;
      }
    }
    if (chosen.cell == kNone) grown.cells.push_back(child);
    if (columns > 1) {
      std::sort(grown.cells.begin() + start, grown.cells.end(), [this](Slot a, Slot b) {
        return state_.clusters[a].first < state_.clusters[b].first;
      });
    }
  }
  grown.row_start.push_back(static_cast<std::uint32_t>(grown.cells.size()));
}

// Clusters that some row holds are kept, in order; the others are dropped.
void Step::keep_held(Block& grown) {
  old_slots_.insert(old_slots_.end(), children_.begin(), children_.end());
  for (Slot slot : old_slots_) state_.clusters[slot].place = kNone;
  for (Slot slot : grown.cells) state_.clusters[slot].place = 0;
  done.dropped.clear();
  for (Slot slot : old_slots_) {
    if (state_.clusters[slot].place == kNone) {
      done.dropped.push_back(slot);
    } else {
      grown.slots.push_back(slot);
    }
  }
}

void Step::put_in_place(Number name, Block* block) {
  block->weights.shrink_to_fit();
  block->row_start.shrink_to_fit();
  block->cells.shrink_to_fit();
  block->slots.shrink_to_fit();
  state_.install(name, block);
  done.after.push_back(name);
}

}  // namespace kbforge
