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
  // both lists are sorted: of ranks (i, j), (i + 1)(j + 1) - 1 others come before
  for (std::size_t i = 0; i < placed_.value.size(); ++i) {
    const std::size_t width = std::min(size / (i + 1), block.weights.size());
    for (std::size_t j = 0; j < width; ++j) {
      combinations_.push_back(Combination{placed_.value[i] + block.weights[j], placed_.putative[i],
                                          static_cast<std::int32_t>(i),
                                          static_cast<std::int32_t>(j), false});
    }
  }
  for (std::size_t i = 0; i < waiting_.value.size(); ++i) {
    const std::size_t width = std::min(size / (i + 1), mine_.size());
    for (std::size_t j = 0; j < width; ++j) {
      const Putative& here = pool_[mine_[j]];
      combinations_.push_back(Combination{waiting_.value[i] + here.value, mine_[j],
                                          static_cast<std::int32_t>(i), here.row, true});
    }
  }
  const auto heavier = [](const Combination& a, const Combination& b) { return a.value > b.value; };
  std::stable_sort(combinations_.begin(), combinations_.end(), heavier);
  if (combinations_.size() > size) combinations_.resize(size);
  next_.clear();
  for (const Combination& one : combinations_) {
    const Joint& from = one.waits ? waiting_ : placed_;
    const auto row = from.rows.begin() + one.left * place;
    next_.value.push_back(one.value);
    next_.putative.push_back(one.putative);
    next_.rows.insert(next_.rows.end(), row, row + place);
    next_.rows.push_back(one.right);
  }
  if (!last) join_waiting(place, block);
  std::swap(placed_, next_);
}

void Step::join_waiting(std::size_t place, const Block& block) {
  const auto size = static_cast<std::size_t>(rules_.particles);
  combinations_.clear();
  for (std::size_t i = 0; i < waiting_.value.size(); ++i) {
    const std::size_t width = std::min(size / (i + 1), block.weights.size());
    for (std::size_t j = 0; j < width; ++j) {
      combinations_.push_back(Combination{waiting_.value[i] + block.weights[j], kNone,
                                          static_cast<std::int32_t>(i),
                                          static_cast<std::int32_t>(j), true});
    }
  }
  const auto heavier = [](const Combination& a, const Combination& b) { return a.value > b.value; };
  std::stable_sort(combinations_.begin(), combinations_.end(), heavier);
  if (combinations_.size() > size) combinations_.resize(size);
  Joint joined;
  for (const Combination& one : combinations_) {
    const auto row = waiting_.rows.begin() + one.left * place;
    joined.value.push_back(one.value);
    joined.putative.push_back(kNone);
    joined.rows.insert(joined.rows.end(), row, row + place);
    joined.rows.push_back(one.right);
  }
  std::swap(waiting_, joined);
}

}  // namespace kbforge
