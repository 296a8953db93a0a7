#include "wave.hpp"

#include <algorithm>

namespace kbforge {

namespace {
constexpr std::int64_t kWave = 128;
constexpr std::int64_t kLongestPause = 4096;
constexpr std::size_t kAtOnce = 4;
}  // namespace

void Numbers::clear() {
  size_ = 0;
  ++stamp_;
}

std::size_t Numbers::place_of(std::int64_t number) const {
  const std::size_t mask = places_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(number)) & mask;
  while (places_[at].stamp == stamp_ && places_[at].number != number) at = (at + 1) & mask;
  return at;
}

void Numbers::add(std::int64_t number) {
  if (2 * (size_ + 1) > places_.size()) {
    std::vector<Place> old(places_.size() * 2);
    old.swap(places_);
    for (const Place& place : old) {
      if (place.stamp == stamp_) places_[place_of(place.number)] = place;
    }
  }
  Place& place = places_[place_of(number)];
  size_ += place.stamp != stamp_;
  place = Place{number, stamp_};
}

bool Numbers::has(std::int64_t number) const {
  return places_[place_of(number)].stamp == stamp_;
}

// Where most of what was found was lost, as in a file in the order of its entities, fragments are
// taken in one by one for a while, and for longer each time.
void Waves::look(std::int64_t first, const Batch& batch, const State& state, const Index& index,
                 Table& table) {
  first_ = first;
  if (2 * lost_ > n_looked_) {
    pause_ = std::min(kLongestPause, pause_ ? 2 * pause_ : kWave);
    end_ = std::min(batch.n, first + pause_);
    n_looked_ = lost_ = 0;
    return;
  }
  if (n_looked_) pause_ = 0;
  end_ = std::min(batch.n, first + kWave);
  n_looked_ = end_ - first;
  lost_ = 0;
  keys_.clear();
  families_.clear();
  if (looked_.size() < kWave) looked_.resize(kWave);
  crew_.share(n_looked_, kAtOnce, [&](std::size_t worker, std::size_t k) {
    const std::int64_t at = first + static_cast<std::int64_t>(k);
    const std::int64_t begin = batch.key_start[at];
    index.look_up(state, batch.keys + begin, batch.key_start[at + 1] - begin, tallies_[worker],
                  looked_[k].lookup);
  });
  compare(batch, table);
}

void Waves::compare(const Batch& batch, Table& table) {
  const bool by_part = table.ahead() == Ahead::kByPart;
  for (std::int64_t k = 0; k < n_looked_; ++k) {
    Looked& looked = looked_[k];
    const std::vector<Slot>& slots = looked.lookup.slots;
    const Record x = batch.record(first_ + k);
    looked.stated = by_part ? x.n + 1 : 1;
    looked.terms.resize(looked.stated * slots.size());
    if (by_part) table.log_predictive_unread(x, slots, looked.terms.data() + x.n * slots.size());
  }
  if (by_part) {
    crew_.share(table.n_parts(), 1,
                [&](std::size_t, std::size_t part) { compare_part(part, batch, table); });
    return;
  }
  table.set_workers(crew_.workers());
  crew_.share(n_looked_, kAtOnce, [&](std::size_t worker, std::size_t k) {
    Looked& looked = looked_[k];
    const Record x = batch.record(first_ + static_cast<std::int64_t>(k));
    table.log_predictive_by(worker, x, looked.lookup.slots, looked.terms.data());
  });
}

void Waves::compare_part(std::size_t part, const Batch& batch, Table& table) {
  for (std::int64_t k = 0; k < n_looked_; ++k) {
    const Record x = batch.record(first_ + k);
    const std::int32_t* end = x.attributes + x.n;
    const auto* at = std::lower_bound(x.attributes, end, static_cast<std::int32_t>(part));
    if (at == end || *at != static_cast<std::int32_t>(part)) continue;
    const auto place = static_cast<std::size_t>(at - x.attributes);
    Looked& looked = looked_[k];
    const std::vector<Slot>& slots = looked.lookup.slots;
    table.log_predictive_part(part, x, place, slots, looked.terms.data() + place * slots.size());
  }
}

const Lookup* Waves::found(std::int64_t k, std::vector<double>& predictive) {
  if (k - first_ >= n_looked_) return nullptr;
  const Looked& looked = looked_[k - first_];
  if (!holds(looked.lookup)) {
    ++lost_;
    return nullptr;
  }
  const std::size_t n = looked.lookup.slots.size();
  predictive.assign(n, 0.0);
  for (std::size_t i = 0; i < looked.stated; ++i) {
    for (std::size_t j = 0; j < n; ++j) predictive[j] += looked.terms[i * n + j];
  }
  return &looked.lookup;
}

bool Waves::holds(const Lookup& lookup) const {
  const auto same = [this](const std::vector<Number>& families) {
    return std::none_of(families.begin(), families.end(),
                        [this](Number family) { return families_.has(family); });
  };
  for (std::int64_t key : lookup.keys) {
    if (keys_.has(key)) return false;
  }
  for (const Lookup::Pruned& left : lookup.pruned) {
    if (!same(left.families)) return false;
  }
  return same(lookup.seen);
}

// Keys that were closed before stay as they are.
void Waves::note(const Lookup& lookup, const std::vector<Number>& disturbed) {
  for (std::int64_t key : lookup.open) keys_.add(key);
  for (std::int64_t key : lookup.closing) keys_.add(key);
  for (Number family : disturbed) families_.add(family);
}

}  // namespace kbforge
