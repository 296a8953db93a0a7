#include "state.hpp"

#include <algorithm>

namespace kbforge {

namespace {

constexpr std::int32_t kLong = 16;  // fragments of a list that is worth folding

}  // namespace

State::~State() {
  for (Block* block : blocks) delete block;
}

void State::count_fragment() {
  make_room(blocks);
  blocks.push_back(nullptr);
  make_room(family);
  family.push_back(kNone);
  make_room(home);
  home.push_back(kNone);
}

void State::number(Number fragments, Slot slots) {
  blocks.resize(fragments, nullptr);
  family.resize(fragments, kNone);
  home.resize(fragments, kNone);
  if (static_cast<std::size_t>(slots) > clusters.size()) clusters.resize(slots);
}

Slot State::take_slot() {
  if (!free.empty()) {
    const Slot slot = free.back();
    free.pop_back();
    return slot;
  }
  clusters.push_back(Cluster{});
  return static_cast<Slot>(clusters.size()) - 1;
}

Slot State::place(Number x, Slot parent, double score) {
  const Slot slot = take_slot();
  Cluster& made = clusters[slot];
  std::int32_t before = kNone;
  if (parent == kNone) {
    made.size = 1;
    made.first = x;
  } else {
    const Cluster& grown = clusters[parent];
    made.size = grown.size + 1;
    made.first = grown.first;
    before = grown.list;
  }
  largest = std::max(largest, made.size);
  made.list = members.grow(before, x);
  made.owner = kNone;
  made.live = true;
  made.score = score;
  made.term = on_grid(log_cluster[made.size] + score);
  made.reach = made.gain = kNever;
  link(slot);
  return slot;
}

void State::link(Slot slot) {
  Cluster& made = clusters[slot];
  Slot& head = family[made.first];
  made.previous = kNone;
  made.next = head;
  if (head != kNone) clusters[head].previous = slot;
  head = slot;
}

void State::release(Slot slot) {
  unlink(slot);
  free.push_back(slot);
}

void State::unlink(Slot slot) {
  Cluster& gone = clusters[slot];
  gone.live = false;
  gone.reach = kNever;
  if (gone.previous != kNone) {
    clusters[gone.previous].next = gone.next;
  } else {
    family[gone.first] = gone.next;
  }
  if (gone.next != kNone) clusters[gone.next].previous = gone.previous;
}

void State::tidy() {
  if (!members.many()) return;
  Folding folding(members, n_fragments());
  std::vector<std::int32_t> lists;
  for (const Block* block : blocks) {
    if (!block) continue;
    lists.clear();
    bool folds = false;
    for (Slot slot : block->slots) {
      const Cluster& held = clusters[slot];
      lists.push_back(held.list);
      folds = folds || held.size >= kLong || members.has_parts(held.list);
    }
    if (folds) {
      folding.fold(lists);
    } else {
      folding.keep(lists);
    }
    for (std::size_t at = 0; at < lists.size(); ++at) clusters[block->slots[at]].list = lists[at];
  }
  folding.finish();
}

void State::install(Number name, Block* block) {
  for (Slot slot : block->slots) clusters[slot].reach = kNever;
  // rows are sorted by weight: the first that holds a cluster is the heaviest that does
  for (std::int32_t row = 0; row < block->rows(); ++row) {
    for (std::uint32_t at = block->row_start[row]; at < block->row_start[row + 1]; ++at) {
      Cluster& held = clusters[block->cells[at]];
      if (held.reach == kNever) held.reach = block->weights[row] + log_size[held.size];
    }
  }
  for (Slot slot : block->slots) clusters[slot].owner = name;
  blocks[name] = block;
  ++n_subproblems;
  log10_effective += libm.log10(static_cast<double>(block->rows()));
}

Block* State::remove(Number name) {
  Block* block = blocks[name];
  blocks[name] = nullptr;
  --n_subproblems;
  log10_effective -= libm.log10(static_cast<double>(block->rows()));
  return block;
}

bool State::in_heaviest(const Cluster& cluster) const {
  return cluster.reach - log_size[cluster.size] >= blocks[cluster.owner]->weights[0];
}

bool State::family_in_heaviest(Number name) const {
  for (Slot slot = family[name]; slot != kNone; slot = clusters[slot].next) {
    if (in_heaviest(clusters[slot])) return true;
  }
  return false;
}

bool State::has_member(Slot slot, Number fragment) const {
  const std::int32_t list = clusters[slot].list;
  if (!members.folded(list) && members.newest(list) <= fragment) {
    return members.newest(list) == fragment;
  }
  std::vector<Number> held;
  members.read(list, held);
  return std::binary_search(held.begin(), held.end(), fragment);
}

void State::follow_home(Number name) {
  const Block& block = *blocks[name];
  std::vector<Number> held;
  for (std::uint32_t at = 0; at < block.row_start[1]; ++at) {
    members.read(clusters[block.cells[at]].list, held);
    for (Number fragment : held) home[fragment] = name;
  }
}

}  // namespace kbforge
