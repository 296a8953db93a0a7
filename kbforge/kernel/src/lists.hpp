// Lists by number, one after another in one array.
#pragma once

#include <cstdint>
#include <numeric>
#include <vector>

namespace kbforge {

template <typename Item>
class Lists {
 public:
  Lists() = default;
  // `each` calls its argument with the list and the item, for all items; it runs twice.
  template <typename Each>
  Lists(std::size_t n, const Each& each) : start_(n + 1, 0) {
    each([this](std::size_t list, const Item&) { ++start_[list + 1]; });
    std::partial_sum(start_.begin(), start_.end(), start_.begin());
    items_.resize(start_.back());
    // where the next item of each goes is kept in place of where the list begins
    each([this](std::size_t list, const Item& item) { items_[start_[list]++] = item; });
    for (std::size_t list = n; list > 0; --list) start_[list] = start_[list - 1];
    start_[0] = 0;
  }

  Item* begin(std::size_t list) { return items_.data() + start_[list]; }
  Item* end(std::size_t list) { return items_.data() + start_[list + 1]; }
  const Item* begin(std::size_t list) const { return items_.data() + start_[list]; }
  const Item* end(std::size_t list) const { return items_.data() + start_[list + 1]; }
  std::size_t size(std::size_t list) const { return end(list) - begin(list); }

 private:
  std::vector<std::int64_t> start_;
  std::vector<Item> items_;
};

}  // namespace kbforge
