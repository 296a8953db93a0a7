// A wave: the next fragments are looked up and compared on several threads, on the state as it is.
//
// They are taken in one by one afterwards, in order. What was found for one holds if none that was
// taken in since the wave began has one of its keys, or changed a subproblem that it looked at;
// otherwise it is looked up again. So the result is that of one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "crew.hpp"
#include "index.hpp"
#include "table.hpp"

namespace kbforge {

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

// Numbers, of which one asks whether they are among them.
class Numbers {
 public:
  Numbers() : places_(1 << 12) {}
  void clear();
  void add(std::int64_t number);
  bool has(std::int64_t number) const;

 private:
  struct Place {
    std::int64_t number = 0;
    std::uint32_t stamp = 0;
  };
  std::size_t place_of(std::int64_t number) const;

  std::vector<Place> places_;
  std::size_t size_ = 0;
  std::uint32_t stamp_ = 1;
};

class Waves {
 public:
  explicit Waves(std::size_t workers) : crew_(workers), tallies_(workers) {}

  // Fragments are numbered from 0 again: another batch begins.
  void restart() { end_ = 0; }
  // Look at fragments from `first` on, as many as are worth it.
  void look(std::int64_t first, const Batch& batch, const State& state, const Index& index,
            Table& table);
  // What was found for fragment k; null: it was not looked at, or it may not hold any more. If it is
  // not null, `predictive` is L(C + x) - L(C) of the clusters looked up, nats.
  const Lookup* found(std::int64_t k, std::vector<double>& predictive);
  // A fragment was taken in by these keys, and disturbed these families.
  void note(const Lookup& lookup, const std::vector<Number>& disturbed);
  // Whether fragment k is the first after those looked at.
  bool ended(std::int64_t k) const { return k >= end_; }

 private:
  struct Looked {
    Lookup lookup;
    std::vector<double> terms;  // by what the record states (or one for all of it), and cluster
    std::size_t stated = 0;
  };

  void compare(const Batch& batch, Table& table);
  void compare_part(std::size_t part, const Batch& batch, Table& table);
  bool holds(const Lookup& lookup) const;

  Crew crew_;
  std::vector<Tallies> tallies_;  // by worker
  std::vector<Looked> looked_;
  std::int64_t first_ = 0, end_ = 0;          // of the wave, or of a pause
  std::int64_t n_looked_ = 0, lost_ = 0;      // of the last wave; none: it was a pause
  std::int64_t pause_ = 0;                    // how long the last one was
  Numbers keys_, families_;
};

}  // namespace kbforge
