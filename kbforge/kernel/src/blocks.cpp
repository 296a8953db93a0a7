#include "blocks.hpp"

#include <algorithm>
#include <utility>

#include "memory.hpp"
#include "numbers.hpp"

namespace kbforge {

namespace {

constexpr std::int64_t kUnitsAtOnce = 1 << 12, kClustersAtOnce = 1 << 11;

std::int64_t chunks_of(std::int64_t n, std::int64_t at_once) { return (n + at_once - 1) / at_once; }

}  // namespace

// Lay out who holds which key by parts of the keys, each in the order of the units.
void Postings::add(const Keyed& units, const Turn& turn, Crew& crew) {
  if (turn_ != turn.number) gather(crew);
  turn_ = turn.number;
  const std::int64_t chunks = chunks_of(units.n, kUnitsAtOnce);
  std::vector<std::int64_t> at(chunks * kParts, 0);
  const auto each = [&](std::size_t chunk, const auto& task) {
    const std::int64_t end = std::min<std::int64_t>(units.n, (chunk + 1) * kUnitsAtOnce);
    for (std::int64_t unit = chunk * kUnitsAtOnce; unit < end; ++unit) {
      for (std::int64_t k = units.key_start[unit]; k < units.key_start[unit + 1]; ++k) {
        const std::uint64_t key = mixed(static_cast<std::uint64_t>(units.keys[k]));
        const std::uint64_t part = key >> 56;
        if (part % turn.of != turn.number) continue;
        task(at[chunk * kParts + part], static_cast<std::uint32_t>(key >> 24), units.first + unit);
      }
    }
  };
  crew.share(chunks, 1, [&](std::size_t, std::size_t chunk) {
    each(chunk, [](std::int64_t& place, std::uint32_t, std::int64_t) { ++place; });
  });
  added_.emplace_back();
  Added& added = added_.back();
  added.begins.assign(kParts + 1, 0);
  for (std::size_t part = 0; part < kParts; ++part) {
    added.begins[part + 1] = added.begins[part];
    for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
      const std::int64_t here = at[chunk * kParts + part];
      at[chunk * kParts + part] = added.begins[part + 1];
      added.begins[part + 1] += here;
    }
  }
  added.holders.resize(added.begins[kParts]);
  crew.share(chunks, 1, [&](std::size_t, std::size_t chunk) {
    each(chunk, [&](std::int64_t& place, std::uint32_t key, std::int64_t unit) {
      added.holders[place++] = {key, static_cast<std::int32_t>(unit)};
    });
  });
  n_ = std::max(n_, units.first + units.n);
}

// Leave of each part the units of every key.
void Postings::gather(Crew& crew) {
  parts_.resize(kParts);
  crew.share(kParts, 1, [&](std::size_t, std::size_t part) {
    std::vector<Holder> holders;
    for (const Added& added : added_) {
      const auto from = added.holders.begin();
      holders.insert(holders.end(), from + added.begins[part], from + added.begins[part + 1]);
    }
    if (holders.empty()) return;
    std::sort(holders.begin(), holders.end());
    const auto each = [&](const auto& task) {
      for (auto begin = holders.begin(); begin != holders.end();) {
        auto end = begin;
        while (end != holders.end() && end->key == begin->key) ++end;
        if (end - begin > 1) task(begin, end);
        begin = end;
      }
    };
    std::size_t keys = 0, held = 0;
    each([&](auto begin, auto end) {
      ++keys;
      held += end - begin;
    });
    Part& out = parts_[part];
    out.sizes.reserve(keys);
    out.clusters.reserve(held);
    each([&](auto begin, auto end) {
      out.sizes.push_back(static_cast<std::uint32_t>(end - begin));
      for (; begin != end; ++begin) out.clusters.push_back(begin->unit);
    });
  });
  std::vector<Added>().swap(added_);
  give_back_memory();
}

void Postings::put_together(const std::vector<std::int32_t>& cluster, Crew& crew) {
  if (!added_.empty()) gather(crew);
  crew.share(parts_.size(), 1, [&](std::size_t, std::size_t number) {
    Part& part = parts_[number];
    auto begin = part.clusters.begin(), to = begin;
    std::size_t keys = 0;
    for (const std::uint32_t size : part.sizes) {
      const auto end = begin + size;
      std::transform(begin, end, begin, [&](std::int32_t one) { return cluster[one]; });
      std::sort(begin, end);
      const auto last = std::unique(begin, end);
      if (last - begin > 1) {
        part.sizes[keys++] = static_cast<std::uint32_t>(last - begin);
        to = std::move(begin, last, to);
      }
      begin = end;
    }
    part.sizes.resize(keys);
    part.clusters.erase(to, part.clusters.end());
  });
}

// Holders of a key that few have are a block. Of one that many have the first are, and only clusters
// that no other key leads anywhere look at it.
Blocks::Blocks(const Postings& postings, std::int64_t most) : n_(postings.units()) {
  std::vector<std::uint8_t> led(n_, 0);
  blocks_.reserve(postings.keys());
  sizes_.reserve(postings.keys());
  postings.each([&](const std::int32_t* begin, const std::int32_t* end) {
    blocks_.push_back(begin);
    sizes_.push_back(static_cast<std::uint32_t>(std::min<std::int64_t>(end - begin, most)));
    if (end - begin > most) return;
    for (auto one = begin; one != end; ++one) led[*one] = 1;
  });
  in_ = Lists<std::int32_t>(n_, [&](const auto& put) {
    std::int32_t block = 0;
    postings.each([&](const std::int32_t* begin, const std::int32_t* end) {
      const bool open = end - begin <= most;
      for (auto one = begin; one != end; ++one) {
        if (open || !led[*one]) put(*one, block);
      }
      ++block;
    });
  });
}

// Leave in `near` the clusters that share keys with one; `keys` is 0 for every cluster, and is again.
void Blocks::count(std::int32_t cluster, std::vector<std::int32_t>& keys,
                   std::vector<Shared>& near) const {
  near.clear();
  for (const std::int32_t* in = in_.begin(cluster); in != in_.end(cluster); ++in) {
    const std::int32_t* end = blocks_[*in] + sizes_[*in];
    for (const std::int32_t* one = blocks_[*in]; one != end; ++one) {
      if (!keys[*one]++) near.push_back({0, *one});
    }
  }
  for (Shared& one : near) {
    one.keys = one.cluster == cluster ? 0 : keys[one.cluster];
    keys[one.cluster] = 0;
  }
}

Lists<std::int32_t> Blocks::near(const Blocking& blocking, Crew& crew) const {
  const std::int64_t chunks = chunks_of(n_, kClustersAtOnce);
  std::vector<std::vector<std::int32_t>> found(chunks);  // how many of each cluster, and these
  std::vector<std::vector<std::int32_t>> keys(crew.workers());
  crew.share(chunks, 1, [&](std::size_t worker, std::size_t chunk) {
    keys[worker].resize(n_);
    std::vector<Shared> near;
    std::vector<std::int32_t> out;
    const std::int64_t end = std::min<std::int64_t>(n_, (chunk + 1) * kClustersAtOnce);
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
      out.push_back(static_cast<std::int32_t>(near.size()));
      for (const Shared& one : near) out.push_back(one.cluster);
    }
    found[chunk].assign(out.begin(), out.end());
  });
  return Lists<std::int32_t>(n_, [&](const auto& put) {
    std::int32_t x = 0;
    for (const auto& some : found) {
      for (auto at = some.begin(); at != some.end(); ++x) {
        for (const auto end = at + 1 + *at; ++at != end;) put(std::min(x, *at), std::max(x, *at));
      }
    }
  });
}

}  // namespace kbforge
