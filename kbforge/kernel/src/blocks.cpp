#include "blocks.hpp"

#include <algorithm>
#include <utility>

#include "memory.hpp"
#include "numbers.hpp"

namespace kbforge {

namespace {

constexpr std::int64_t kUnitsAtOnce = 1 << 12, kClustersAtOnce = 1 << 17;

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
    out.reserve(keys + held);
    each([&](auto begin, auto end) {
      out.push_back(static_cast<std::int32_t>(end - begin));
      for (; begin != end; ++begin) out.push_back(begin->unit);
    });
  });
  std::vector<Added>().swap(added_);
  give_back_memory();
}

void Postings::put_together(const std::vector<std::int32_t>& cluster, Crew& crew) {
  if (!added_.empty()) gather(crew);
  crew.share(parts_.size(), 1, [&](std::size_t, std::size_t number) {
    Part& part = parts_[number];
    auto to = part.begin();
    for (auto size = part.begin(); size != part.end();) {
      const auto begin = size + 1, end = begin + *size;
      std::transform(begin, end, begin, [&](std::int32_t one) { return cluster[one]; });
      std::sort(begin, end);
      const auto last = std::unique(begin, end);
      if (last - begin > 1) {
        *to++ = static_cast<std::int32_t>(last - begin);
        to = std::move(begin, last, to);
      }
      size = end;
    }
    part.erase(to, part.end());
    part.shrink_to_fit();
  });
}

// Holders of a key that few have are a block. Of one that many have the first are, and only clusters
// that no other key leads anywhere look at it.
Blocks::Blocks(const Postings& postings, std::int64_t most)
    : postings_(postings), most_(most), led_(postings.units(), 0) {
  postings.each([&](const std::int32_t* begin, const std::int32_t* end) {
    if (end - begin > most) return;
    for (auto one = begin; one != end; ++one) led_[*one] = 1;
  });
}

// By cluster, from `begin` up to `end`, where the blocks that it looks at lie.
Lists<const std::int32_t*> Blocks::looked_at(std::int32_t begin, std::int32_t end) const {
  return Lists<const std::int32_t*>(end - begin, [&](const auto& put) {
    postings_.each([&](const std::int32_t* first, const std::int32_t* last) {
      const bool open = last - first <= most_;
      for (auto one = std::lower_bound(first, last, begin); one != last && *one < end; ++one) {
        if (open || !led_[*one]) put(*one - begin, first);
      }
    });
  });
}

// Leave in `near` the clusters that share blocks with one; `keys` is 0 for every cluster, and is
// again.
void Blocks::count(const std::int32_t* const* block, const std::int32_t* const* end,
                   std::int32_t cluster, Counts& keys, std::vector<Shared>& near) const {
  near.clear();
  for (; block != end; ++block) {
    const std::int32_t* stop = *block + std::min<std::int64_t>((*block)[-1], most_);
    for (const std::int32_t* one = *block; one != stop; ++one) {
      if (!keys[*one]++) near.push_back({0, *one});
    }
  }
  for (Shared& one : near) {
    one.keys = one.cluster == cluster ? 0 : keys[one.cluster];
    keys[one.cluster] = 0;
  }
}

Lists<std::int32_t> Blocks::near(const Blocking& blocking, Crew& crew) const {
  const std::int64_t n = postings_.units();
  // the lists of those at once take memory, and each time all postings are read
  const std::int64_t at_once = std::min<std::int64_t>(kClustersAtOnce, n / (4 * crew.workers()) + 1);
  const std::int64_t chunks = chunks_of(n, at_once);
  std::vector<std::vector<std::int32_t>> found(chunks);  // how many of each cluster, and these
  std::vector<Counts> keys(crew.workers());
  crew.share(chunks, 1, [&](std::size_t worker, std::size_t chunk) {
    keys[worker].resize(n);
    std::vector<Shared> near;
    std::vector<std::int32_t> out;
    const auto first = static_cast<std::int32_t>(chunk * at_once);
    const auto last = static_cast<std::int32_t>(std::min<std::int64_t>(n, first + at_once));
    const Lists<const std::int32_t*> blocks = looked_at(first, last);
    for (std::int32_t x = first; x < last; ++x) {
      count(blocks.begin(x - first), blocks.end(x - first), x, keys[worker], near);
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
  return Lists<std::int32_t>(n, [&](const auto& put) {
    std::int32_t x = 0;
    for (const auto& some : found) {
      for (auto at = some.begin(); at != some.end(); ++x) {
        for (const auto end = at + 1 + *at; ++at != end;) put(std::min(x, *at), std::max(x, *at));
      }
    }
  });
}

}  // namespace kbforge
