// One step of (split) sequential Monte Carlo clustering; tests/kernel/oracle.py says it in short.
//
// The phases are propose, resample, discard weak merges, merge, grow, split. The caller has asked the
// likelihood; what a step decides is written at once, since from then on nothing can fail.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "state.hpp"

namespace kbforge {

// Draws from n log weights, descending: which are kept, and their log weights; how many, or -1 if it
// fails.
using Draw = std::int64_t (*)(std::int64_t n, const double* values, std::int64_t* kept,
                              double* weights);

// Draws places with replacement, in proportion to exp of n log weights: so many of them; -1 if it fails.
using Sample = std::int64_t (*)(std::int64_t n, const double* values, std::int64_t size,
                                std::int64_t* drawn);

struct Rules {
  std::int32_t particles;  // P
  double log_floor;        // putative particles so far below the heaviest are dropped; -inf: none
  bool splits;             // whether the problem falls apart into subproblems
  bool marginal;           // whether partial groupings weigh what the particles with them do
  double log_alpha;        // the prior's term of a new cluster
  Draw draw;               // resamples; null: the P heaviest are kept
  Sample sample;           // merges subproblems with several particles; null: they merge exactly

  // Putative particles that resampling may look at.
  std::size_t limit() const {
    return draw ? std::numeric_limits<std::size_t>::max() : static_cast<std::size_t>(particles);
  }
};

enum class Outcome : std::int32_t {
  kDone = 0,
  kBadPredictive = 1,  // NaN or +inf
  kBadAlone = 2,       // L of the fragment alone is
  kNoPlace = 3,        // the fragment has no finite assignment
  kNotTold = 4,        // the kernel was not told of its values, or of the logs of cluster sizes
  kElsewhere = 5,      // its keys lead to subproblems that lie elsewhere
  kCornered = 6,       // constraints leave it no place among the particles
  kNotDrawn = 7,       // the resampler has failed
};

// What the likelihood says of a fragment and some clusters, ascending, in nats.
struct Scored {
  const std::vector<Slot>& slots;
  const double* predictive;  // L(C + x) - L(C)
  const double* joined;      // L(C + x); null: L(C) and the above
  double alone;              // L({x})
};

// What a step did, valid until the next one.
struct Done {
  std::vector<std::int64_t> parents, children;  // the clusters that hold x; a parent of -1 is none
  std::vector<std::int64_t> dropped;            // clusters that no particle holds any more
  std::vector<std::int64_t> before, after;      // names of subproblems
  std::vector<Number> families;                 // of the children, distinct
};

class Step {
 public:
  Step(State& state, Rules rules) : state_(state), rules_(rules) {}

  // Take in the next fragment.
  //
  // joins: whether it must join one of the clusters scored. If the outcome is not kDone, nothing has
  // changed.
  Outcome take_in(const Scored& scored, bool joins);
  // The same, of the joins that were last proposed; their clusters are scored.
  Outcome take_in_proposed(const Scored& scored, bool joins);
  // Give it a subproblem of its own, whatever else it could join; alone: L of it, nats.
  Outcome take_apart(double alone);
  // Propose the heaviest joins, at most `limit`, by a surrogate's L(C + x) - L(C), nats.
  Outcome propose(const std::vector<Slot>& slots, const double* predictive, std::size_t limit);
  // The clusters of the joins proposed, ascending.
  std::vector<Slot> proposed() const;
  // The subproblem of the heaviest join, kNone if there is none.
  Number heaviest_proposed() const { return pool_.empty() ? kNone : pool_.front().subproblem; }

  Done done;
  std::int64_t evaluations = 0;

 private:
  // A live particle with x put into one of its clusters (a cell of its row), or into a new one.
  struct Putative {
    double value;
    Number subproblem;
    std::int32_t row;
    std::int32_t cell;  // in its block's cells, kNone for a singleton
    Slot slot;
  };
  // Canonical order.
  struct Heavier {
    bool operator()(const Putative& a, const Putative& b) const {
      if (a.value != b.value) return a.value > b.value;
      if (a.subproblem != b.subproblem) return a.subproblem < b.subproblem;
      return a.cell < b.cell;  // cells go by row
    }
  };
  // Combinations of particles, heaviest first; `rows` has one rank a subproblem.
  struct Joint {
    std::vector<double> value;
    std::vector<std::int32_t> putative;
    std::vector<std::int32_t> rows;
    void clear();
  };
  struct Combination {
    double value;
    std::int32_t putative, left, right;
    bool waits;  // whether `left` is of those in which x has not been placed
  };

  // What is left of a cluster's list of members, the cluster's place, and another walk that has come
  // to the same fragment.
  struct Walk {
    std::int32_t list, place, next;
  };
  // The step in which a part was last come to, and the place of a cluster that holds it.
  struct Naming {
    std::int32_t step = 0, place = kNone;
  };
  // A distinct row of a component: its log density in units of the grid, its log weight, its range of
  // cells.
  struct Row {
    std::int64_t units;
    double value;
    std::uint32_t begin, end;
  };

  Outcome propose_joins(const std::vector<Slot>& slots, const double* predictive,
                        std::size_t limit, double log_floor);
  void reweigh(const Scored& scored);
  Outcome decide(const Scored& scored, bool joins);
  void expand(double floor);
  bool add_singletons(double log_new);
  bool resample();
  bool draw(const std::vector<double>& values);
  void discard_weak_merges();
  bool merge();
  bool merge_by_sampling();
  bool join(std::size_t place, const Block& block, bool last);
  void combine(const Joint& joint, const Block& block, bool waits);
  bool keep(std::size_t place, bool cut, Joint& out);
  void sort_placed();
  void open(Number x, double alone);
  void grow(Number x, const Scored& scored);
  void copy_rows(Block& grown);
  void keep_held(Block& grown);
  void split(Block* grown);
  bool falls_apart(const Block& grown);
  std::int32_t follow(const Block& grown);
  void part(const Block& grown, std::int32_t component, Number& name, Block*& block);
  void put_in_place(Number name, Block* block);
  void follow_homes(Number x);
  std::int32_t root(std::int32_t place);

  State& state_;
  Rules rules_;
  // scratch of a step
  std::vector<Slot> candidates_;
  std::vector<double> best_, shares_;
  std::vector<Number> names_;
  std::vector<Putative> pool_;
  Joint placed_, waiting_, next_;
  std::vector<Combination> combinations_;
  std::vector<std::int64_t> kept_;  // what was drawn, and its log weights
  std::vector<double> drawn_;
  std::vector<std::int32_t> mine_;
  std::vector<Slot> parents_, children_, old_slots_;
  std::vector<std::int32_t> parent_of_, component_;
  std::vector<Walk> walks_;
  std::vector<Number> meetings_;           // fragments that walks have come to, as a heap
  std::vector<std::int32_t> walk_at_;      // by fragment, a walk that has come to it
  std::vector<std::int32_t> passed_;       // by list, the step in which a walk went on from it
  std::vector<Naming> named_;              // by part
  std::vector<Row> rows_;
  std::vector<Slot> cells_;
  std::int32_t n_components_ = 0, stamp_ = 0;
};

}  // namespace kbforge
