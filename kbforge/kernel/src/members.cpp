#include "members.hpp"

#include <algorithm>
#include <utility>

namespace kbforge {

namespace {

constexpr std::size_t kRoom = 1 << 12;  // more nodes than a step makes

}  // namespace

std::int32_t Members::grow(std::int32_t before, Number newest) {
  nodes_.push_back(Node{before, newest});
  return static_cast<std::int32_t>(nodes_.size()) - 1;
}

bool Members::has_parts(std::int32_t list) const {
  while (list != kNone && !folded(list)) list = before(list);
  return list != kNone;
}

void Members::read(std::int32_t list, std::vector<Number>& out) const {
  out.clear();
  for (; list != kNone && !folded(list); list = before(list)) out.push_back(newest(list));
  std::reverse(out.begin(), out.end());
  if (list == kNone) return;
  for (const std::int32_t* part = parts_begin(list); part != parts_end(list); ++part) {
    out.insert(out.end(), fragments_.begin() + part_start_[*part],
               fragments_.begin() + part_start_[*part + 1]);
  }
  std::sort(out.begin(), out.end());
}

Folding::Folding(Members& members, Number n_fragments)
    : old_(members),
      n_fragments_(n_fragments),
      group_of_(n_fragments + members.n_parts(), kNone),
      moved_(members.n_nodes(), kNone) {}

void Folding::keep(std::vector<std::int32_t>& lists) {
  for (std::int32_t& list : lists) {
    found_.clear();
    std::int32_t at = list;
    for (; at != kNone && moved_[at] == kNone; at = old_.before(at)) found_.push_back(at);
    std::int32_t made = at == kNone ? kNone : moved_[at];
    for (auto node = found_.rbegin(); node != found_.rend(); ++node) {
      made = moved_[*node] = made_.grow(made, old_.newest(*node));
    }
    list = made;
  }
}

void Folding::fold(std::vector<std::int32_t>& lists) {
  groups_.assign(1, Group{});
  found_.clear();
  const auto n = static_cast<std::int32_t>(lists.size());
  for (std::int32_t place = 0; place < n; ++place) divide(lists[place], place);
  make_parts();
  for (std::int32_t place = 0; place < n; ++place) lists[place] = named(lists[place], n + place);
}

// A list's fragments and parts.
template <typename Visit>
void Folding::units(std::int32_t list, Visit visit) const {
  for (; list != kNone && !old_.folded(list); list = old_.before(list)) visit(old_.newest(list));
  if (list == kNone) return;
  for (const std::int32_t* part = old_.parts_begin(list); part != old_.parts_end(list); ++part) {
    visit(n_fragments_ + *part);
  }
}

void Folding::divide(std::int32_t list, std::int32_t place) {
  units(list, [&](std::int32_t unit) {
    std::int32_t& group = group_of_[unit];
    if (group == kNone) {
      found_.push_back(unit);
      group = 0;
    }
    if (groups_[group].list != place) {
      groups_[group].list = place;
      groups_[group].divided_into = static_cast<std::int32_t>(groups_.size());
      groups_.emplace_back();
    }
    group = groups_[group].divided_into;
  });
}

void Folding::make_parts() {
  const auto size_of = [&](std::int32_t unit) -> std::uint32_t {
    if (unit < n_fragments_) return 1;
    const std::int32_t part = unit - n_fragments_;
    return old_.part_start_[part + 1] - old_.part_start_[part];
  };
  for (std::int32_t unit : found_) groups_[group_of_[unit]].size += size_of(unit);
  std::vector<std::uint32_t>& start = made_.part_start_;
  std::vector<Number>& fragments = made_.fragments_;
  const auto first = static_cast<std::int32_t>(made_.n_parts());
  for (Group& group : groups_) {
    if (!group.size) continue;
    group.part = static_cast<std::int32_t>(made_.n_parts());
    start.push_back(start.back() + group.size);
  }
  fragments.resize(start.back());
  std::vector<std::uint32_t> next(start.begin() + first, start.end() - 1);
  for (std::int32_t unit : found_) {
    std::uint32_t& at = next[groups_[group_of_[unit]].part - first];
    if (unit < n_fragments_) {
      fragments[at] = unit;
    } else {
      const auto held = old_.fragments_.begin() + old_.part_start_[unit - n_fragments_];
      std::copy(held, held + size_of(unit), fragments.begin() + at);
    }
    at += size_of(unit);
  }
}

std::int32_t Folding::named(std::int32_t list, std::int32_t place) {
  units(list, [&](std::int32_t unit) {
    Group& group = groups_[group_of_[unit]];
    if (group.list == place) return;
    group.list = place;
    made_.parts_.push_back(group.part);
  });
  made_.list_start_.push_back(static_cast<std::uint32_t>(made_.parts_.size()));
  return made_.grow(static_cast<std::int32_t>(made_.list_start_.size()) - 2, kNone);
}

void Folding::finish() {
  // half as many nodes as all lists need now: so folding costs each new node a fixed time
  const std::size_t needed = made_.nodes_.size() + made_.fragments_.size() + made_.parts_.size();
  made_.most_nodes_ = std::max<std::size_t>(1 << 10, made_.nodes_.size() + needed / 2);
  made_.nodes_.reserve(made_.most_nodes_ + kRoom);
  std::swap(old_, made_);
}

}  // namespace kbforge
