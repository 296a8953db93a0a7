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

// The fragments of one call: what each states, and its keys.
struct Batch {
  std::int64_t n;
  const std::int64_t* record_start;
  const std::int32_t *attributes, *values;
  const std::int64_t *key_start, *keys;

  Record record(std::int64_t k) const {
    const std::int64_t begin = record_start[k];
    return {attributes + begin, values + begin,
            static_cast<std::size_t>(record_start[k + 1] - begin)};
  }
};

class Table {
 public:
  virtual ~Table() = default;
  // Whether all that the record states is known.
  virtual bool knows(const Record& x) const = 0;
  // L(C + x) - L(C) of live clusters, nats; out has room for as many.
  virtual void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) = 0;
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
  // So many threads will ask for merges.
  virtual void set_workers(std::size_t) {}
  // L(C + D) - L(C) - L(D) of the cluster of a slot and n others, nats, by a thread that has this
  // number, while nothing changes.
  virtual void log_merge_ratios(std::size_t, Slot, std::int64_t, const std::int64_t*, double*) {}
  // How many parts L is a sum of, such as attributes.
  virtual std::int64_t parts() const { return 1; }
  // L(C + D) - L(C) - L(D) by part, nats; NaN where one of them states nothing.
  virtual void log_merge_parts(std::size_t worker, Slot slot, Slot other, double* out) {
    const std::int64_t one = other;
    log_merge_ratios(worker, slot, 1, &one, out);
  }
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
