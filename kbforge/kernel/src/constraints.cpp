#include "constraints.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kbforge {

bool meet(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  if (a.size() > b.size()) return meet(b, a);
  return std::any_of(a.begin(), a.end(), [&b](std::int32_t one) {
    return std::binary_search(b.begin(), b.end(), one);
  });
}

void unite(std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  if (b.empty()) return;
  std::vector<std::int32_t> both;
  both.reserve(a.size() + b.size());
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
  a.swap(both);
}

const Constraints::Tags& Constraints::TagsOf::at(std::int32_t number) const {
  static const Tags none;
  const auto n = static_cast<std::size_t>(number);
  return n < place_.size() && place_[n] ? held_[place_[n] - 1] : none;
}

Constraints::Tags& Constraints::TagsOf::make(std::int32_t number) {
  fit(place_, static_cast<std::size_t>(number) + 1, 0);
  if (!place_[number]) {
    held_.emplace_back();
    place_[number] = static_cast<std::int32_t>(held_.size());
  }
  return held_[place_[number] - 1];
}

void Constraints::TagsOf::clear() {
  place_.clear();
  held_.clear();
}

void Constraints::bind(std::int64_t components, const std::int64_t* apart_start,
                       const std::int64_t* apart) {
  apart_.assign(components, {});
  for (std::int64_t k = 0; k < components; ++k) {
    apart_[k].assign(apart + apart_start[k], apart + apart_start[k + 1]);
    std::sort(apart_[k].begin(), apart_[k].end());
  }
  holders_.assign(components, {});
  of_fragment_.clear();
  of_slot_.clear();
}

void Constraints::tag(Number fragment, std::int32_t component, const std::int64_t* values,
                      std::int64_t n) {
  Tags& tags = of_fragment_.make(fragment);
  tags.components.clear();
  if (component != kNone) tags.components.push_back(component);
  tags.values.assign(values, values + n);
  std::sort(tags.values.begin(), tags.values.end());
}

// Whether a fragment with these tags must not be in the cluster.
bool Constraints::bars(const Tags& own, Slot slot) const {
  const Tags& other = of_slot_.at(slot);
  if (meet(own.values, other.values)) return true;
  return !own.components.empty() && meet(apart_[own.components[0]], other.components);
}

Constraints::Bounds Constraints::bound(Number fragment, const std::vector<Slot>& looked_up) {
  const Tags& own = of_fragment_.at(fragment);
  const bool decided = !own.components.empty();
  if (!decided && own.values.empty()) return {&looked_up};
  const auto barred = [&](Slot slot) { return bars(own, slot); };
  if (decided && !holders_[own.components[0]].empty()) {
    const auto& mates = holders_[own.components[0]];
    slots_.clear();
    std::remove_copy_if(mates.begin(), mates.end(), std::back_inserter(slots_), barred);
    std::sort(slots_.begin(), slots_.end());
    return {&slots_, true};
  }
  if (own.values.empty() && apart_[own.components[0]].empty()) return {&looked_up};
  slots_.clear();
  std::remove_copy_if(looked_up.begin(), looked_up.end(), std::back_inserter(slots_), barred);
  return {&slots_};
}

void Constraints::add(Tags& tags, const Tags& more) const {
  unite(tags.components, more.components);
  unite(tags.values, more.values);
}

void Constraints::hold(Slot slot, Tags&& tags) {
  if (tags.components.empty() && tags.values.empty()) return;
  for (std::int32_t component : tags.components) holders_[component].push_back(slot);
  of_slot_.make(slot) = std::move(tags);
}

void Constraints::follow(Number fragment, const std::vector<std::int64_t>& parents,
                         const std::vector<std::int64_t>& children,
                         const std::vector<std::int64_t>& dropped) {
  for (std::size_t k = 0; k < parents.size(); ++k) {
    Tags tags = of_fragment_.at(fragment);
    if (parents[k] >= 0) add(tags, of_slot_.at(static_cast<Slot>(parents[k])));
    hold(static_cast<Slot>(children[k]), std::move(tags));
  }
  for (std::int64_t slot : dropped) release(static_cast<Slot>(slot));
}

void Constraints::put(Slot slot, const std::vector<Number>& members) {
  Tags tags;
  for (Number fragment : members) add(tags, of_fragment_.at(fragment));
  hold(slot, std::move(tags));
}

void Constraints::release(Slot slot) {
  if (of_slot_.at(slot).components.empty() && of_slot_.at(slot).values.empty()) return;
  Tags& gone = of_slot_.make(slot);
  for (std::int32_t component : gone.components) {
    auto& held = holders_[component];
    held.erase(std::remove(held.begin(), held.end(), slot), held.end());
  }
  gone = Tags{};
}

}  // namespace kbforge
