// The posterior where rounds of best merges leave a doubt (kbforge/clustering/rounds.py).
//
// Units that certain merges brought together are contracted. Clusters that might as well be merged,
// or exchange units, form subproblems of bounded size, in each of which split sequential Monte Carlo
// runs by itself; all else stays as the rounds left it.
#pragma once

#include <cstdint>
#include <vector>

#include "rounds.hpp"

namespace kbforge {

struct LocalRules {
  std::int32_t particles;
  double log_floor;    // as in Rules
  double doubt;        // nats: what is closer is in doubt
  std::int64_t most;   // fragments of a subproblem that several clusters form, and units of any
};

// Subproblems as kb_pages has them; members are places of the caller's.
struct Grouping {
  std::vector<std::int64_t> clusters, particles, lengths, members, rows, cells;
  std::vector<double> scores, weights;
};

class Local {
 public:
  // places: of each fragment, in the caller's order.
  Local(Rounds& rounds, const LocalRules& rules, const std::int64_t* places);

  // By smallest place.
  Grouping out;
  double log_posterior = 0.0;  // of the heaviest particles
  std::int64_t in_doubt = 0;   // fragments of subproblems with several units
  double cut = 0.0;            // expected merges between subproblems that the bound has cut apart

 private:
  // A subproblem: its final clusters, its units, each by its first one of the rounds, and pairs of
  // these that are compared.
  struct Part {
    std::vector<std::int32_t> clusters, units;
    std::vector<std::pair<std::int32_t, std::int32_t>> compared;
    Grouping found;  // one or several
    double log_posterior = 0.0;
  };
  struct Doubt {
    std::int32_t margin, one, other;
  };

  void join(std::vector<Doubt> doubts);
  std::vector<Doubt> doubts() const;
  void contract();
  void compare();
  void solve(Part& part, Table& table) const;
  bool run(Part& part, Table& table) const;
  void bind(const Part& part, Run& run) const;
  void copy(Part& part, Run& run, const std::vector<std::int32_t>& sizes,
            const std::vector<double>& alone) const;
  void take_as_merged(Part& part) const;
  void gather();
  void put(const std::vector<std::int32_t>& units, Grouping& found) const;
  std::int32_t part_of(std::int32_t cluster) const;

  Rounds& rounds_;
  const LocalRules rules_;
  const std::int64_t* places_;
  std::vector<std::int32_t> final_;   // by unit of the rounds, its cluster in the end
  std::vector<std::int32_t> joined_;  // by cluster, a smaller one of the same subproblem
  std::vector<std::int32_t> unit_;    // by unit of the rounds, the first one that it was contracted with
  std::vector<std::vector<std::int32_t>> held_;  // by first one, all units contracted with it
  std::vector<std::int32_t> number_;  // by cluster that begins a subproblem, its number
  std::vector<Part> parts_;
};

}  // namespace kbforge
