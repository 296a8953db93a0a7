#include "blocks.hpp"

#include <algorithm>
#include <utility>

#include "numbers.hpp"

namespace kbforge {

namespace {

constexpr std::int64_t kUnitsAtOnce = 1 << 14, kClustersAtOnce = 1 << 11;

std::int64_t chunks_of(std::int64_t n, std::int64_t at_once) { return (n + at_once - 1) / at_once; }

}  // namespace

Blocks::Blocks(const Keyed& units, std::int64_t most, Crew& crew) {
  deal_out(units, crew);
  sort_parts(crew);
  form_blocks(units.n, most);
  std::vector<Holder>().swap(holders_);
}

// Lay out who holds which key by parts of the keys, each in the order of the units.
void Blocks::deal_out(const Keyed& units, Crew& crew) {
  const std::int64_t chunks = chunks_of(units.n, kUnitsAtOnce);
  std::vector<std::int64_t> at(chunks * kParts, 0);
  const auto each = [&](std::size_t chunk, const auto& task) {
    const std::int64_t end = std::min<std::int64_t>(units.n, (chunk + 1) * kUnitsAtOnce);
    for (std::int64_t unit = chunk * kUnitsAtOnce; unit < end; ++unit) {
      for (std::int64_t k = units.key_start[unit]; k < units.key_start[unit + 1]; ++k) {
        const std::uint64_t key = mixed(static_cast<std::uint64_t>(units.keys[k]));
        task(at[chunk * kParts + (key >> 56)], static_cast<std::uint32_t>(key >> 24), unit);
      }
    }
  };
  crew.share(chunks, 1, [&](std::size_t, std::size_t chunk) {
    each(chunk, [](std::int64_t& place, std::uint32_t, std::int64_t) { ++place; });
  });
  begins_.assign(kParts + 1, 0);
  for (std::size_t part = 0; part < kParts; ++part) {
    begins_[part + 1] = begins_[part];
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t here = at[chunk * kParts + part];
      at[chunk * kParts + part] = begins_[part + 1];
      begins_[part + 1] += here;
    }
  }
  holders_.resize(begins_[kParts]);
  crew.share(chunks, 1, [&](std::size_t, std::size_t chunk) {
    each(chunk, [&](std::int64_t& place, std::uint32_t key, std::int64_t unit) {
      holders_[place++] = {key, units.cluster[unit]};
    });
  });
}

void Blocks::sort_parts(Crew& crew) {
  ends_.resize(kParts);
  crew.share(kParts, 1, [&](std::size_t, std::size_t part) {
    const auto begin = holders_.begin() + begins_[part], end = holders_.begin() + begins_[part + 1];
    std::sort(begin, end);
    ends_[part] = std::unique(begin, end) - holders_.begin();
  });
}

// task(begin, end) of the holders of each key that several have.
template <typename Task>
void Blocks::each_key(std::size_t part, const Task& task) const {
  const Holder* const end = holders_.data() + ends_[part];
  for (const Holder* begin = holders_.data() + begins_[part]; begin != end;) {
    const Holder* last = begin;
    while (last != end && last->key == begin->key) ++last;
    if (last - begin > 1) task(begin, last);
    begin = last;
  }
}

// Holders of a key that few have are a block. Of one that many have the first are, and only clusters
// that no other key leads anywhere look at it.
void Blocks::form_blocks(std::int64_t clusters, std::int64_t most) {
  std::vector<std::uint8_t> led(clusters, 0);
  for (std::size_t part = 0; part < kParts; ++part) {
    each_key(part, [&](const Holder* begin, const Holder* end) {
      if (end - begin > most) return;
      for (auto one = begin; one != end; ++one) led[one->cluster] = 1;
    });
  }
  std::vector<std::pair<std::int32_t, std::int32_t>> looks;  // a cluster, and a block
  block_start_.assign(1, 0);
  in_start_.assign(clusters + 1, 0);
  for (std::size_t part = 0; part < kParts; ++part) {
    each_key(part, [&](const Holder* begin, const Holder* end) {
      const bool open = end - begin <= most;
      const std::size_t before = looks.size();
      const auto block = static_cast<std::int32_t>(block_start_.size() - 1);
      for (auto one = begin; one != end; ++one) {
        if (!open && led[one->cluster]) continue;
        looks.emplace_back(one->cluster, block);
        ++in_start_[one->cluster + 1];
      }
      if (looks.size() == before) return;
      for (auto one = begin; one != end && one - begin < most; ++one) {
        block_.push_back(one->cluster);
      }
      block_start_.push_back(static_cast<std::int64_t>(block_.size()));
    });
  }
  for (std::int64_t k = 0; k < clusters; ++k) in_start_[k + 1] += in_start_[k];
  in_.resize(looks.size());
  std::vector<std::int64_t> next(in_start_.begin(), in_start_.end() - 1);
  for (const auto& one : looks) in_[next[one.first]++] = one.second;
}

// Leave in `near` the clusters that share keys with one; `keys` is 0 for every cluster, and is again.
void Blocks::count(std::int32_t cluster, std::vector<std::int32_t>& keys,
                   std::vector<Shared>& near) const {
  near.clear();
  for (std::int64_t k = in_start_[cluster]; k < in_start_[cluster + 1]; ++k) {
    for (std::int64_t at = block_start_[in_[k]]; at < block_start_[in_[k] + 1]; ++at) {
      if (!keys[block_[at]]++) near.push_back({0, block_[at]});
    }
  }
  for (Shared& one : near) {
    one.keys = one.cluster == cluster ? 0 : keys[one.cluster];
    keys[one.cluster] = 0;
  }
}

std::vector<std::vector<std::int32_t>> Blocks::near(const Blocking& blocking, Crew& crew) const {
  const auto n = static_cast<std::int64_t>(in_start_.size()) - 1;
  const std::int64_t chunks = chunks_of(n, kClustersAtOnce);
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> found(chunks);
  std::vector<std::vector<std::int32_t>> keys(crew.workers());
  crew.share(chunks, 1, [&](std::size_t worker, std::size_t chunk) {
    keys[worker].resize(n);
    std::vector<Shared> near;
    const std::int64_t end = std::min<std::int64_t>(n, (chunk + 1) * kClustersAtOnce);
    for (auto x = static_cast<std::int32_t>(chunk * kClustersAtOnce); x < end; ++x) {
      count(x, keys[worker], near);
      std::int32_t most = 0;
      for (const Shared& one : near) most = std::max(most, one.keys);
      const std::int32_t least = std::max(1, std::min(blocking.shared, most));
      const auto few = [least](const Shared& one) { return one.keys < least; };
      near.erase(std::remove_if(near.begin(), near.end(), few), near.end());
      if (near.size() > static_cast<std::size_t>(blocking.top)) {
        std::nth_element(near.begin(), near.begin() + blocking.top, near.end());
        near.resize(blocking.top);
      }
      for (const Shared& one : near) {
        found[chunk].emplace_back(std::min(x, one.cluster), std::max(x, one.cluster));
      }
    }
  });
  std::vector<std::vector<std::int32_t>> out(n);
  for (auto& some : found) {
    for (const auto& pair : some) out[pair.first].push_back(pair.second);
    std::vector<std::pair<std::int32_t, std::int32_t>>().swap(some);
  }
  return out;
}

}  // namespace kbforge
