// Which clusters to compare: those that share keys of their units.
#pragma once

#include <cstdint>
#include <vector>

#include "crew.hpp"
#include "lists.hpp"

namespace kbforge {

// How clusters that share keys are compared.
struct Blocking {
  std::int64_t most;    // clusters of a key; one with more leads nowhere, unless no other key does
  std::int32_t shared;  // keys in common, if any other cluster has that many
  std::int32_t top;     // others, those with most keys in common
};

// The keys of n units from the first one on.
struct Keyed {
  std::int64_t first, n;
  const std::int64_t *key_start, *keys;
};

// Which keys are taken: in each of so many turns others, so that not all lie about at one time.
struct Turn {
  std::uint32_t number = 0, of = 1;
};

// By key, the clusters that have it, of keys that several have. At first every unit is a cluster.
class Postings {
 public:
  // Some keys of units, turn after turn and in each by unit.
  void add(const Keyed& units, const Turn& turn, Crew& crew);
  // Units are in these clusters now; no others will be added.
  void put_together(const std::vector<std::int32_t>& cluster, Crew& crew);
  // task(begin, end) of the clusters of each key, ascending.
  template <typename Task>
  void each(const Task& task) const {
    for (const Part& part : parts_) {
      for (const std::int32_t* size = part.data(); size != part.data() + part.size();) {
        const std::int32_t *begin = size + 1, *end = begin + *size;
        task(begin, end);
        size = end;
      }
    }
  }
  std::int64_t units() const { return n_; }

 private:
  // A unit with a key. Keys are told apart by forty bits, eight of them by the part that the holder
  // is in; two keys that share these are one.
  struct Holder {
    std::uint32_t key;
    std::int32_t unit;
    bool operator<(const Holder& other) const {
      return key != other.key ? key < other.key : unit < other.unit;
    }
  };
  // Who was added at once, by part.
  struct Added {
    std::vector<Holder> holders;
    std::vector<std::int64_t> begins;
  };
  using Part = std::vector<std::int32_t>;  // of each key how many clusters have it, and these
  static constexpr std::size_t kParts = 256;

  void gather(Crew& crew);

  std::int64_t n_ = 0;
  std::uint32_t turn_ = 0;
  std::vector<Added> added_;
  std::vector<Part> parts_;
};

class Blocks {
 public:
  // Of postings that outlive the blocks.
  Blocks(const Postings& postings, std::int64_t most);

  // By cluster, the later ones that it is compared with; some of them more than once.
  Lists<std::int32_t> near(const Blocking& blocking, Crew& crew) const;

 private:
  // Another cluster, and how many keys it shares with the one at hand.
  struct Shared {
    std::int32_t keys, cluster;
    bool operator<(const Shared& other) const {
      return keys != other.keys ? keys > other.keys : cluster < other.cluster;
    }
  };
  using Counts = std::vector<std::int32_t>;

  Lists<const std::int32_t*> looked_at(std::int32_t begin, std::int32_t end) const;
  void count(const std::int32_t* const* block, const std::int32_t* const* end, std::int32_t cluster,
             Counts& keys, std::vector<Shared>& near) const;

  const Postings& postings_;
  const std::int64_t most_;
  std::vector<std::uint8_t> led_;  // by cluster, whether a key that few have leads it anywhere
};

}  // namespace kbforge
