// Constraints: which clusters a new fragment may join (kbforge/clustering/constraints.py).
//
// Fragments have tags: the component that they are in, their values of the linking attribute, and what
// they state of attributes that must not differ. A cluster has the tags of its fragments.
#pragma once

#include <cstdint>
#include <vector>

#include "state.hpp"

namespace kbforge {

// Whether two ascending lists share a number; and let the first one have those of the second, too.
bool meet(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b);
void unite(std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b);

// What a group of fragments has that may keep it apart from others.
struct Tags {
  std::vector<std::int32_t> components, values, sets;  // each ascending

  void add(const Tags& more);
  bool empty() const { return components.empty() && values.empty() && sets.empty(); }
};

// Of arrays by fragment, those of one: its component, or kNone, its values and its sets.
Tags tags_at(std::int64_t k, const std::int64_t* component, const std::int64_t* value_start,
             const std::int64_t* values, const std::int64_t* set_start, const std::int64_t* sets);

// What keeps groups of fragments apart.
struct Apart {
  std::vector<std::vector<std::int32_t>> components;  // by component, those apart from it, ascending
  std::vector<std::int32_t> attributes;               // by set of values, the attribute that has them
  std::vector<std::vector<std::int32_t>> sets;        // by set of values, ascending

  void put_components(std::int64_t n, const std::int64_t* start, const std::int64_t* apart);
  // Further sets of values.
  void put_sets(std::int64_t n, const std::int64_t* attribute, const std::int64_t* start,
                const std::int64_t* values);
  bool bars(const Tags& one, const Tags& other) const;
};

class Constraints {
 public:
  // What is apart from what.
  Apart apart;

  // The clusters that a fragment is compared with.
  struct Bounds {
    const std::vector<Slot>* slots;
    bool joins = false;  // whether it must join one of them
  };

  // The components that each component is apart from; no fragment and no cluster has a tag yet.
  void bind(std::int64_t components, const std::int64_t* apart_start, const std::int64_t* apart);
  // A fragment, which may be yet to come, has tags.
  void tag(Number fragment, Tags&& tags);

  // Of the clusters looked up, ascending, those that the fragment may join; or those that it must.
  // Valid until the next call.
  Bounds bound(Number fragment, const std::vector<Slot>& looked_up);

  // The clusters children[k] = parents[k] + fragment are there now, and others are no more.
  void follow(Number fragment, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children, const std::vector<std::int64_t>& dropped);
  // The cluster of a slot is there now, with these fragments; it is no more.
  void put(Slot slot, const std::vector<Number>& members);
  void release(Slot slot);

 private:
  // Tags by number, of the few that have any: a place for each number, and the tags there.
  class TagsOf {
   public:
    const Tags& at(std::int32_t number) const;
    Tags& make(std::int32_t number);
    void clear();

   private:
    std::vector<std::int32_t> place_;  // in `held_`, after 0, which is the place of none
    std::vector<Tags> held_;
  };

  bool bars(const Tags& own, Slot slot) const;
  void hold(Slot slot, Tags&& tags);

  std::vector<std::vector<Slot>> holders_;  // by component, the clusters with its fragments
  TagsOf of_fragment_, of_slot_;
  std::vector<Slot> slots_;
};

}  // namespace kbforge
