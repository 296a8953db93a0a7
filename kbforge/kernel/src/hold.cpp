#include "hold.hpp"

#include <algorithm>
#include <memory>
#include <numeric>
#include <unordered_map>

namespace kbforge {

namespace {

// The ways in which some clusters grew, as a tree: those that begin alike share nodes. A parent is
// before its children.
struct Node {
  std::int32_t before;  // kNone: the fragment is the first one
  Number fragment;
};

class Tree {
 public:
  std::vector<Node> nodes;

  // The node of the last of some fragments, ascending.
  template <typename Members>
  std::int32_t node_of(const Members* members, std::int64_t n) {
    std::int32_t node = kNone;
    for (std::int64_t k = 0; k < n; ++k) {
      const auto fragment = static_cast<Number>(members[k]);
      const auto key = (static_cast<std::uint64_t>(static_cast<std::uint32_t>(node)) << 32) |
                       static_cast<std::uint32_t>(fragment);
      const auto found = known_.emplace(key, static_cast<std::int32_t>(nodes.size()));
      if (found.second) nodes.push_back(Node{node, fragment});
      node = found.first->second;
    }
    return node;
  }

 private:
  std::unordered_map<std::uint64_t, std::int32_t> known_;
};

// A place in a table for each node: that of its cluster, or, until its last child is made, one of no
// cluster.
class Places {
 public:
  explicit Places(std::int64_t first_free) : next_(first_free) {}

  std::int64_t take() {
    if (free_.empty()) return next_++;
    const std::int64_t place = free_.back();
    free_.pop_back();
    return place;
  }
  void give_back(const std::vector<std::int64_t>& places) {
    free_.insert(free_.end(), places.begin(), places.end());
  }

 private:
  std::int64_t next_;
  std::vector<std::int64_t> free_;
};

// What a table makes of a node.
struct Grown {
  std::int64_t place = -1;
  std::int32_t children = 0;  // that are still to be made
  bool stays = false;         // whether it is a cluster
  double score = 0.0;         // L, nats
};

// L(C + x) - L(C) of the cluster at a place, L({x}) for a place of -1.
double gain(Table& table, const Record& x, std::int64_t place) {
  if (place < 0) return table.log_predictive_new(x);
  double out = 0.0;
  table.log_predictive(x, {static_cast<Slot>(place)}, &out);
  return out;
}

}  // namespace

void hold(State& state, std::int64_t n, const std::int64_t* names, const kb_pages& pages) {
  Tree tree;
  std::vector<std::int32_t> lists, node_of;
  const std::int64_t subproblems = state.n_subproblems;
  const double effective = state.log10_effective;
  const std::int64_t *slots = pages.slots, *lengths = pages.lengths, *members = pages.members;
  const std::int64_t *rows = pages.rows, *cells = pages.cells;
  const double *scores = pages.scores, *weights = pages.weights;
  for (std::int64_t k = 0; k < n; ++k) {
    auto block = std::make_unique<Block>();
    const std::int64_t clusters = pages.clusters[k], particles = pages.particles[k];
    block->slots.assign(slots, slots + clusters);
    for (std::int64_t c = 0; c < clusters; ++c) {
      Cluster& cluster = state.clusters[slots[c]];
      cluster = Cluster{};
      cluster.size = static_cast<std::int32_t>(lengths[c]);
      cluster.first = static_cast<Number>(members[0]);
      node_of.push_back(tree.node_of(members, lengths[c]));
      state.largest = std::max(state.largest, cluster.size);
      cluster.live = true;
      cluster.score = scores[c];
      cluster.term = on_grid(state.log_cluster[cluster.size] + scores[c]);
      cluster.reach = cluster.gain = kNever;
      state.link(static_cast<Slot>(slots[c]));
      for (std::int64_t m = 0; m < lengths[c]; ++m) {
        if (state.is_elsewhere(static_cast<Number>(members[m]))) state.elsewhere[members[m]] = 0;
      }
      members += lengths[c];
    }
    block->row_start.push_back(0);
    for (std::int64_t row = 0; row < particles; ++row) {
      for (std::int64_t at = 0; at < rows[row]; ++at) {
        block->cells.push_back(static_cast<Slot>(slots[*cells++]));
      }
      block->row_start.push_back(static_cast<std::uint32_t>(block->cells.size()));
    }
    block->weights.assign(weights, weights + particles);
    for (auto node = static_cast<std::int32_t>(lists.size());
         node < static_cast<std::int32_t>(tree.nodes.size()); ++node) {
      const std::int32_t before = tree.nodes[node].before;
      const std::int32_t list = before == kNone ? kNone : lists[before];
      lists.push_back(state.members.grow(list, tree.nodes[node].fragment));
    }
    for (std::int64_t c = 0; c < clusters; ++c) state.clusters[slots[c]].list = lists[node_of[c]];
    node_of.clear();
    state.install(static_cast<Number>(names[k]), block.release());
    state.follow_home(static_cast<Number>(names[k]));
    slots += clusters;
    lengths += clusters;
    scores += clusters;
    rows += particles;
    weights += particles;
  }
  state.n_subproblems = subproblems;
  state.log10_effective = effective;
}

void replay(Table& table, const Placed& placed, const std::int64_t* fragments,
            const Batch& records, double* scores) {
  Tree tree;
  std::vector<Grown> grown;
  std::vector<std::int32_t> node_of;
  const std::int64_t* members = placed.members;
  for (std::int64_t k = 0; k < placed.n; ++k) {
    node_of.push_back(tree.node_of(members, placed.lengths[k]));
    members += placed.lengths[k];
    grown.resize(tree.nodes.size());
    grown[node_of[k]].stays = true;
    grown[node_of[k]].place = placed.slots[k];
  }
  for (const Node& node : tree.nodes) {
    if (node.before != kNone) ++grown[node.before].children;
  }
  std::vector<std::int32_t> order(grown.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return tree.nodes[a].fragment < tree.nodes[b].fragment;
  });
  Places places(placed.first_free);
  std::vector<std::int64_t> parents, children, ended;
  auto at = order.begin();
  for (std::int64_t k = 0; k < records.n; ++k) {
    parents.clear();
    children.clear();
    ended.clear();
    const auto begin = at;
    for (; at != order.end() && tree.nodes[*at].fragment == fragments[k]; ++at) {
      const std::int32_t before = tree.nodes[*at].before;
      if (!grown[*at].stays) grown[*at].place = places.take();
      parents.push_back(before == kNone ? -1 : grown[before].place);
      children.push_back(grown[*at].place);
      if (scores) grown[*at].score = gain(table, records.record(k), parents.back());
      if (scores && before != kNone) grown[*at].score += grown[before].score;
    }
    table.extend(records.record(k), parents, children);
    table.forget(records.record(k));
    for (auto child = begin; child != at; ++child) {
      const std::int32_t before = tree.nodes[*child].before;
      if (before == kNone) continue;
      if (!--grown[before].children && !grown[before].stays) ended.push_back(grown[before].place);
    }
    table.release(ended);
    places.give_back(ended);
  }
  for (std::int64_t k = 0; k < placed.n && scores; ++k) scores[k] = grown[node_of[k]].score;
}

void drop(State& state, std::int64_t n, const std::int64_t* names) {
  for (std::int64_t k = 0; k < n; ++k) {
    const std::unique_ptr<Block> gone(state.remove(static_cast<Number>(names[k])));
    for (Slot slot : gone->slots) state.unlink(slot);
  }
}

}  // namespace kbforge
