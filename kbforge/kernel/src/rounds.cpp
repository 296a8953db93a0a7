// Units, rounds of best merges, and which of them were close.
#include "rounds.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "memory.hpp"

namespace kbforge {

namespace {

// What a round does to a cluster: it is one of two that merge, which stays or is no more; or it is next
// to one.
enum Mark : std::uint8_t { kAsBefore = 0, kMerged = 1, kGone = 2, kNextTo = 3 };

constexpr std::int32_t kMostGain = 1 << 30;
constexpr std::size_t kAtOnce = 64;  // clusters that a thread takes in turn

std::int32_t in_units(double nats) {
  const double units = std::nearbyint(nats * kGainUnits);
  return static_cast<std::int32_t>(std::max<double>(-kMostGain, std::min<double>(kMostGain, units)));
}

std::uint64_t hash_of(const Record& x) {
  std::uint64_t hash = x.n;
  for (std::size_t k = 0; k < x.n; ++k) {
    const auto attribute = static_cast<std::uint64_t>(static_cast<std::uint32_t>(x.attributes[k]));
    hash = mixed(hash ^ (attribute << 32) ^ static_cast<std::uint32_t>(x.values[k]));
  }
  return hash;
}

bool same(const Record& x, const Record& y) {
  return x.n == y.n && std::equal(x.attributes, x.attributes + x.n, y.attributes) &&
         std::equal(x.values, x.values + x.n, y.values);
}

// The fragments that are the first with their content, hashed.
class Alike {
 public:
  explicit Alike(const Batch& fragments) : fragments_(fragments) {
    std::size_t room = 64;
    while (room < 2 * static_cast<std::size_t>(fragments.n)) room *= 2;
    slots_.assign(room, kNone);
  }
  // The first fragment that states the same as one, which may be it.
  std::int32_t first(std::int32_t x) {
    const Record record = fragments_.record(x);
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = mixed(hash_of(record)) & mask;
    while (slots_[at] != kNone && !same(record, fragments_.record(slots_[at]))) at = (at + 1) & mask;
    if (slots_[at] == kNone) slots_[at] = x;
    return slots_[at];
  }

 private:
  const Batch& fragments_;
  std::vector<std::int32_t> slots_;
};

// Whether two fragments have the same sets of values that must not differ.
bool same_sets(const kb_apart& apart, std::int32_t x, std::int32_t y) {
  const std::int64_t* at = apart.set_start;
  return std::equal(apart.sets + at[x], apart.sets + at[x + 1], apart.sets + at[y],
                    apart.sets + at[y + 1]);
}

// Equal gains are ordered by lot: if all clusters that state the same preferred one of them, two of
// them would merge in a round.
std::uint64_t lot(std::int32_t x, std::int32_t y) {
  const auto low = static_cast<std::uint64_t>(std::min(x, y));
  return mixed((low << 32) | static_cast<std::uint32_t>(std::max(x, y)));
}

// The edge to a cluster in a list that ascends; null if there is none.
template <typename Edges>
auto edge_to(Edges& edges, std::int32_t to) -> decltype(&edges[0]) {
  const auto before = [](const auto& edge, std::int32_t cluster) { return edge.to < cluster; };
  const auto found = std::lower_bound(edges.begin(), edges.end(), to, before);
  return found != edges.end() && found->to == to ? &*found : nullptr;
}

}  // namespace

double put_together(Table& table, const Record& x, bool first, Slot slot, Slot spare) {
  const double alone = table.log_predictive_new(x);
  table.extend(x, {kNone}, {first ? slot : spare});
  if (first) return alone;
  const std::int64_t other = slot;
  double ratio = 0.0;
  table.log_merge_ratios(0, spare, 1, &other, &ratio);
  table.merge(spare, slot);
  return alone + ratio;
}

Rounds::Rounds(Table& table, const Batch& fragments, const kb_apart* apart,
               const std::vector<double>& log_cluster, double least, double certain,
               std::size_t workers)
    : table_(table), fragments_(fragments), log_cluster_(log_cluster),
      least_(in_units(least)), certain_(in_units(certain)), crew_(workers) {
  table_.set_workers(workers);
  make_units(apart);
  if (apart) note_marks(*apart);
  const auto n = static_cast<std::size_t>(n_units());
  into_.resize(n);
  for (std::size_t unit = 0; unit < n; ++unit) into_[unit] = static_cast<std::int32_t>(unit);
  for (std::size_t unit = 0; unit < n; ++unit) {
    log_posterior_ += log_cluster_[size_[unit]] + score_[unit];
  }
  give_back_memory();
}

// Fragments that must be together are one unit, and those that state the same if that is certain,
// unless what must not differ does; a fragment that has a linking value is one by itself.
void Rounds::make_units(const kb_apart* apart) {
  const auto n = static_cast<std::int32_t>(fragments_.n);
  std::vector<std::int32_t> group(n), next(n, kNone);  // of those of a group
  std::vector<std::int32_t> first, last;               // by group
  std::vector<std::uint8_t> whole;  // by group, whether it must be, and then whether it is a unit
  std::unordered_map<std::int64_t, std::int32_t> of_component;
  Alike alike(fragments_);
  for (std::int32_t x = 0; x < n; ++x) {
    const auto fresh = static_cast<std::int32_t>(first.size());
    const std::int64_t component = apart ? apart->component[x] : kNone;
    const bool valued = apart && apart->value_start[x] < apart->value_start[x + 1];
    group[x] = fresh;
    if (component != kNone) {
      group[x] = of_component.emplace(component, fresh).first->second;
    } else if (!valued && fragments_.record(x).n) {
      const std::int32_t other = alike.first(x);
      if (!apart || same_sets(*apart, x, other)) group[x] = group[other];
    }
    if (group[x] == fresh) {
      first.push_back(x);
      last.push_back(x);
      whole.push_back(component != kNone);
    } else {
      next[last[group[x]]] = x;
      last[group[x]] = x;
    }
  }
  std::vector<std::int32_t> members;
  const auto find_members = [&](std::int32_t x) {
    for (members.clear(); x != kNone; x = next[x]) members.push_back(x);
  };
  for (std::size_t k = 0; k < first.size(); ++k) {
    find_members(first[k]);
    whole[k] = whole[k] || members.size() == 1 || together(members);
  }
  unit_start_.assign(1, 0);
  unit_fragments_.reserve(n);
  for (std::int32_t x = 0; x < n; ++x) {
    members.assign(1, x);
    if (whole[group[x]]) {
      if (first[group[x]] != x) continue;
      find_members(x);
    }
    unit_fragments_.insert(unit_fragments_.end(), members.begin(), members.end());
    unit_start_.push_back(static_cast<std::int64_t>(unit_fragments_.size()));
  }
  unit_start_.shrink_to_fit();
  const std::int64_t units = n_units();
  size_.resize(units);
  score_.resize(units);
  for (std::int32_t unit = 0; unit < units; ++unit) place(unit);
}

// Whether it is certain that fragments that state the same are one cluster: to take out one of them,
// or all, would lose enough.
bool Rounds::together(const std::vector<std::int32_t>& alike) {
  const auto slot = static_cast<Slot>(fragments_.n);
  const auto n = static_cast<std::int32_t>(alike.size());
  double both = 0.0, last = 0.0;
  for (std::int32_t k = 0; k < n; ++k) {
    last = put_together(table_, fragments_.record(alike[k]), k == 0, slot, slot + 1);
    both += last;
  }
  table_.release({slot});
  const double each = log_cluster_[1] + table_.log_predictive_new(fragments_.record(alike[0]));
  const double one = last + log_cluster_[n] - log_cluster_[n - 1] - each;
  const double all = both + log_cluster_[n] - n * each;
  return std::min(one, all) * kGainUnits > certain_;
}

void Rounds::place(std::int32_t unit) {
  const std::int64_t begin = unit_start_[unit], end = unit_start_[unit + 1];
  size_[unit] = static_cast<std::int32_t>(end - begin);
  score_[unit] = 0.0;
  for (std::int64_t k = begin; k < end; ++k) {
    const Record x = fragments_.record(unit_fragments_[k]);
    score_[unit] += put_together(table_, x, k == begin, unit, static_cast<Slot>(fragments_.n));
  }
}

void Rounds::note_marks(const kb_apart& apart) {
  apart_.put_components(apart.components, apart.apart_start, apart.apart);
  apart_.put_sets(apart.n_sets, apart.attribute, apart.stated_start, apart.stated);
  marks_.resize(n_units());
  for (std::int32_t unit = 0; unit < n_units(); ++unit) {
    for (std::int64_t at = unit_start_[unit]; at < unit_start_[unit + 1]; ++at) {
      marks_[unit].add(tags_at(unit_fragments_[at], apart.component, apart.value_start,
                               apart.values, apart.set_start, apart.sets));
    }
  }
  unit_marks_ = marks_;
}

// -- which clusters to compare ----------------------------------------------------------------

std::int64_t Rounds::connect(const Blocking& blocking, bool last) {
  Lists<std::int32_t> near;
  give_back_memory();
  {
    std::vector<std::int32_t> roots(n_units());
    for (std::int32_t unit = 0; unit < n_units(); ++unit) roots[unit] = root(unit);
    postings_.put_together(roots, crew_);
    near = Blocks(postings_, blocking.most).near(blocking, crew_);
  }
  if (last) postings_ = Postings();
  give_back_memory();
  return score_all(std::move(near));
}

// L(C + D) and the prior's term less those of each, in units, of others that nothing bars.
void Rounds::score(std::size_t worker, std::int32_t cluster,
                   const std::vector<std::int64_t>& others, std::int32_t* gains) {
  std::vector<double> ratios(others.size());
  table_.log_merge_ratios(worker, cluster, static_cast<std::int64_t>(others.size()),
                          others.data(), ratios.data());
  for (std::size_t k = 0; k < others.size(); ++k) {
    const auto other = static_cast<std::int32_t>(others[k]);
    const std::int32_t a = size_[cluster], b = size_[other];
    const double gain = ratios[k] + (log_cluster_[a + b] - (log_cluster_[a] + log_cluster_[b]));
    const bool out = std::isnan(gain) || (bound() && barred(marks_[cluster], marks_[other]));
    gains[k] = out ? kBarred : in_units(gain);
  }
}

std::int64_t Rounds::score_all(Lists<std::int32_t> near_of) {
  const std::int64_t units = n_units();
  make_room_for_edges();
  std::vector<std::vector<Before::Pair>> found((units + kAtOnce - 1) / kAtOnce);
  std::vector<std::int64_t> scored(crew_.workers(), 0);
  crew_.share(found.size(), 1, [&](std::size_t worker, std::size_t chunk) {
    std::vector<std::int64_t> others;
    std::vector<std::int32_t> gains;
    const std::int64_t stop = std::min<std::int64_t>(units, (chunk + 1) * kAtOnce);
    for (auto x = static_cast<std::int32_t>(chunk * kAtOnce); x < stop; ++x) {
      std::sort(near_of.begin(x), near_of.end(x));
      const std::int32_t* end = std::unique(near_of.begin(x), near_of.end(x));
      others.clear();
      for (const std::int32_t* other = near_of.begin(x); other != end; ++other) {
        if (!edge_to(edges_[x], *other)) others.push_back(*other);
      }
      gains.resize(others.size());
      score(worker, x, others, gains.data());
      scored[worker] += static_cast<std::int64_t>(others.size());
      for (std::size_t k = 0; k < others.size(); ++k) {
        if (gains[k] < least_ || gains[k] == kBarred) continue;
        found[chunk].push_back({x, static_cast<std::int32_t>(others[k]), gains[k]});
      }
    }
  });
  near_of = Lists<std::int32_t>();
  add_edges(found);
  waiting_.clear();
  for (std::int32_t x = 0; x < units; ++x) {
    if (mark_[x] != kNextTo) continue;
    waiting_.push_back(x);
    mark_[x] = kAsBefore;
  }
  crew_.share(waiting_.size(), kAtOnce, [&](std::size_t, std::size_t k) {
    auto& edges = edges_[waiting_[k]];
    std::sort(edges.begin(), edges.end(),
              [](const Edge& a, const Edge& b) { return a.to < b.to; });
  });
  give_back_memory();
  std::int64_t all = 0;
  for (std::int64_t some : scored) all += some;
  return all;
}

// While keys are made, memory is scarce.
void Rounds::make_room_for_edges() {
  const auto n = static_cast<std::size_t>(n_units());
  edges_.resize(n);
  best_.resize(n, kNone);
  best_gain_.resize(n, 0);
  mark_.resize(n, kAsBefore);
}

void Rounds::add_edges(std::vector<std::vector<Before::Pair>>& found) {
  std::size_t n_first = 0, n_pairs = 0;
  std::vector<std::int32_t> more(n_units(), 0);
  for (const auto& some : found) {
    n_pairs += some.size();
    std::int32_t last = kNone;
    for (const auto& pair : some) {
      n_first += pair.one != last;
      last = pair.one;
      ++more[pair.one], ++more[pair.other];
    }
  }
  compared_.make_room(n_first, n_pairs);
  for (std::int32_t x = 0; x < n_units(); ++x) {
    if (more[x]) edges_[x].reserve(edges_[x].size() + more[x]);
  }
  for (auto& some : found) {
    for (const auto& pair : some) {
      edges_[pair.one].push_back({pair.other, pair.gain});
      edges_[pair.other].push_back({pair.one, pair.gain});
      compared_.add(pair.one, pair.other);
      mark_[pair.one] = mark_[pair.other] = kNextTo;
    }
    std::vector<Before::Pair>().swap(some);
  }
}

// -- rounds -----------------------------------------------------------------------------------

void Rounds::find_best(const std::vector<std::int32_t>& clusters) {
  crew_.share(clusters.size(), kAtOnce, [&](std::size_t, std::size_t k) {
    const std::int32_t x = clusters[k];
    best_[x] = kNone;
    best_gain_[x] = 0;
    for (const Edge& edge : edges_[x]) {
      const std::int32_t gain = best_gain_[x];
      if (edge.gain < gain || edge.gain <= above_) continue;
      if (edge.gain == gain && lot(x, best_[x]) < lot(x, edge.to)) continue;
      best_[x] = edge.to;
      best_gain_[x] = edge.gain;
    }
  });
}

// Pairs of clusters that are each other's best partner, the smaller first, ascending.
std::vector<std::pair<std::int32_t, std::int32_t>> Rounds::reciprocal() const {
  std::vector<std::pair<std::int32_t, std::int32_t>> pairs;
  for (std::int32_t x : waiting_) {
    const std::int32_t other = best_[x];
    if (other == kNone || best_[other] != x) continue;
    pairs.emplace_back(std::min(x, other), std::max(x, other));
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  return pairs;
}

void Rounds::merge_above(double nats) {
  const std::int32_t above = in_units(nats);
  if (above == above_) return;
  above_ = above;
  waiting_.clear();
  for (std::int32_t x = 0; x < n_units(); ++x) {
    if (!edges_[x].empty()) waiting_.push_back(x);
  }
}

std::int64_t Rounds::merge_best() {
  find_best(waiting_);
  const auto pairs = reciprocal();
  waiting_.clear();
  if (!pairs.empty()) merge(pairs);
  return static_cast<std::int64_t>(pairs.size());
}

void Rounds::take_in(std::int32_t gone, std::int32_t into, double ratio) {
  table_.merge(gone, into);
  into_[gone] = into;
  log_posterior_ += ratio + (log_cluster_[size_[into] + size_[gone]] -
                             (log_cluster_[size_[into]] + log_cluster_[size_[gone]]));
  size_[into] += size_[gone];
  score_[into] += score_[gone] + ratio;
}

void Rounds::merge(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs) {
  const std::size_t n = pairs.size();
  std::vector<double> ratios(n);
  crew_.share(n, kAtOnce, [&](std::size_t worker, std::size_t k) {
    const std::int64_t other = pairs[k].second;
    table_.log_merge_ratios(worker, pairs[k].first, 1, &other, &ratios[k]);
  });
  for (std::size_t k = 0; k < n; ++k) {
    const std::int32_t into = pairs[k].first, gone = pairs[k].second;
    take_in(gone, into, ratios[k]);
    if (bound()) marks_[into].add(marks_[gone]);
    mark_[into] = kMerged;
    mark_[gone] = kGone;
  }
  // what each had is the best of both for a moment
  crew_.share(n, kAtOnce, [&](std::size_t, std::size_t k) {
    auto &edges = edges_[pairs[k].first], &others = edges_[pairs[k].second];
    edges.insert(edges.end(), others.begin(), others.end());
    std::vector<Edge>().swap(others);
    fold(pairs[k].first);
  });
  std::vector<std::vector<std::int32_t>> before(n);
  crew_.share(n, 16, [&](std::size_t worker, std::size_t k) {
    const std::int32_t x = pairs[k].first;
    std::vector<std::int64_t> others;
    for (const Edge& edge : edges_[x]) {
      before[k].push_back(edge.gain);
      if (mark_[edge.to] != kMerged || edge.to > x) others.push_back(edge.to);
    }
    std::vector<std::int32_t> gains(others.size());
    score(worker, x, others, gains.data());
    std::size_t at = 0;
    for (Edge& edge : edges_[x]) {
      if (at < others.size() && edge.to == others[at]) edge.gain = gains[at++];
    }
  });
  std::vector<std::vector<Rival>> rivals(n);
  std::vector<std::int32_t> margins(n);
  crew_.share(n, kAtOnce, [&](std::size_t, std::size_t k) {
    const std::int32_t x = pairs[k].first;
    for (Edge& edge : edges_[x]) {
      if (mark_[edge.to] == kMerged && edge.to < x) edge.gain = edge_to(edges_[edge.to], x)->gain;
    }
    margins[k] = note_rivals(pairs[k], before[k], rivals[k]);
  });
  for (std::size_t k = 0; k < n; ++k) {
    make_room(merges_, 1);
    merges_.push_back({pairs[k].second, pairs[k].first, margins[k]});
    rivals_.insert(rivals_.end(), rivals[k].begin(), rivals[k].end());
    waiting_.push_back(pairs[k].first);
  }
  for (std::size_t k = 0; k < n; ++k) {
    for (const Edge& edge : edges_[pairs[k].first]) {
      if (mark_[edge.to] != kAsBefore) continue;
      mark_[edge.to] = kNextTo;
      waiting_.push_back(edge.to);
    }
  }
  crew_.share(waiting_.size() - n, kAtOnce, [&](std::size_t, std::size_t k) {
    const std::int32_t x = waiting_[n + k];
    fold(x);
    for (Edge& edge : edges_[x]) {
      if (mark_[edge.to] == kMerged) edge.gain = edge_to(edges_[edge.to], x)->gain;
    }
  });
  crew_.share(waiting_.size(), kAtOnce, [&](std::size_t, std::size_t k) {
    auto& edges = edges_[waiting_[k]];
    const auto out = [this](const Edge& edge) { return edge.gain < least_; };
    edges.erase(std::remove_if(edges.begin(), edges.end(), out), edges.end());
  });
  for (std::int32_t x : waiting_) mark_[x] = kAsBefore;
  std::sort(waiting_.begin(), waiting_.end());
}

// Whether all numbers are those of units, and only present clusters merge or have edges.
bool Rounds::possible(const Before& before) const {
  const auto units = static_cast<std::int32_t>(n_units());
  std::vector<std::uint8_t> gone(units, 0);
  const auto are_units = [units](std::int32_t one, std::int32_t other) {
    return one >= 0 && other >= 0 && one < units && other < units && one != other;
  };
  const auto are_present = [&](std::int32_t one, std::int32_t other) {
    return are_units(one, other) && !gone[one] && !gone[other];
  };
  for (std::int64_t k = 0; k < before.n_merges; ++k) {
    if (!are_present(before.merges[k].slot, before.merges[k].into)) return false;
    gone[before.merges[k].slot] = 1;
  }
  return std::all_of(before.edges, before.edges + before.n_edges,
                     [&](const auto& edge) { return are_present(edge.one, edge.other); }) &&
         std::all_of(before.rivals, before.rivals + before.n_rivals,
                     [&](const Rival& rival) { return are_units(rival.one, rival.other); }) &&
         std::all_of(before.compared, before.compared + before.n_compared,
                     [&](const auto& pair) { return are_units(pair.first, pair.second); });
}

bool Rounds::resume(const Before& before) {
  if (bound() || !merges_.empty() || !compared_.empty() || !possible(before)) return false;
  make_room_for_edges();
  for (std::int64_t k = 0; k < before.n_merges; ++k) {
    const Merge& merge = before.merges[k];
    const std::int64_t other = merge.slot;
    double ratio = 0.0;
    table_.log_merge_ratios(0, merge.into, 1, &other, &ratio);
    take_in(merge.slot, merge.into, ratio);
  }
  merges_.assign(before.merges, before.merges + before.n_merges);
  rivals_.assign(before.rivals, before.rivals + before.n_rivals);
  std::for_each(before.compared, before.compared + before.n_compared,
                [this](const auto& pair) { compared_.add(pair.first, pair.second); });
  for (std::int64_t k = 0; k < before.n_edges; ++k) {
    const auto& edge = before.edges[k];
    edges_[edge.one].push_back({edge.other, edge.gain});
    edges_[edge.other].push_back({edge.one, edge.gain});
  }
  waiting_.clear();
  for (std::int32_t x = 0; x < static_cast<std::int32_t>(n_units()); ++x) {
    std::sort(edges_[x].begin(), edges_[x].end(),
              [](const Edge& a, const Edge& b) { return a.to < b.to; });
    if (!edges_[x].empty()) waiting_.push_back(x);
  }
  return true;
}

// Have each edge of a cluster once, to what others are now, with the largest of its gains.
void Rounds::fold(std::int32_t cluster) {
  auto& edges = edges_[cluster];
  for (Edge& edge : edges) {
    if (mark_[edge.to] == kGone) edge.to = into_[edge.to];
  }
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.to != b.to ? a.to < b.to : a.gain > b.gain;
  });
  const auto last = std::unique(edges.begin(), edges.end(),
                                [](const Edge& a, const Edge& b) { return a.to == b.to; });
  edges.erase(last, edges.end());
  const auto own = [cluster](const Edge& edge) { return edge.to == cluster; };
  edges.erase(std::remove_if(edges.begin(), edges.end(), own), edges.end());
}

// By how many units a merge was better than leaving both apart, or than merging one of them with a
// neighbour instead; `before` has what that would have gained.
std::int32_t Rounds::note_rivals(const std::pair<std::int32_t, std::int32_t>& pair,
                                 const std::vector<std::int32_t>& before,
                                 std::vector<Rival>& rivals) const {
  const std::int32_t gain = best_gain_[pair.first];
  std::int32_t margin = gain;
  const auto& edges = edges_[pair.first];
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const std::int64_t kept = std::int64_t{gain} + std::max(0, edges[k].gain) - before[k];
    if (kept > certain_) continue;
    const auto close = static_cast<std::int32_t>(std::max<std::int64_t>(kept, 0));
    rivals.push_back({pair.first, edges[k].to, close});
    margin = std::min(margin, close);
  }
  return margin;
}

}  // namespace kbforge
