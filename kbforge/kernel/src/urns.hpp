// The attribute likelihood: an urn an attribute and cluster.
//
// See kbforge_plugins/likelihoods/attributes/urn.py for the model. Equal multisets are one urn, which
// lives as long as a cluster holds it. L depends on the multiset alone: logs are added as whole
// numbers of a small unit.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "table.hpp"
#include "values.hpp"

namespace kbforge {

// An urn's place, and how many urns had it before, so that no two urns that ever were are confused.
using UrnId = std::uint64_t;
constexpr UrnId kNoUrn = 0;

class Urns {
 public:
  Urns(std::int32_t attribute, AttributeRules rules);

  Values values;

  double log_marginal(UrnId urn) const { return at(urn).log_marginal; }
  // L(urn + u) - L(urn), nats.
  double gain(UrnId urn, std::int32_t u);
  // The urn with one observation; held for good.
  UrnId single(std::int32_t u);
  // The urn with one more observation; it is held by one more.
  UrnId grown(UrnId urn, std::int32_t u);
  // L of both together less L of each, nats; the same whichever comes first.
  double merge_gain(UrnId urn, UrnId other);
  // The urn with the observations of both; it is held by one more.
  UrnId merged(UrnId urn, UrnId other);
  void hold(UrnId urn) { ++urns_[place_of(urn)].holders; }
  void let_go(UrnId urn);

 private:
  struct Item {
    std::int32_t value, count;
    std::int64_t sum;  // log of its term of L's sum, in units; kOut: it is not taken for the true one
  };
  struct Urn {
    UrnId id = kNoUrn;         // none: the place is free
    std::unique_ptr<Item[]> items;
    double log_marginal = 0.0;
    std::int64_t chance = 0;   // log of the term in which the true value is elsewhere, in units
    UrnId next = kNoUrn;       // of the same bucket
    std::int32_t n = 0, size = 0, holders = 0;
    std::uint32_t generation = 0;
  };
  struct Known {
    UrnId urn = kNoUrn, grown = kNoUrn;
    double gain = 0.0;
    std::int32_t u = -1;
    bool gained = false;
  };

  static std::uint32_t place_of(UrnId urn) { return static_cast<std::uint32_t>(urn) - 1; }
  const Urn& at(UrnId urn) const { return urns_[place_of(urn)]; }
  Known& known_of(UrnId urn, std::int32_t u);
  double work_out_gain(const Urn& urn, std::int32_t u);
  std::int64_t units(std::int32_t u, std::int32_t v, std::int32_t n);
  std::int64_t chance_units(std::int32_t u, std::int32_t n) const;
  std::int64_t units_of(const std::vector<Item>& items, std::int32_t v);
  double log_rising_of_all(std::int32_t n);
  double log_sum_exp(std::vector<double>& terms);
  void add_to(const Urn& urn, std::int32_t u, std::vector<Item>& items);
  void leave_most_seen(std::vector<Item>& items) const;
  bool comes_after(const Urn& urn, const Urn& other) const;
  void join(const Urn& urn, const Urn& other, std::vector<Item>& items) const;
  std::int64_t sum_of_both(const Urn& urn, const Urn& other, const std::vector<Item>& items,
                           std::int32_t v);
  UrnId interned(const std::vector<Item>& items, std::int64_t chance);
  std::uint64_t hash_of(const Item* items, std::size_t n) const;
  void rehash();

  std::vector<Urn> urns_;
  std::vector<std::uint32_t> free_;
  std::vector<UrnId> buckets_, singles_;
  std::size_t n_live_ = 0;
  std::vector<Known> known_;
  std::vector<double> log_rising_;
  std::vector<double> terms_, factors_;
  std::vector<Item> items_;
};

class AttributeTable : public Table {
 public:
  std::vector<std::unique_ptr<Urns>> attributes;

  bool knows(const Record& x) const override;
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override;
  Ahead ahead() const override { return n_parts() > 1 ? Ahead::kByPart : Ahead::kNever; }
  std::size_t n_parts() const override { return attributes.size(); }
  void log_predictive_part(std::size_t part, const Record& x, std::size_t place,
                           const std::vector<Slot>& slots, double* out) override;
  void log_predictive_unread(const Record& x, const std::vector<Slot>& slots,
                             double* out) override;
  double log_predictive_new(const Record& x) override;
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>& slots) override;
  // By attribute.
  void log_marginals(Slot slot, double* out) override;
  void log_merge_ratios(Slot slot, std::int64_t n, const std::int64_t* others,
                        double* out) override;
  void merge(Slot slot, Slot into) override;

 private:
  std::vector<UrnId> held_;  // by slot and attribute; none: no fragment states it
  std::vector<char> unread_;  // by slot: whether no fragment states anything that is read
  std::vector<double> terms_;
};

}  // namespace kbforge
