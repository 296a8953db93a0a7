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

const Tags& Constraints::TagsOf::at(std::int32_t number) const {
  static const Tags none;
  const auto n = static_cast<std::size_t>(number);
  return n < place_.size() && place_[n] ? held_[place_[n] - 1] : none;
}

Tags& Constraints::TagsOf::make(std::int32_t number) {
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

void Tags::add(const Tags& more) {
  unite(components, more.components);
  unite(values, more.values);
  unite(sets, more.sets);
}

namespace {

std::vector<std::int32_t> ascending(const std::int64_t* begin, const std::int64_t* end) {
  std::vector<std::int32_t> out(begin, end);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

Tags tags_at(std::int64_t k, const std::int64_t* component, const std::int64_t* value_start,
             const std::int64_t* values, const std::int64_t* set_start, const std::int64_t* sets) {
  Tags tags{{},
            ascending(values + value_start[k], values + value_start[k + 1]),
            ascending(sets + set_start[k], sets + set_start[k + 1])};
  if (component[k] != kNone) tags.components.push_back(static_cast<std::int32_t>(component[k]));
  return tags;
}

void Apart::put_components(std::int64_t n, const std::int64_t* start, const std::int64_t* apart) {
  components.clear();
  for (std::int64_t k = 0; k < n; ++k) {
    components.push_back(ascending(apart + start[k], apart + start[k + 1]));
  }
}

void Apart::put_sets(std::int64_t n, const std::int64_t* attribute, const std::int64_t* start,
                     const std::int64_t* values) {
  for (std::int64_t k = 0; k < n; ++k) {
    attributes.push_back(static_cast<std::int32_t>(attribute[k]));
    sets.push_back(ascending(values + start[k], values + start[k + 1]));
  }
}

bool Apart::bars(const Tags& one, const Tags& other) const {
  if (meet(one.values, other.values)) return true;
  for (std::int32_t component : one.components) {
    if (meet(components[component], other.components)) return true;
  }
  for (std::int32_t a : one.sets) {
    for (std::int32_t b : other.sets) {
      if (a != b && attributes[a] == attributes[b] && !meet(sets[a], sets[b])) return true;
    }
  }
  return false;
}

void Constraints::bind(std::int64_t components, const std::int64_t* apart_start,
                       const std::int64_t* others) {
  apart.put_components(components, apart_start, others);
  holders_.assign(components, {});
  of_fragment_.clear();
  of_slot_.clear();
}

void Constraints::tag(Number fragment, Tags&& tags) {
  for (std::int32_t component : tags.components) {
    fit(apart.components, static_cast<std::size_t>(component) + 1, {});
    fit(holders_, static_cast<std::size_t>(component) + 1, {});
  }
  of_fragment_.make(fragment) = std::move(tags);
}

// Whether a fragment with these tags must not be in the cluster.
bool Constraints::bars(const Tags& own, Slot slot) const {
  return apart.bars(own, of_slot_.at(slot));
}

Constraints::Bounds Constraints::bound(Number fragment, const std::vector<Slot>& looked_up) {
  const Tags& own = of_fragment_.at(fragment);
  const bool decided = !own.components.empty();
  if (own.empty()) return {&looked_up};
  const auto barred = [&](Slot slot) { return bars(own, slot); };
  if (decided && !holders_[own.components[0]].empty()) {
    const auto& mates = holders_[own.components[0]];
    slots_.clear();
    std::remove_copy_if(mates.begin(), mates.end(), std::back_inserter(slots_), barred);
    std::sort(slots_.begin(), slots_.end());
    return {&slots_, true};
  }
  slots_.clear();
  std::remove_copy_if(looked_up.begin(), looked_up.end(), std::back_inserter(slots_), barred);
  return {&slots_};
}

void Constraints::hold(Slot slot, Tags&& tags) {
  if (tags.empty()) return;
  for (std::int32_t component : tags.components) holders_[component].push_back(slot);
  of_slot_.make(slot) = std::move(tags);
}

void Constraints::follow(Number fragment, const std::vector<std::int64_t>& parents,
                         const std::vector<std::int64_t>& children,
                         const std::vector<std::int64_t>& dropped) {
  for (std::size_t k = 0; k < parents.size(); ++k) {
    Tags tags = of_fragment_.at(fragment);
    if (parents[k] >= 0) tags.add(of_slot_.at(static_cast<Slot>(parents[k])));
    hold(static_cast<Slot>(children[k]), std::move(tags));
  }
  for (std::int64_t slot : dropped) release(static_cast<Slot>(slot));
}

void Constraints::put(Slot slot, const std::vector<Number>& members) {
  Tags tags;
  for (Number fragment : members) tags.add(of_fragment_.at(fragment));
  hold(slot, std::move(tags));
}

void Constraints::release(Slot slot) {
  if (of_slot_.at(slot).empty()) return;
  Tags& gone = of_slot_.make(slot);
  for (std::int32_t component : gone.components) {
    auto& held = holders_[component];
    held.erase(std::remove(held.begin(), held.end(), slot), held.end());
  }
  gone = Tags{};
}

}  // namespace kbforge
