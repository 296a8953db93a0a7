// Clustering of a whole file by best merges in rounds (kbforge/clustering/rounds.py).
//
// Clusters that share keys are compared; in a round every cluster finds the partner with which a merge
// gains most, and those that find each other merge. Gains are whole numbers, each list is written by
// one thread, and equal gains are ordered by lot, so that the number of threads changes nothing.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "api.hpp"
#include "blocks.hpp"
#include "constraints.hpp"
#include "crew.hpp"
#include "table.hpp"

namespace kbforge {

// Units of a gain in one nat.
constexpr double kGainUnits = 65536.0;

// Let a cluster take in a fragment, or, if it is the `first`, be it; what L gains, nats.
double put_together(Table& table, const Record& x, bool first, Slot slot, Slot spare);

// A merge that was made, and by how many units it was better than what it excludes.
struct Merge {
  std::int32_t slot, into, margin;
};

// Clusters that a merge has kept apart, and by how many units it was better.
struct Rival {
  std::int32_t one, other, margin;
};

// What rounds that were run elsewhere have done: merges in their order, and, in any order, what they
// kept apart, pairs of present clusters with the gain of each, and all that were compared.
struct Before {
  struct Pair {
    std::int32_t one, other, gain;
  };
  std::int64_t n_merges, n_rivals, n_edges, n_compared;
  const Merge* merges;
  const Rival* rivals;
  const Pair* edges;
  const std::pair<std::int32_t, std::int32_t>* compared;
};

// Pairs in the order in which they come, many of one unit after another: each such unit is written
// once, as -1 less its number, before the others of its pairs.
class ComparedPairs {
 public:
  // So many more pairs of so many units, one after another.
  void make_room(std::size_t units, std::size_t pairs) {
    written_.reserve(written_.size() + units + pairs);
  }
  void add(std::int32_t one, std::int32_t other) {
    if (one != last_) written_.push_back(-1 - one);
    written_.push_back(other);
    last_ = one;
  }
  bool empty() const { return written_.empty(); }
  // task(one, other) of each.
  template <typename Task>
  void each(const Task& task) const {
    std::int32_t one = kNone;
    for (const std::int32_t number : written_) {
      if (number < 0) {
        one = -1 - number;
      } else {
        task(one, number);
      }
    }
  }

 private:
  std::int32_t last_ = kNone;
  std::vector<std::int32_t> written_;
};

class Rounds {
 public:
  // A table with nothing in it yet, and what each fragment states. `log_cluster`: log alpha and what
  // the prior adds, by cluster size. Pairs whose merge would gain fewer nats than `least` are not
  // kept, and merges that gain more than `certain` are not in doubt.
  Rounds(Table& table, const Batch& fragments, const kb_apart* apart,
         const std::vector<double>& log_cluster, double least, double certain,
         std::size_t workers);

  // Fragments that must be together, or certainly are because they state the same, are one unit.
  std::int64_t n_units() const { return static_cast<std::int64_t>(unit_start_.size()) - 1; }
  const std::vector<std::int32_t>& unit_fragments() const { return unit_fragments_; }
  const std::vector<std::int64_t>& unit_start() const { return unit_start_; }

  // Some keys of units, as `Postings::add` takes them.
  void add_keys(const Keyed& units, const Turn& turn) { postings_.add(units, turn, crew_); }
  // Compare clusters that share keys of their units, whose keys are asked for no more if it is the
  // `last` time; how many pairs were scored.
  std::int64_t connect(const Blocking& blocking, bool last);
  // Go on from rounds that were run elsewhere; false, and nothing is done, if they cannot be of these
  // units.
  bool resume(const Before& before);
  // From now on only merges that gain more nats than this are made; at first, 0.
  void merge_above(double nats);
  // One round; how many merges it made.
  std::int64_t merge_best();

  std::int32_t root(std::int32_t unit) const {
    while (into_[unit] != unit) unit = into_[unit];
    return unit;
  }

  // Of the pairs that were compared and kept, and are not merged.
  struct Edge {
    std::int32_t to, gain;  // in units
  };

  const Batch& fragments() const { return fragments_; }
  const Table& table() const { return table_; }
  Crew& crew() { return crew_; }
  const std::vector<Edge>& edges(std::int32_t cluster) const {
    static const std::vector<Edge> kNoEdges;
    return edges_.empty() ? kNoEdges : edges_[cluster];
  }
  const std::vector<Merge>& merges() const { return merges_; }
  const std::deque<Rival>& rivals() const { return rivals_; }
  // Pairs of units that were compared.
  const ComparedPairs& compared() const { return compared_; }
  const Tags& marks(std::int32_t unit) const { return unit_marks_[unit]; }
  std::int32_t size(std::int32_t cluster) const { return size_[cluster]; }
  // Of the present clusters, unnormalised, nats.
  double log_posterior() const { return log_posterior_; }
  // L of a cluster, nats.
  double log_marginal(std::int32_t cluster) const { return score_[cluster]; }
  double log_cluster(std::int32_t size) const { return log_cluster_[size]; }
  bool bound() const { return !marks_.empty(); }
  bool barred(const Tags& one, const Tags& other) const { return apart_.bars(one, other); }

 private:
  static constexpr std::int32_t kBarred = std::numeric_limits<std::int32_t>::min();

  void make_units(const kb_apart* apart);
  void place(std::int32_t unit);
  bool together(const std::vector<std::int32_t>& alike);
  void note_marks(const kb_apart& apart);
  bool possible(const Before& before) const;
  std::int64_t score_all(Lists<std::int32_t> near_of);
  void make_room_for_edges();
  // Pairs that are kept; there is no edge of any of them.
  void add_edges(std::vector<std::vector<Before::Pair>>& found);
  void score(std::size_t worker, std::int32_t cluster, const std::vector<std::int64_t>& others,
             std::int32_t* gains);
  void find_best(const std::vector<std::int32_t>& clusters);
  std::vector<std::pair<std::int32_t, std::int32_t>> reciprocal() const;
  void merge(const std::vector<std::pair<std::int32_t, std::int32_t>>& pairs);
  // One cluster goes into another, and L gains so much beside L of both, nats.
  void take_in(std::int32_t gone, std::int32_t into, double ratio);
  void fold(std::int32_t cluster);
  std::int32_t note_rivals(const std::pair<std::int32_t, std::int32_t>& pair,
                           const std::vector<std::int32_t>& before,
                           std::vector<Rival>& rivals) const;

  Table& table_;
  const Batch fragments_;
  std::vector<double> log_cluster_;
  std::int32_t least_, certain_, above_ = 0;
  Crew crew_;
  Postings postings_;
  std::vector<std::int64_t> unit_start_;
  std::vector<std::int32_t> unit_fragments_;
  // by unit, of the cluster that it names
  std::vector<std::int32_t> into_, size_, best_, best_gain_;
  std::vector<double> score_;
  double log_posterior_ = 0.0;
  std::vector<Tags> marks_, unit_marks_;  // none, if nothing is kept apart
  Apart apart_;
  std::vector<std::vector<Edge>> edges_;  // by cluster, ascending; none: not yet compared
  std::vector<Merge> merges_;
  std::deque<Rival> rivals_;  // grows without being copied
  ComparedPairs compared_;
  std::vector<std::int32_t> waiting_;  // clusters whose best partner may have changed
  std::vector<std::uint8_t> mark_;
};

}  // namespace kbforge
