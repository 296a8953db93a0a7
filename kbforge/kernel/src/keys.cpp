#include "keys.hpp"

#include <algorithm>
#include <utility>

#include "numbers.hpp"

namespace kbforge {

namespace {
constexpr int kPairShift = 32;
}  // namespace

PlaceOf::PlaceOf(std::int64_t n, const std::int64_t* numbers) : numbers_(numbers) {
  std::size_t room = 64;
  while (room < 2 * static_cast<std::size_t>(n)) room *= 2;
  slots_.assign(room, -1);
  for (std::int64_t k = n; k-- > 0;) slots_[slot(numbers[k])] = k;
}

std::size_t PlaceOf::slot(std::int64_t number) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(number)) & mask;
  while (slots_[at] >= 0 && numbers_[slots_[at]] != number) at = (at + 1) & mask;
  return at;
}

void Keys::add(std::int64_t n, const std::int64_t* of_singles, const std::int64_t* more_singles,
               const std::int64_t* of_paired, const std::int64_t* more_paired) {
  for (std::int64_t k = 0; k < n; ++k) {
    singles.insert(singles.end(), more_singles + of_singles[k], more_singles + of_singles[k + 1]);
    paired.insert(paired.end(), more_paired + of_paired[k], more_paired + of_paired[k + 1]);
    single_start.push_back(static_cast<std::uint32_t>(singles.size()));
    paired_start.push_back(static_cast<std::uint32_t>(paired.size()));
  }
}

const std::vector<std::int64_t>& Composer::compose(const Stating& said, std::int64_t fragment) {
  out_.clear();
  ++stamp_;
  n_seen_ = 0;
  common_.clear();
  if (said.more) {
    for (std::int64_t k = said.more_start[fragment]; k < said.more_start[fragment + 1]; ++k) {
      put(said.more[k]);
    }
  }
  for (std::int64_t k = said.value_start[fragment]; k < said.value_start[fragment + 1]; ++k) {
    const std::int32_t value = said.values[k];
    for (std::uint32_t at = keys_.single_start[value]; at < keys_.single_start[value + 1]; ++at) {
      put(keys_.singles[at]);
    }
    for (std::uint32_t at = keys_.paired_start[value]; at < keys_.paired_start[value + 1]; ++at) {
      common_.push_back({k, keys_.paired[at]});
    }
  }
  for (std::size_t i = 0; i < common_.size() && out_.size() < keys_.most; ++i) {
    for (std::size_t j = i + 1; j < common_.size(); ++j) {
      if (common_[j].place == common_[i].place) continue;
      const std::int64_t low = std::min(common_[i].key, common_[j].key);
      const std::int64_t high = std::max(common_[i].key, common_[j].key);
      put(((low + 1) << kPairShift) | high);
    }
  }
  if (out_.size() > keys_.most) out_.resize(keys_.most);
  return out_;
}

// Add a key, unless the fragment has it.
void Composer::put(std::int64_t key) {
  if (2 * (n_seen_ + 1) > seen_.size()) {
    seen_.assign(2 * seen_.size(), Seen{});
    stamp_ = 1;
    n_seen_ = 0;
    const std::vector<std::int64_t> had(std::move(out_));
    out_.clear();
    for (std::int64_t one : had) put(one);
  }
  const std::size_t mask = seen_.size() - 1;
  std::size_t at = mixed(static_cast<std::uint64_t>(key)) & mask;
  while (seen_[at].stamp == stamp_) {
    if (seen_[at].key == key) return;
    at = (at + 1) & mask;
  }
  seen_[at].key = key;
  seen_[at].stamp = stamp_;
  ++n_seen_;
  out_.push_back(key);
}

}  // namespace kbforge
