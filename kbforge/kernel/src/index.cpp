#include "index.hpp"

#include <algorithm>

namespace kbforge {

void Tallies::begin() {
  reached.clear();
  ++lookup_;
}

void Tallies::count(Number family) {
  Place& place = place_of(family);
  if (place.lookup == lookup_) {
    ++reached[place.at].keys;
    return;
  }
  place = Place{lookup_, static_cast<std::int32_t>(reached.size())};
  reached.push_back(Tally{family, 1});
  if (2 * reached.size() <= places_.size()) return;
  places_.assign(2 * places_.size(), Place{});
  for (std::size_t at = 0; at < reached.size(); ++at) {
    place_of(reached[at].family) = Place{lookup_, static_cast<std::int32_t>(at)};
  }
}

// The place that a family has taken, or may take.
Tallies::Place& Tallies::place_of(Number family) {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(family)) & mask;
  while (places_[at].lookup == lookup_ && reached[places_[at].at].family != family) {
    at = (at + 1) & mask;
  }
  return places_[at];
}

void Index::look_up(const State& state, const std::int64_t* keys, std::size_t n,
                    Tallies& tallies, Lookup& out) const {
  out.keys.assign(keys, keys + n);
  out.open.clear();
  out.closing.clear();
  out.pruned.clear();
  out.missing.clear();
  tallies.begin();
  for (std::int64_t key : out.keys) {
    const Entry* entry = find(key);
    if (entry && entry->closed) continue;
    if (entry && leads_too_far(state, key, *entry, out) && !entry->kept) {
      out.closing.push_back(key);
    } else {
      out.open.push_back(key);
    }
  }
  count(state, out.open, tallies);
  const bool closed_ones = tallies.reached.empty();
  if (closed_ones) count(state, out.keys, tallies);
  if (!closed_ones) keep_shared(tallies);
  keep_nearest(tallies);
  out.slots.clear();
  for (const Tallies::Tally& tally : tallies.reached) {
    if (state.is_elsewhere(tally.family)) out.missing.push_back(tally.family);
    for (Slot slot = state.family[tally.family]; slot != kNone; slot = state.clusters[slot].next) {
      out.slots.push_back(slot);
    }
  }
  std::sort(out.slots.begin(), out.slots.end());
}

bool Index::leads_too_far(const State& state, std::int64_t key, const Entry& entry,
                          Lookup& out) const {
  const auto most = static_cast<std::uint32_t>(rules_.most);
  if (entry.count <= most) return false;
  Lookup::Pruned left{key, {}};
  for (std::uint32_t at = 0; at < entry.count; ++at) {
    const Number family = pool_[entry.start + at];
    if (state.family[family] != kNone) {
      left.families.push_back(family);
    } else if (state.is_elsewhere(family)) {
      out.missing.push_back(family);
    }
  }
  std::uint32_t heavy = 0;
  if (left.families.size() > most) {
    for (Number family : left.families) heavy += state.family_in_heaviest(family);
  }
  out.pruned.push_back(std::move(left));
  return heavy > most;
}

// The families that keys lead to and that live, or may, elsewhere; each with how many do.
void Index::count(const State& state, const std::vector<std::int64_t>& keys,
                  Tallies& tallies) const {
  for (std::int64_t key : keys) {
    const Entry* entry = find(key);
    if (!entry) continue;
    for (std::uint32_t at = 0; at < entry->count; ++at) {
      const Number family = pool_[entry->start + at];
      if (state.family[family] != kNone || state.is_elsewhere(family)) tallies.count(family);
    }
  }
}

// If enough keys lead to some family, families that fewer lead to are left out.
void Index::keep_shared(Tallies& tallies) const {
  auto& reached = tallies.reached;
  const auto few = [&](const Tallies::Tally& tally) { return tally.keys < rules_.shared; };
  if (std::all_of(reached.begin(), reached.end(), few)) return;
  reached.erase(std::remove_if(reached.begin(), reached.end(), few), reached.end());
}

// At most so many families: those that most keys lead to, the earliest of equals.
void Index::keep_nearest(Tallies& tallies) const {
  auto& reached = tallies.reached;
  const auto most = static_cast<std::size_t>(rules_.compared);
  if (!most || reached.size() <= most) return;
  const auto nearer = [](const Tallies::Tally& a, const Tallies::Tally& b) {
    return a.keys != b.keys ? a.keys > b.keys : a.family < b.family;
  };
  std::nth_element(reached.begin(), reached.begin() + most, reached.end(), nearer);
  reached.resize(most);
}

void Index::extend(const Lookup& lookup, const std::vector<Number>& families) {
  for (const Lookup::Pruned& left : lookup.pruned) {
    Entry& entry = *find(left.key);
    assign(entry, left.families);
    note(entry);
  }
  for (std::int64_t key : lookup.closing) find(key)->closed = true;  // and so it was pruned
  for (std::int64_t key : lookup.open) {
    Entry& entry = made(key);
    for (Number family : families) {
      if (append(entry, family)) note(entry);
    }
  }
  if (lost_ > 4096 && lost_ > pool_.size() / 2) pack();
}

std::vector<Index::Led> Index::contents() const {
  std::vector<Led> out;
  for (const Entry& entry : entries_) {
    if (entry.used && entry.count) out.push_back(led(entry));
  }
  std::sort(out.begin(), out.end(), [](const Led& a, const Led& b) { return a.key < b.key; });
  return out;
}

std::vector<Index::Led> Index::contents(const std::int64_t* keys, std::size_t n) const {
  std::vector<Led> out;
  for (std::size_t k = 0; k < n; ++k) {
    const Entry* entry = find(keys[k]);
    out.push_back(entry ? led(*entry) : Led{keys[k], {}, false});
  }
  return out;
}

std::vector<Index::Led> Index::changed() {
  if (!notes_) {
    notes_ = true;
    return contents();
  }
  std::sort(noted_.begin(), noted_.end());
  std::vector<Led> out = contents(noted_.data(), noted_.size());
  for (std::int64_t key : noted_) find(key)->noted = false;
  noted_.clear();
  return out;
}

void Index::put(std::int64_t key, const std::vector<Number>& families, bool closed, bool counts) {
  Entry& entry = made(key);
  assign(entry, families);
  entry.closed = closed && !entry.kept;
  if (counts) note(entry);
}

void Index::keep_open(std::int64_t key) {
  Entry& entry = made(key);
  entry.kept = true;
  entry.closed = false;
}

std::vector<Number> Index::elsewhere(const State& state, const std::int64_t* keys,
                                     std::size_t n) const {
  std::vector<Number> out;
  for (std::size_t k = 0; k < n; ++k) {
    const Entry* entry = find(keys[k]);
    for (std::uint32_t at = 0; entry && at < entry->count; ++at) {
      const Number family = pool_[entry->start + at];
      if (state.is_elsewhere(family)) out.push_back(family);
    }
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

Index::Led Index::led(const Entry& entry) const {
  const auto begin = pool_.begin() + entry.start;
  return Led{entry.key, {begin, begin + entry.count}, entry.closed};
}

void Index::note(Entry& entry) {
  if (!notes_ || entry.noted) return;
  entry.noted = true;
  noted_.push_back(entry.key);
}

const Index::Entry* Index::find(std::int64_t key) const {
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(key)) & mask;
  while (entries_[at].used) {
    if (entries_[at].key == key) return &entries_[at];
    at = (at + 1) & mask;
  }
  return nullptr;
}

Index::Entry* Index::find(std::int64_t key) {
  return const_cast<Entry*>(static_cast<const Index*>(this)->find(key));
}

Index::Entry& Index::made(std::int64_t key) {
  if (Entry* known = find(key)) return *known;
  if (3 * (n_entries_ + 1) > 2 * entries_.size()) rehash();
  const std::size_t mask = entries_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(key)) & mask;
  while (entries_[at].used) at = (at + 1) & mask;
  ++n_entries_;
  entries_[at].used = true;
  entries_[at].key = key;
  return entries_[at];
}

void Index::rehash() {
  std::vector<Entry> old(entries_.size() * 2);
  old.swap(entries_);
  const std::size_t mask = entries_.size() - 1;
  for (const Entry& entry : old) {
    if (!entry.used) continue;
    std::size_t at = mixed(static_cast<std::uint64_t>(entry.key)) & mask;
    while (entries_[at].used) at = (at + 1) & mask;
    entries_[at] = entry;
  }
}

bool Index::append(Entry& entry, Number family) {
  const auto begin = pool_.begin() + entry.start;
  if (std::find(begin, begin + entry.count, family) != begin + entry.count) return false;
  if (entry.count == entry.room) {
    const auto start = static_cast<std::uint32_t>(pool_.size());
    lost_ += entry.room;
    entry.room = entry.room ? 2 * entry.room : 1;
    pool_.resize(pool_.size() + entry.room);
    std::copy_n(pool_.begin() + entry.start, entry.count, pool_.begin() + start);
    entry.start = start;
  }
  pool_[entry.start + entry.count++] = family;
  return true;
}

void Index::assign(Entry& entry, const std::vector<Number>& families) {
  if (families.size() > entry.room) {
    lost_ += entry.room;
    entry.start = static_cast<std::uint32_t>(pool_.size());
    entry.room = static_cast<std::uint32_t>(families.size());
    pool_.resize(pool_.size() + entry.room);
  }
  std::copy(families.begin(), families.end(), pool_.begin() + entry.start);
  entry.count = static_cast<std::uint32_t>(families.size());
}

void Index::pack() {
  std::vector<Number> packed;
  packed.reserve(pool_.size() - lost_);
  for (Entry& entry : entries_) {
    if (!entry.used) continue;
    const auto start = static_cast<std::uint32_t>(packed.size());
    packed.insert(packed.end(), pool_.begin() + entry.start,
                  pool_.begin() + entry.start + entry.room);
    entry.start = start;
  }
  pool_.swap(packed);
  lost_ = 0;
}

}  // namespace kbforge
