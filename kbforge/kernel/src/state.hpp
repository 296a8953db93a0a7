// The state of sequential Monte Carlo clustering: clusters in slots, subproblems as blocks of rows.
//
// A subproblem is addressed by its smallest fragment, a particle by its rank, a cluster by its slot:
// the latest freed is taken first. Members are lists that clusters share.
#pragma once

#include <cstdint>
#include <vector>

#include "members.hpp"
#include "memory.hpp"
#include "numbers.hpp"

namespace kbforge {

using Slot = std::int32_t;  // of a cluster

struct Cluster {
  std::int32_t size;
  Number first;   // its smallest fragment
  Number owner;   // the subproblem that holds it
  std::int32_t list;  // its fragments, in State::members
  Slot next, previous;  // of the same family, in no order
  std::int32_t place;   // scratch of a step
  bool live;
  double score;   // L(C), nats
  double term;    // log alpha + e lgamma(|C|) + L(C), on the grid
  double reach;   // the heaviest particle's log weight that holds C, plus e log |C|
  double gain;    // scratch of a step: L(C + x) - L(C), on the grid
};

// A subproblem: its particles as rows of slots, heaviest first.
struct Block {
  std::vector<double> weights;            // log weights, normalised, descending
  std::vector<std::uint32_t> row_start;   // where each row starts in `cells`, and the end
  std::vector<Slot> cells;                // row after row, each by smallest fragments
  std::vector<Slot> slots;                // the distinct slots in `cells`

  std::int32_t rows() const { return static_cast<std::int32_t>(weights.size()); }
  std::uint32_t length(std::int32_t row) const { return row_start[row + 1] - row_start[row]; }
};

class State {
 public:
  // Values of fixed functions by cluster size, on the grid; shape [n], of sizes below n.
  std::vector<double> log_size, log_cluster;

  std::vector<Cluster, Zeroed<Cluster>> clusters;
  Members members;
  std::vector<Slot> free;              // to be taken again, the last one first
  std::vector<Block*> blocks;          // by name, null where there is none
  std::vector<Slot> family;            // by first fragment, one of its clusters or kNone
  std::int32_t largest = 0;            // of all clusters so far
  std::vector<Number> home;            // by fragment, the subproblem that holds it, or kNone
  // by fragment, whether its subproblem lies elsewhere; of those beyond the end none does
  std::vector<std::uint8_t> elsewhere;
  std::int64_t n_subproblems = 0;
  double log10_effective = 0.0;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State();

  Number n_fragments() const { return static_cast<Number>(blocks.size()); }
  void count_fragment();
  // Number so many fragments, of which the last may be fewer than before if they are in no cluster,
  // and so many slots, at least; the clusters of new slots are not live.
  void number(Number fragments, Slot slots);
  bool is_elsewhere(Number fragment) const {
    return static_cast<std::size_t>(fragment) < elsewhere.size() && elsewhere[fragment];
  }

  // The cluster parent + x, or {x} for a parent of kNone; it has no owner yet.
  Slot place(Number x, Slot parent, double score);
  // Let a live cluster be one of its family, or none.
  void link(Slot slot);
  void unlink(Slot slot);
  void release(Slot slot);
  void install(Number name, Block* block);
  // Take a subproblem out; the caller owns it now.
  Block* remove(Number name);

  // Make the lists of members anew when they have become long. Every live cluster has an owner then.
  void tidy();

  bool in_heaviest(const Cluster& cluster) const;
  bool family_in_heaviest(Number family) const;
  bool has_member(Slot slot, Number fragment) const;
  // Note where the fragments of a subproblem are.
  void follow_home(Number name);

 private:
  Slot take_slot();
};

}  // namespace kbforge
