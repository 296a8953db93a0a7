#include "keys.hpp"

#include <algorithm>

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

void Keys::add(std::int64_t n, const std::int64_t* single_start, const std::int64_t* singles,
               const std::int64_t* paired_start, const std::int64_t* paired) {
  for (std::int64_t k = 0; k < n; ++k) {
    singles_.insert(singles_.end(), singles + single_start[k], singles + single_start[k + 1]);
    paired_.insert(paired_.end(), paired + paired_start[k], paired + paired_start[k + 1]);
    single_start_.push_back(static_cast<std::uint32_t>(singles_.size()));
    paired_start_.push_back(static_cast<std::uint32_t>(paired_.size()));
  }
}

void Keys::compose(const std::int64_t* values, std::size_t n, const std::int64_t* more,
                   std::size_t n_more, std::vector<std::int64_t>& out) {
  const std::size_t begin = out.size();
  ++stamp_;
  n_seen_ = 0;
  common_.clear();
  for (std::size_t k = 0; k < n_more; ++k) put(more[k], begin, out);
  for (std::size_t place = 0; place < n; ++place) {
    const std::int64_t value = values[place];
    for (std::uint32_t at = single_start_[value]; at < single_start_[value + 1]; ++at) {
      put(singles_[at], begin, out);
    }
    for (std::uint32_t at = paired_start_[value]; at < paired_start_[value + 1]; ++at) {
      common_.push_back(Common{place, paired_[at]});
    }
  }
  for (std::size_t i = 0; i < common_.size() && out.size() - begin < most_; ++i) {
    for (std::size_t j = i + 1; j < common_.size(); ++j) {
      if (common_[j].place == common_[i].place) continue;
      const std::int64_t low = std::min(common_[i].key, common_[j].key);
      const std::int64_t high = std::max(common_[i].key, common_[j].key);
      put(((low + 1) << kPairShift) | high, begin, out);
    }
  }
  if (out.size() - begin > most_) out.resize(begin + most_);
}

// Add a key, unless the fragment has it.
void Keys::put(std::int64_t key, std::size_t begin, std::vector<std::int64_t>& out) {
  if (2 * (n_seen_ + 1) > seen_.size()) {
    seen_.assign(2 * seen_.size(), Seen{});
    stamp_ = 1;
    n_seen_ = 0;
    const std::vector<std::int64_t> had(out.begin() + begin, out.end());
    out.resize(begin);
    for (std::int64_t one : had) put(one, begin, out);
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
  out.push_back(key);
}

}  // namespace kbforge
