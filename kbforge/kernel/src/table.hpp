// A likelihood with sufficient statistics, as a run sees it (kbforge.contracts.LiveClusters).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "state.hpp"

namespace kbforge {

// A fragment as numbers: by attribute, in order, the number of its value.
struct Record {
  const std::int32_t* attributes;
  const std::int32_t* values;
  std::size_t n;
};

// Nats of joining where nothing is read of the fragment, or nothing of the whole cluster
// (kbforge.contracts.likelihood).
constexpr double kUnread = -60.0;

// What several threads may ask a table for: nothing, fragments of their own, or parts of their own.
enum class Ahead { kNever, kByFragment, kByPart };

class Table {
 public:
  virtual ~Table() = default;
  // Whether all that the record states is known.
  virtual bool knows(const Record& x) const = 0;
  // L(C + x) - L(C) of live clusters, nats; out has room for as many.
  virtual void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) = 0;
  // How the above can be asked for on several threads at once, while nothing changes.
  virtual Ahead ahead() const { return Ahead::kNever; }
  // There will be so many threads.
  virtual void set_workers(std::size_t) {}
  // If by fragment: as `log_predictive`, by a thread that has this number.
  virtual void log_predictive_by(std::size_t, const Record&, const std::vector<Slot>&, double*) {}
  // If by part: how many parts the sum has, and one term of it, what a part says of what x states
  // there, which is at `place`. One more term says what it has of which nothing is read.
  virtual std::size_t n_parts() const { return 0; }
  virtual void log_predictive_part(std::size_t, const Record&, std::size_t,
                                   const std::vector<Slot>&, double*) {}
  virtual void log_predictive_unread(const Record&, const std::vector<Slot>&, double*) {}
  // L({x}), nats.
  virtual double log_predictive_new(const Record& x) = 0;
  // children[k] := parents[k] + x; a parent of -1 is the empty cluster.
  virtual void extend(const Record& x, const std::vector<std::int64_t>& parents,
                      const std::vector<std::int64_t>& children) = 0;
  virtual void release(const std::vector<std::int64_t>& slots) = 0;
  // The fragment is asked for no more once others are.
  virtual void forget(const Record&) {}
  // L of the cluster of a slot, nats: one term a part (NaN where it states nothing there), or one
  // term. The empty cluster's and that of which nothing is read are the caller's.
  virtual void log_marginals(Slot, double*) {}
  // L(C + D) - L(C) - L(D) of the cluster of a slot and n others, nats, by a thread that has this
  // number, while nothing changes.
  virtual void log_merge_ratios(std::size_t, Slot, std::int64_t, const std::int64_t*, double*) {}
  // Let a slot, which may be that of the second one, hold two clusters together, which stay; the second
  // may be kNone: none.
  virtual void unite(Slot, Slot, Slot) {}
  // One cluster goes into the other, and its slot is free.
  void merge(Slot slot, Slot into) {
    unite(slot, into, into);
    release({slot});
  }
  // An empty table of the same model, for a thread of its own; null where clusters do not merge.
  virtual std::unique_ptr<Table> fresh() const { return nullptr; }
};

}  // namespace kbforge
