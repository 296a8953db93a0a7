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
  fit(of_fragment_, static_cast<std::size_t>(fragment) + 1, Tags{});
  Tags& tags = of_fragment_[fragment];
  tags.components.clear();
  if (component != kNone) tags.components.push_back(component);
  tags.values.assign(values, values + n);
  std::sort(tags.values.begin(), tags.values.end());
}

const Constraints::Tags& Constraints::tags_of(Number fragment) const {
  static const Tags none;
  return static_cast<std::size_t>(fragment) < of_fragment_.size() ? of_fragment_[fragment] : none;
}

// Whether a fragment with these tags must not be in the cluster.
bool Constraints::bars(const Tags& own, Slot slot) const {
  if (static_cast<std::size_t>(slot) >= of_slot_.size()) return false;
  const Tags& other = of_slot_[slot];
  if (meet(own.values, other.values)) return true;
  return !own.components.empty() && meet(apart_[own.components[0]], other.components);
}

Constraints::Bounds Constraints::bound(Number fragment, const std::vector<Slot>& looked_up) {
  const Tags& own = tags_of(fragment);
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
  fit(of_slot_, static_cast<std::size_t>(slot) + 1, Tags{});
  for (std::int32_t component : tags.components) holders_[component].push_back(slot);
  of_slot_[slot] = std::move(tags);
}

void Constraints::follow(Number fragment, const std::vector<std::int64_t>& parents,
                         const std::vector<std::int64_t>& children,
                         const std::vector<std::int64_t>& dropped) {
  for (std::size_t k = 0; k < parents.size(); ++k) {
    Tags tags = tags_of(fragment);
    const auto parent = static_cast<std::size_t>(parents[k]);
    if (parents[k] >= 0 && parent < of_slot_.size()) add(tags, of_slot_[parent]);
    hold(static_cast<Slot>(children[k]), std::move(tags));
  }
  for (std::int64_t slot : dropped) release(static_cast<Slot>(slot));
}

void Constraints::put(Slot slot, const std::vector<Number>& members) {
  Tags tags;
  for (Number fragment : members) add(tags, tags_of(fragment));
  hold(slot, std::move(tags));
}

void Constraints::release(Slot slot) {
  if (static_cast<std::size_t>(slot) >= of_slot_.size()) return;
  Tags& gone = of_slot_[slot];
  for (std::int32_t component : gone.components) {
    auto& held = holders_[component];
    held.erase(std::remove(held.begin(), held.end(), slot), held.end());
  }
  gone = Tags{};
}

}  // namespace kbforge
