// Merge: the exact top P of the joint of subproblems that the new fragment connects.
//
// Subproblems are taken one at a time and P combinations kept after each, which loses nothing. There
// are two lists: combinations in which x has been placed, and those in which it waits.
#include <algorithm>
#include <numeric>

#include "step.hpp"

namespace kbforge {

void Step::Joint::clear() {
  value.clear();
  putative.clear();
  rows.clear();
}

bool Step::merge() {
  placed_.clear();
  if (names_.size() == 1) {
    for (std::size_t k = 0; k < pool_.size(); ++k) {
      placed_.value.push_back(pool_[k].value);
      placed_.putative.push_back(static_cast<std::int32_t>(k));
      placed_.rows.push_back(pool_[k].row);
    }
    return true;
  }
  const auto has_several = [this](Number name) { return state_.blocks[name]->rows() > 1; };
  if (rules_.sample && std::count_if(names_.begin(), names_.end(), has_several) > 2) {
    return merge_by_sampling();
  }
  waiting_.clear();
  waiting_.value.push_back(0.0);
  waiting_.putative.push_back(kNone);
  for (std::size_t place = 0; place < names_.size(); ++place) {
    const Block& block = *state_.blocks[names_[place]];
    const bool last = place + 1 == names_.size();
    if (!join(place, block, last)) return false;
  }
  if (rules_.draw) sort_placed();
  return true;
}

// As published: a draw is a putative particle, and an old particle of each other subproblem; equal
// draws are one, and weigh what their share is.
bool Step::merge_by_sampling() {
  const auto size = static_cast<std::int64_t>(rules_.particles);
  const std::size_t columns = names_.size(), width = columns + 1;
  std::vector<std::int64_t> drawn(size), joint(size * width);
  const auto sample = [&](const std::vector<double>& values) {
    const auto n = static_cast<std::int64_t>(values.size());
    return rules_.sample(n, values.data(), size, drawn.data()) >= 0;
  };
  shares_.clear();
  for (const Putative& one : pool_) shares_.push_back(one.value);
  if (!sample(shares_)) return false;
  for (std::int64_t k = 0; k < size; ++k) joint[k * width] = drawn[k];
  for (std::size_t column = 0; column < columns; ++column) {
    if (!sample(state_.blocks[names_[column]]->weights)) return false;
    for (std::int64_t k = 0; k < size; ++k) {
      const Putative& here = pool_[joint[k * width]];
      const bool own = here.subproblem == names_[column];
      joint[k * width + column + 1] = own ? here.row : drawn[k];
    }
  }
  const auto begin_of = [&](std::int64_t k) { return joint.begin() + k * width; };
  std::vector<std::int64_t> order(size);
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
    return std::lexicographical_compare(begin_of(a), begin_of(a) + width, begin_of(b),
                                        begin_of(b) + width);
  });
  for (std::int64_t k = 0; k < size;) {
    const auto one = begin_of(order[k]);
    std::int64_t end = k + 1;
    while (end < size && std::equal(one, one + width, begin_of(order[end]))) ++end;
    const double share = static_cast<double>(end - k) / static_cast<double>(size);
    placed_.value.push_back(on_grid(libm.log(share)));
    placed_.putative.push_back(static_cast<std::int32_t>(*one));
    placed_.rows.insert(placed_.rows.end(), one + 1, one + width);
    k = end;
  }
  sort_placed();
  return true;
}

// One more subproblem. `rows` of both lists have `place` columns before, one more after.
bool Step::join(std::size_t place, const Block& block, bool last) {
  const std::size_t size = rules_.limit();
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
  if (!keep(place, true, next_)) return false;
  if (!last) {
    combinations_.clear();
    combine(waiting_, block, true);
    Joint joined;
    // a lone particle changes neither the number of combinations nor their order
    if (!keep(place, block.rows() > 1, joined)) return false;
    std::swap(waiting_, joined);
  }
  std::swap(placed_, next_);
  return true;
}

// Every combination of a list with a subproblem's particles that can be among the P heaviest: both
// are sorted, so that of ranks (i, j) there are (i + 1)(j + 1) - 1 others before it.
void Step::combine(const Joint& joint, const Block& block, bool waits) {
  const std::size_t size = rules_.limit();
  for (std::size_t i = 0; i < joint.value.size(); ++i) {
    const std::size_t width = std::min(size / (i + 1), block.weights.size());
    for (std::size_t j = 0; j < width; ++j) {
      combinations_.push_back(Combination{joint.value[i] + block.weights[j], joint.putative[i],
                                          static_cast<std::int32_t>(i),
                                          static_cast<std::int32_t>(j), waits});
    }
  }
}

// The P heaviest combinations, or those that are drawn, as a list, with a column more; without `cut`,
// all.
bool Step::keep(std::size_t place, bool cut, Joint& out) {
  const auto heavier = [](const Combination& a, const Combination& b) { return a.value > b.value; };
  if (cut) {
    std::stable_sort(combinations_.begin(), combinations_.end(), heavier);
    if (combinations_.size() > rules_.limit()) combinations_.resize(rules_.limit());
  }
  if (cut && rules_.draw) {
    shares_.clear();
    for (const Combination& one : combinations_) shares_.push_back(one.value);
    if (!draw(shares_)) return false;
    std::vector<Combination> drawn;
    for (std::size_t k = 0; k < kept_.size(); ++k) {
      drawn.push_back(combinations_[kept_[k]]);
      drawn.back().value = on_grid(drawn_[k]);
    }
    combinations_.swap(drawn);
  }
  out.clear();
  for (const Combination& one : combinations_) {
    const Joint& from = one.waits ? waiting_ : placed_;
    const auto row = from.rows.begin() + one.left * place;
    out.value.push_back(one.value);
    out.putative.push_back(one.putative);
    out.rows.insert(out.rows.end(), row, row + place);
    out.rows.push_back(one.right);
  }
  return true;
}

// What was drawn is in another order: put the heaviest first.
void Step::sort_placed() {
  const std::size_t columns = names_.size();
  std::vector<std::size_t> order(placed_.value.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [this](std::size_t a, std::size_t b) {
    return placed_.value[a] > placed_.value[b];
  });
  next_.clear();
  for (std::size_t at : order) {
    const auto row = placed_.rows.begin() + at * columns;
    next_.value.push_back(placed_.value[at]);
    next_.putative.push_back(placed_.putative[at]);
    next_.rows.insert(next_.rows.end(), row, row + columns);
  }
  std::swap(placed_, next_);
}

}  // namespace kbforge
