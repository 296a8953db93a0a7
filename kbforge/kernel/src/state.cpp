#include "state.hpp"

#include <algorithm>

namespace kbforge {

namespace {

constexpr std::size_t kRoom = 1 << 12;  // more nodes than a step makes

}  // namespace

State::~State() {
  for (Block* block : blocks) delete block;
}

void State::count_fragment() {
  blocks.push_back(nullptr);
  family.push_back(kNone);
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
    before = grown.node;
  }
  nodes.push_back(Node{before, x});
  made.node = static_cast<std::int32_t>(nodes.size()) - 1;
  made.owner = kNone;
  made.live = true;
  made.score = score;
  made.term = on_grid(log_cluster[made.size] + score);
  made.reach = made.gain = kNever;
  Slot& head = family[made.first];
  made.previous = kNone;
  made.next = head;
  if (head != kNone) clusters[head].previous = slot;
  head = slot;
  return slot;
}

void State::release(Slot slot) {
  Cluster& gone = clusters[slot];
  gone.live = false;
  gone.reach = kNever;
  if (gone.previous != kNone) {
    clusters[gone.previous].next = gone.next;
  } else {
    family[gone.first] = gone.next;
  }
  if (gone.next != kNone) clusters[gone.next].previous = gone.previous;
  free.push_back(slot);
}

void State::tidy() {
  if (nodes.size() < most_nodes_) return;
  std::vector<std::int32_t> moved(nodes.size(), kNone);
  for (const Cluster& cluster : clusters) {
    if (!cluster.live) continue;
    std::int32_t at = cluster.node;
    while (at != kNone && moved[at] == kNone) {
      moved[at] = at;
      at = nodes[at].before;
    }
  }
  std::int32_t kept = 0;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    if (moved[at] == kNone) continue;
    const Node& node = nodes[at];
    const std::int32_t before = node.before == kNone ? kNone : moved[node.before];
    nodes[kept] = Node{before, node.fragment};
    moved[at] = kept++;
  }
  for (Cluster& cluster : clusters) {
    if (cluster.live) cluster.node = moved[cluster.node];
  }
  nodes.resize(kept);
  most_nodes_ = std::max(most_nodes_, nodes.size() + nodes.size() / 2);
  nodes.reserve(most_nodes_ + kRoom);
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
  log10_effective += std::log10(static_cast<double>(block->rows()));
}

Block* State::remove(Number name) {
  Block* block = blocks[name];
  blocks[name] = nullptr;
  --n_subproblems;
  log10_effective -= std::log10(static_cast<double>(block->rows()));
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

void State::members(Slot slot, std::vector<Number>& out) const {
  out.clear();
  for (std::int32_t node = clusters[slot].node; node != kNone; node = nodes[node].before) {
    out.push_back(nodes[node].fragment);
  }
  std::reverse(out.begin(), out.end());
}

}  // namespace kbforge
