// Propose, resample, discard: the putative particles of a step, cut to P.
#include <algorithm>
#include <functional>

#include "step.hpp"

namespace kbforge {

namespace {
// Covers the rounding of weights that are too large for the grid.
constexpr double kSlack = 1e-9;
}  // namespace

// The heaviest joins in canonical order: heaviest first, equals by subproblem, row and cell.
Outcome Step::propose_joins(const std::vector<Slot>& slots, const double* predictive,
                            std::size_t limit, double log_floor) {
  pool_.clear();
  names_.clear();
  candidates_.clear();
  best_.clear();
  double top = kNever;
  for (std::size_t k = 0; k < slots.size(); ++k) {
    Cluster& cluster = state_.clusters[slots[k]];
    const double gain = on_grid(predictive[k]);
    const double best = cluster.reach + gain;
    if (std::isnan(best) || best == -kNever) return Outcome::kBadPredictive;
    if (best == kNever) continue;
    cluster.gain = gain;
    candidates_.push_back(slots[k]);
    best_.push_back(best);
    top = std::max(top, best);
  }
  if (candidates_.empty()) return Outcome::kDone;
  // what is below the floor of the resampling is dropped whatever else there is
  double floor = top + log_floor;
  if (best_.size() > limit) {
    shares_ = best_;
    std::nth_element(shares_.begin(), shares_.begin() + (limit - 1), shares_.end(),
                     std::greater<double>());
    floor = std::max(floor, shares_[limit - 1]);
  }
  for (std::size_t k = 0; k < candidates_.size(); ++k) {
    Cluster& cluster = state_.clusters[candidates_[k]];
    if (best_[k] < floor) {
      cluster.gain = kNever;
    } else {
      names_.push_back(cluster.owner);
    }
  }
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  expand(floor);
  for (Slot slot : candidates_) state_.clusters[slot].gain = kNever;
  if (pool_.size() > limit) {
    std::nth_element(pool_.begin(), pool_.begin() + limit, pool_.end(), Heavier());
    pool_.resize(limit);
  }
  std::sort(pool_.begin(), pool_.end(), Heavier());
  return Outcome::kDone;
}

Outcome Step::propose(const std::vector<Slot>& slots, const double* predictive,
                      std::size_t limit) {
  return propose_joins(slots, predictive, limit, kNever);
}

std::vector<Slot> Step::proposed() const {
  std::vector<Slot> slots;
  for (const Putative& one : pool_) slots.push_back(one.slot);
  std::sort(slots.begin(), slots.end());
  slots.erase(std::unique(slots.begin(), slots.end()), slots.end());
  return slots;
}

// What a surrogate proposed is weighed by the likelihood; joins that it forbids are left out.
void Step::reweigh(const Scored& scored) {
  const auto& slots = scored.slots;
  for (Putative& one : pool_) {
    const auto at = std::lower_bound(slots.begin(), slots.end(), one.slot) - slots.begin();
    const double weight = state_.blocks[one.subproblem]->weights[one.row];
    const double prior = weight + state_.log_size[state_.clusters[one.slot].size];
    one.value = prior + on_grid(scored.predictive[at]);
  }
  const auto forbidden = [](const Putative& one) { return !(one.value > kNever); };
  pool_.erase(std::remove_if(pool_.begin(), pool_.end(), forbidden), pool_.end());
  std::sort(pool_.begin(), pool_.end(), Heavier());
}

// The joins of at least `floor`, in the subproblems of `names_`.
void Step::expand(double floor) {
  for (Number name : names_) {
    const Block& block = *state_.blocks[name];
    double most = kNever;
    for (Slot slot : block.slots) {
      const Cluster& cluster = state_.clusters[slot];
      if (cluster.gain > kNever) {
        most = std::max(most, state_.log_size[cluster.size] + cluster.gain);
      }
    }
    double needed = floor - most;
    needed -= kSlack * (1.0 + std::fabs(needed));
    for (std::int32_t row = 0; row < block.rows(); ++row) {
      const double weight = block.weights[row];
      if (weight < needed) break;
      for (std::uint32_t at = block.row_start[row]; at < block.row_start[row + 1]; ++at) {
        const Slot slot = block.cells[at];
        const Cluster& cluster = state_.clusters[slot];
        if (cluster.gain == kNever) continue;
        const double value = (weight + state_.log_size[cluster.size]) + cluster.gain;
        if (value >= floor) {
          pool_.push_back(Putative{value, name, row, static_cast<std::int32_t>(at), slot});
        }
      }
    }
  }
}

// A new cluster is the same event in every subproblem: the heaviest join's stands for all.
bool Step::add_singletons(double log_new) {
  if (log_new == kNever) return !pool_.empty();
  Number host = kNone;
  if (!pool_.empty()) {
    host = pool_.front().subproblem;
  } else {
    while (!state_.blocks[++host]) {
    }
  }
  const Block& block = *state_.blocks[host];
  const std::size_t joins = pool_.size();
  for (std::int32_t row = 0; row < block.rows(); ++row) {
    pool_.push_back(Putative{block.weights[row] + log_new, host, row, kNone, kNone});
  }
  std::inplace_merge(pool_.begin(), pool_.begin() + joins, pool_.end(),
                     [](const Putative& a, const Putative& b) { return a.value > b.value; });
  return true;
}

// Greedy: the P heaviest, none too far below the heaviest of all; or those that are drawn.
bool Step::resample() {
  const double floor = pool_.front().value + rules_.log_floor;
  std::size_t kept = std::min(pool_.size(), rules_.limit());
  while (kept && pool_[kept - 1].value < floor) --kept;
  pool_.resize(kept);
  if (!rules_.draw) return true;
  shares_.clear();
  for (const Putative& one : pool_) shares_.push_back(one.value);
  if (!draw(shares_)) return false;
  std::vector<Putative> drawn;
  for (std::size_t k = 0; k < kept_.size(); ++k) {
    drawn.push_back(pool_[kept_[k]]);
    drawn.back().value = on_grid(drawn_[k]);
  }
  std::stable_sort(drawn.begin(), drawn.end(),
                   [](const Putative& a, const Putative& b) { return a.value > b.value; });
  pool_.swap(drawn);
  return true;
}

// Draw from log weights; false: the resampler has failed.
bool Step::draw(const std::vector<double>& values) {
  kept_.resize(values.size());
  drawn_.resize(values.size());
  const auto n = static_cast<std::int64_t>(values.size());
  const std::int64_t kept = rules_.draw(n, values.data(), kept_.data(), drawn_.data());
  if (kept < 0) return false;
  kept_.resize(kept);
  drawn_.resize(kept);
  return true;
}

// A subproblem with less than 1/P of the weight is left alone; the heaviest always stays.
void Step::discard_weak_merges() {
  names_.clear();
  for (const Putative& one : pool_) names_.push_back(one.subproblem);
  std::sort(names_.begin(), names_.end());
  names_.erase(std::unique(names_.begin(), names_.end()), names_.end());
  if (names_.size() == 1) return;
  std::vector<double> mass(names_.size());
  const double top = pool_.front().value;
  for (std::size_t k = 0; k < names_.size(); ++k) {
    shares_.clear();
    for (const Putative& one : pool_) {
      if (one.subproblem == names_[k]) shares_.push_back(libm.exp(one.value - top));
    }
    mass[k] = exact_sum(shares_.data(), shares_.size());
  }
  shares_.clear();
  for (const Putative& one : pool_) shares_.push_back(libm.exp(one.value - top));
  const double least = exact_sum(shares_.data(), shares_.size()) / rules_.particles;
  const auto heaviest = std::max_element(mass.begin(), mass.end()) - mass.begin();
  const auto weak = [&](const Putative& one) {
    const auto k = std::lower_bound(names_.begin(), names_.end(), one.subproblem) - names_.begin();
    return mass[k] < least && k != heaviest;
  };
  pool_.erase(std::remove_if(pool_.begin(), pool_.end(), weak), pool_.end());
  std::size_t kept = 0;
  for (std::size_t k = 0; k < names_.size(); ++k) {
    if (mass[k] >= least || static_cast<std::ptrdiff_t>(k) == heaviest) names_[kept++] = names_[k];
  }
  names_.resize(kept);
}

}  // namespace kbforge
