// Which clusters to compare: those that share keys of their units.
#pragma once

#include <cstdint>
#include <vector>

#include "crew.hpp"

namespace kbforge {

// How clusters that share keys are compared.
struct Blocking {
  std::int64_t most;    // clusters of a key; one with more leads nowhere, unless no other key does
  std::int32_t shared;  // keys in common, if any other cluster has that many
  std::int32_t top;     // others, those with most keys in common
};

// The keys of n units, and the cluster of each, which is one of its units.
struct Keyed {
  std::int64_t n;
  const std::int32_t* cluster;
  const std::int64_t *key_start, *keys;
};

class Blocks {
 public:
  Blocks(const Keyed& units, std::int64_t most, Crew& crew);

  // By cluster, the later ones that it is compared with; some of them more than once.
  std::vector<std::vector<std::int32_t>> near(const Blocking& blocking, Crew& crew) const;

 private:
  // A cluster with a key. Keys are told apart by forty bits, eight of them by the part that the holder
  // is in; two keys that share these are one.
  struct Holder {
    std::uint32_t key;
    std::int32_t cluster;
    bool operator<(const Holder& other) const {
      return key != other.key ? key < other.key : cluster < other.cluster;
    }
    bool operator==(const Holder& other) const {
      return key == other.key && cluster == other.cluster;
    }
  };
  // Another cluster, and how many keys it shares with the one at hand.
  struct Shared {
    std::int32_t keys, cluster;
    bool operator<(const Shared& other) const {
      return keys != other.keys ? keys > other.keys : cluster < other.cluster;
    }
  };
  static constexpr std::size_t kParts = 256;

  void deal_out(const Keyed& units, Crew& crew);
  void sort_parts(Crew& crew);
  void form_blocks(std::int64_t clusters, std::int64_t most);
  template <typename Task>
  void each_key(std::size_t part, const Task& task) const;
  void count(std::int32_t cluster, std::vector<std::int32_t>& keys,
             std::vector<Shared>& near) const;

  std::vector<Holder> holders_;                // by part
  std::vector<std::int64_t> begins_, ends_;    // of the parts
  // blocks of clusters that share a key, and by cluster the blocks that it is in
  std::vector<std::int64_t> block_start_, in_start_;
  std::vector<std::int32_t> block_, in_;
};

}  // namespace kbforge
