// A likelihood with sufficient statistics, as a run sees it (kbforge.contracts.LiveClusters).
#pragma once

#include <cstdint>
#include <vector>

#include "state.hpp"

namespace kbforge {

// A fragment as numbers: by attribute, in order, the number of its value.
struct Record {
  const std::int32_t* attributes;
  const std::int32_t* values;
  std::size_t n;
};

class Table {
 public:
  virtual ~Table() = default;
  // Whether all that the record states is known.
  virtual bool knows(const Record& x) const = 0;
  // L(C + x) - L(C) of live clusters, nats; out has room for as many.
  virtual void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) = 0;
  // How many parts the above is a sum of, that can be asked for on threads of their own; 0: none.
  virtual std::size_t n_parts() const { return 0; }
  // One term of the sum: what part `part` says of what x states there, which is at `place`.
  virtual void log_predictive_part(std::size_t, const Record&, std::size_t,
                                   const std::vector<Slot>&, double*) {}
  // L({x}), nats.
  virtual double log_predictive_new(const Record& x) = 0;
  // children[k] := parents[k] + x; a parent of -1 is the empty cluster.
  virtual void extend(const Record& x, const std::vector<std::int64_t>& parents,
                      const std::vector<std::int64_t>& children) = 0;
  virtual void release(const std::vector<std::int64_t>& slots) = 0;
};

}  // namespace kbforge
