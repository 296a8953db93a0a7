// The index: which clusters a fragment's keys lead to (kbforge/contracts/index.py).
//
// A key leads to families, all live clusters with the same first fragment. Where a key leads is kept
// in one pool of numbers; a key that outgrows its place moves to one of twice the size, and the pool
// is packed when half of it is left behind.
#pragma once

#include <cstdint>
#include <vector>

#include "state.hpp"

namespace kbforge {

struct IndexRules {
  std::int32_t most;      // families that a key may lead to
  std::int32_t shared;    // keys that must lead to a family, if any family has so many
  std::int32_t compared;  // families that a fragment is compared with, at most; 0: no bound
};

// Where the keys of one fragment lead.
struct Lookup {
  // A key, and what is left of where it leads.
  struct Pruned {
    std::int64_t key;
    std::vector<Number> families;
  };
  std::vector<std::int64_t> keys, open, closing;
  std::vector<Pruned> pruned;
  std::vector<Slot> slots;    // the clusters to compare the fragment with, ascending
  // families that lie elsewhere and may be compared: with any, the slots are not all; once these are
  // here, others may be missing
  std::vector<Number> missing;
};

// How many keys lead to each family that any lead to; what looking up needs.
class Tallies {
 public:
  struct Tally {
    Number family;
    std::int32_t keys;
  };
  std::vector<Tally> reached;  // in the order in which they were

  void begin();
  // One more key leads to a family.
  void count(Number family);

 private:
  struct Place {
    std::int32_t lookup = 0, at = 0;  // the lookup that it was taken for, and where in `reached`
  };
  Place& place_of(Number family);

  std::vector<Place> places_ = std::vector<Place>(256);  // a power of two, at most half of it taken
  std::int32_t lookup_ = 0;
};

class Index {
 public:
  explicit Index(IndexRules rules) : rules_(rules) { entries_.resize(1 << 12); }

  // Look up where keys lead; nothing changes.
  void look_up(const State& state, const std::int64_t* keys, std::size_t n, Tallies& tallies,
               Lookup& out) const;
  // The fragment looked up was taken in, by clusters of these families, which are distinct.
  void extend(const Lookup& lookup, const std::vector<Number>& families);

  // What a key leads to, for copies of the whole.
  struct Led {
    std::int64_t key;
    std::vector<Number> families;
    bool closed;
  };
  std::vector<Led> contents() const;
  // Where some keys lead, also if that is nowhere.
  std::vector<Led> contents(const std::int64_t* keys, std::size_t n) const;
  // Where keys lead that may lead elsewhere than when this was last asked; at first, all.
  std::vector<Led> changed();
  // A key leads there from now on; `counts`: whether that is a change.
  void put(std::int64_t key, const std::vector<Number>& families, bool closed, bool counts);
  // A key is never closed, however many families it leads to.
  void keep_open(std::int64_t key);
  // The families that keys lead to and that lie elsewhere.
  std::vector<Number> elsewhere(const State& state, const std::int64_t* keys, std::size_t n) const;

 private:
  struct Entry {
    std::int64_t key = 0;
    std::uint32_t start = 0, count = 0, room = 0;
    bool used = false, closed = false, noted = false, kept = false;
  };

  Entry* find(std::int64_t key);
  const Entry* find(std::int64_t key) const;
  Entry& made(std::int64_t key);
  void rehash();
  // Whether a key did not lead to a family before.
  bool append(Entry& entry, Number family);
  void assign(Entry& entry, const std::vector<Number>& families);
  void note(Entry& entry);
  Led led(const Entry& entry) const;
  void pack();
  bool leads_too_far(const State& state, std::int64_t key, const Entry& entry, Lookup& out) const;
  void count(const State& state, const std::vector<std::int64_t>& keys, Tallies& tallies) const;
  void keep_shared(Tallies& tallies) const;
  void keep_nearest(Tallies& tallies) const;

  IndexRules rules_;
  std::vector<Entry> entries_;
  std::size_t n_entries_ = 0;
  std::vector<Number> pool_;
  std::size_t lost_ = 0;
  bool notes_ = false;                // whether changes are noted
  std::vector<std::int64_t> noted_;   // the keys of entries that changed
};

}  // namespace kbforge
