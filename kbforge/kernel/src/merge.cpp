// Merge: the exact top P of the joint of subproblems that the new fragment connects.
//
// Subproblems are taken one at a time and P combinations kept after each, which loses nothing. There
// are two lists: combinations in which x has been placed, and those in which it waits.
#include <algorithm>

#include "step.hpp"

namespace kbforge {

void Step::Joint::clear() {
  value.clear();
  putative.clear();
  rows.clear();
}

void Step::merge() {
  placed_.clear();
  if (names_.size() == 1) {
    for (std::size_t k = 0; k < pool_.size(); ++k) {
      placed_.value.push_back(pool_[k].value);
      placed_.putative.push_back(static_cast<std::int32_t>(k));
      placed_.rows.push_back(pool_[k].row);
    }
    return;
  }
  waiting_.clear();
  waiting_.value.push_back(0.0);
  waiting_.putative.push_back(kNone);
  for (std::size_t place = 0; place < names_.size(); ++place) {
    const Block& block = *state_.blocks[names_[place]];
    const bool last = place + 1 == names_.size();
    join(place, block, last);
  }
}

// One more subproblem. `rows` of both lists have `place` columns before, one more after.
void Step::join(std::size_t place, const Block& block, bool last) {
  const auto size = static_cast<std::size_t>(rules_.particles);
  mine_.clear();
  for (std::size_t k = 0; k < pool_.size(); ++k) {
    if (pool_[k].subproblem == names_[place]) mine_.push_back(static_cast<std::int32_t>(k));
  }
  combinations_.clear();
  combine(placed_, block, false);
  for (std::size_t i = 0; i < waiting_.value.size(); ++i) {
    const std::size_t width = std::min(size / (i + 1), mine_.size());
    for (std::size_t j = 0; j < width; ++j) {
      const Putative& here = pool_[mine_[j]];
      combinations_.push_back(Combination{waiting_.value[i] + here.value, mine_[j],
                                          static_cast<std::int32_t>(i), here.row, true});
    }
  }
  keep_heaviest(place, next_);
  if (!last) {
    combinations_.clear();
    combine(waiting_, block, true);
    Joint joined;
    keep_heaviest(place, joined);
    std::swap(waiting_, joined);
  }
  std::swap(placed_, next_);
}

// Every combination of a list with a subproblem's particles that can be among the P heaviest: both
// are sorted, so that of ranks (i, j) there are (i + 1)(j + 1) - 1 others before it.
void Step::combine(const Joint& joint, const Block& block, bool waits) {
  const auto size = static_cast<std::size_t>(rules_.particles);
  for (std::size_t i = 0; i < joint.value.size(); ++i) {
    const std::size_t width = std::min(size / (i + 1), block.weights.size());
    for (std::size_t j = 0; j < width; ++j) {
      combinations_.push_back(Combination{joint.value[i] + block.weights[j], joint.putative[i],
                                          static_cast<std::int32_t>(i),
                                          static_cast<std::int32_t>(j), waits});
    }
  }
}

// The P heaviest combinations as a list, with a column more.
void Step::keep_heaviest(std::size_t place, Joint& out) {
  const auto size = static_cast<std::size_t>(rules_.particles);
  const auto heavier = [](const Combination& a, const Combination& b) { return a.value > b.value; };
  std::stable_sort(combinations_.begin(), combinations_.end(), heavier);
  if (combinations_.size() > size) combinations_.resize(size);
  out.clear();
  for (const Combination& one : combinations_) {
    const Joint& from = one.waits ? waiting_ : placed_;
    const auto row = from.rows.begin() + one.left * place;
    out.value.push_back(one.value);
    out.putative.push_back(one.putative);
    out.rows.insert(out.rows.end(), row, row + place);
    out.rows.push_back(one.right);
  }
}

}  // namespace kbforge
