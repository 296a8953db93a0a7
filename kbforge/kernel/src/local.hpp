// The posterior where rounds of best merges leave a doubt (kbforge/clustering/rounds.py).
//
// Units that certain merges brought together are contracted. Clusters that might as well be merged,
// or exchange units, form subproblems of bounded size, in each of which split sequential Monte Carlo
// runs by itself; all else stays as the rounds left it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "lists.hpp"
#include "rounds.hpp"

namespace kbforge {

struct LocalRules {
  std::int32_t particles;
  double log_floor;    // as in Rules
  double doubt;        // nats: what is closer is in doubt
  std::int64_t most;   // fragments of a subproblem that several clusters form, and units of any
};

// Subproblems as kb_pages has them; members are places of the caller's.
template <typename Integer>
struct Groupings {
  std::vector<Integer> clusters, particles, lengths, members, rows, cells;
  std::vector<double> scores, weights;
};
using Posterior = Groupings<std::int64_t>;

class Local {
 public:
  // places: of each fragment, in the caller's order.
  Local(Rounds& rounds, const LocalRules& rules, const std::int64_t* places);

  // By smallest place.
  Posterior out;
  double log_posterior = 0.0;  // of the heaviest particles
  std::int64_t in_doubt = 0;   // fragments of subproblems with several units
  double cut = 0.0;            // expected merges between subproblems that the bound has cut apart

 private:
  // A subproblem.
  using Found = Groupings<std::int32_t>;
  struct Part {
    std::unique_ptr<Found> found;  // one or several; none: its clusters are as the rounds left them
    double log_posterior = 0.0;
  };
  struct Doubt {
    std::int32_t margin, one, other;
  };
  using Pair = std::pair<std::int32_t, std::int32_t>;

  void join(std::vector<Doubt> doubts);
  std::vector<Doubt> doubts() const;
  void contract();
  void compare();
  void solve();
  void solve(std::size_t part, Table& table);
  bool run(std::size_t part, const Pair* compared_end, Table& table);
  void bind(std::size_t part, Run& run) const;
  void copy(std::size_t part, Run& run, const std::vector<std::int32_t>& sizes,
            const std::vector<double>& alone);
  void gather();
  template <typename Integer>
  void put(const std::vector<std::int32_t>& units, Groupings<Integer>& found) const;
  void put_merged(std::size_t part, std::int32_t cluster);
  std::vector<std::int32_t> units_of(std::size_t part, std::int32_t cluster) const;
  std::int32_t part_of(std::int32_t cluster) const;

  Rounds& rounds_;
  const LocalRules rules_;
  const std::int64_t* places_;
  std::vector<std::int32_t> final_;   // by unit of the rounds, its cluster in the end
  std::vector<std::int32_t> joined_;  // by cluster, a smaller one of the same subproblem
  std::vector<std::int32_t> unit_;    // by unit of the rounds, the first one that it was contracted with
  std::vector<std::int32_t> number_;  // by cluster that begins a subproblem, its number
  Lists<std::int32_t> held_;          // by first one, all units contracted with it
  // by subproblem: its final clusters, its units, each by its first one of the rounds, and pairs of
  // these that are compared
  Lists<std::int32_t> clusters_, units_;
  Lists<Pair> compared_;
  std::vector<Part> parts_;
};

}  // namespace kbforge
