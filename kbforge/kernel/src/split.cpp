// Split: what has grown falls apart into blocks that no particle connects.
//
// Fragments are connected if they share a cluster on any particle. The clusters are followed along
// their lists of members, the newest fragment of all of them first, until all are connected or no two
// of them can meet any more. So what has long been settled is not gone through at every step.
#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>

#include "step.hpp"

namespace kbforge {

void Step::split(Block* block) {
  std::unique_ptr<Block> grown(block);
  const Number first = state_.clusters[grown->cells[0]].first;
  if (!rules_.splits || !falls_apart(*grown)) {
    put_in_place(first, grown.release());
    return;
  }
  for (std::int32_t component = 0; component < n_components_; ++component) {
    Number name = kNone;
    Block* made = nullptr;
    part(*grown, component, name, made);
    put_in_place(name, made);
  }
}

std::int32_t Step::root(std::int32_t place) {
  while (parent_of_[place] != place) {
    parent_of_[place] = parent_of_[parent_of_[place]];
    place = parent_of_[place];
  }
  return place;
}

// Follow all clusters back, connecting those that meet; how many components are left.
//
// Two clusters meet at a fragment, or at a part where their lists are folded: a part is of one
// subproblem, and all of its lists that hold a fragment of it name it.
std::int32_t Step::follow(const Block& grown) {
  auto left = static_cast<std::int32_t>(grown.slots.size());
  std::size_t going = 0;
  bool ended = false;  // whether a walk has come to parts, where another may follow it
  walks_.clear();
  meetings_.clear();
  ++stamp_;
  const Members& members = state_.members;
  passed_.resize(members.n_nodes());
  if (named_.size() < members.n_parts()) named_.resize(2 * members.n_parts());
  fit(walk_at_, state_.blocks.size(), kNone);
  const auto connect = [&](std::int32_t place, std::int32_t other) {
    const std::int32_t a = root(place), b = root(other);
    if (a == b) return;
    parent_of_[a] = b;
    --left;
  };
  const auto end_at = [&](std::int32_t list, std::int32_t place) {
    ended = true;
    for (const auto* part = members.parts_begin(list); part != members.parts_end(list); ++part) {
      Naming& named = named_[*part];
      if (named.step == stamp_) {
        connect(place, named.place);
      } else {
        named = Naming{stamp_, place};
      }
    }
  };
  const auto go_to = [&](std::int32_t list, std::int32_t place) {
    if (list == kNone) return;
    if (members.folded(list)) {
      end_at(list, place);
      return;
    }
    const Number fragment = members.newest(list);
    if (walk_at_[fragment] == kNone) {
      meetings_.push_back(fragment);
      std::push_heap(meetings_.begin(), meetings_.end());
    }
    walks_.push_back(Walk{list, place, walk_at_[fragment]});
    walk_at_[fragment] = static_cast<std::int32_t>(walks_.size()) - 1;
    ++going;
  };
  for (std::int32_t place = 0; place < static_cast<std::int32_t>(grown.slots.size()); ++place) {
    go_to(state_.clusters[grown.slots[place]].list, place);
  }
  while (left > 1 && (going > 1 || (going == 1 && ended))) {
    std::pop_heap(meetings_.begin(), meetings_.end());
    const Number fragment = meetings_.back();
    meetings_.pop_back();
    const std::int32_t first = walk_at_[fragment];
    walk_at_[fragment] = kNone;
    for (std::int32_t at = first; at != kNone;) {
      const Walk here = walks_[at];
      connect(here.place, walks_[first].place);
      --going;
      // of those that come to one list, one goes on
      if (passed_[here.list] != stamp_) go_to(members.before(here.list), here.place);
      passed_[here.list] = stamp_;
      at = here.next;
    }
  }
  for (Number fragment : meetings_) walk_at_[fragment] = kNone;
  return left;
}

// Number the connected components of the clusters by their smallest fragments.
bool Step::falls_apart(const Block& grown) {
  if (grown.length(0) == 1) return false;  // one cluster holds everything
  const auto n = static_cast<std::int32_t>(grown.slots.size());
  parent_of_.resize(n);
  std::iota(parent_of_.begin(), parent_of_.end(), 0);
  const std::int32_t left = follow(grown);
  if (left == 1) return false;
  n_components_ = left;
  for (std::int32_t place = 0; place < n; ++place) {
    state_.clusters[grown.slots[place]].place = place;
  }
  component_.assign(n, kNone);
  std::int32_t found = 0;
  for (std::uint32_t at = 0; at < grown.row_start[1]; ++at) {
    std::int32_t& component = component_[root(state_.clusters[grown.cells[at]].place)];
    if (component == kNone) component = found++;
  }
  for (std::int32_t place = 0; place < n; ++place) component_[place] = component_[root(place)];
  return true;
}

// One component's block: its distinct rows, weighed and sorted.
void Step::part(const Block& grown, std::int32_t component, Number& name, Block*& made) {
  auto block = std::make_unique<Block>();
  for (std::size_t place = 0; place < grown.slots.size(); ++place) {
    if (component_[place] == component) block->slots.push_back(grown.slots[place]);
  }
  if (block->slots.size() == 1) {
    const Slot slot = block->slots[0];
    name = state_.clusters[slot].first;
    made = new Block{{0.0}, {0, 1}, {slot}, {slot}};
    return;
  }
  rows_.clear();
  cells_.clear();
  std::unordered_map<std::uint64_t, std::size_t> known;  // the rows by content
  for (std::int32_t row = 0; row < grown.rows(); ++row) {
    const auto begin = static_cast<std::uint32_t>(cells_.size());
    // rows hold sets of slots: equal sets have equal sums of 64-bit hashes
    std::uint64_t content = 0;
    __int128 units = 0;
    for (std::uint32_t at = grown.row_start[row]; at < grown.row_start[row + 1]; ++at) {
      const Slot slot = grown.cells[at];
      const Cluster& cluster = state_.clusters[slot];
      if (component_[cluster.place] != component) continue;
      cells_.push_back(slot);
      content += mixed(static_cast<std::uint64_t>(slot));
      units += static_cast<std::int64_t>(cluster.term * kGrid);
    }
    const auto found = known.emplace(content, rows_.size());
    if (found.second) {
      rows_.push_back(Row{static_cast<std::int64_t>(units), 0.0, begin,
                          static_cast<std::uint32_t>(cells_.size())});
    } else {
      cells_.resize(begin);
    }
    if (rules_.marginal) rows_[found.first->second].value += libm.exp(grown.weights[row]);
  }
  std::int64_t top = rows_.front().units;
  for (const Row& row : rows_) top = std::max(top, row.units);
  for (Row& row : rows_) {
    row.value = rules_.marginal ? on_grid(libm.log(row.value))
                                : static_cast<double>(row.units - top) / kGrid;
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Row& a, const Row& b) { return a.value > b.value; });
  name = state_.clusters[cells_[0]].first;
  for (const Row& row : rows_) {
    block->weights.push_back(row.value);
    block->row_start.push_back(static_cast<std::uint32_t>(block->cells.size()));
    block->cells.insert(block->cells.end(), cells_.begin() + row.begin, cells_.begin() + row.end);
  }
  block->row_start.push_back(static_cast<std::uint32_t>(block->cells.size()));
  normalise(block->weights);
  made = block.release();
}

}  // namespace kbforge
