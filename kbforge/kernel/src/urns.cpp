// The attribute likelihood: an urn an attribute and cluster.
//
// See kbforge_plugins/likelihoods/attributes/urn.py for the model. Equal multisets are one urn, which
// lives as long as a cluster holds it. L depends on the multiset alone: logs are added as whole
// numbers of a small unit.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "api.hpp"
#include "memory.hpp"
#include "table.hpp"
#include "values.hpp"

namespace kbforge {

// An urn's place, from 1. Together with how many urns had it before it is the urn's name, so that no
// two urns that ever were are confused.
using UrnId = std::uint32_t;
using UrnName = std::uint64_t;
constexpr UrnId kNoUrn = 0;

class Urns {
 public:
  explicit Urns(std::shared_ptr<Values> values);

  std::shared_ptr<Values> values;  // which tables of the same model share

  // What a thread needs to score urns while none changes.
  class Asked;

  // There will be so many threads that score urns at once.
  void set_workers(std::size_t workers);
  double log_marginal(UrnId urn) const { return at(urn).log_marginal; }
  // L(urn + u) - L(urn), nats.
  double gain(UrnId urn, std::int32_t u, std::size_t worker = 0) const;
  // The urn with one observation; held for good.
  UrnId single(std::int32_t u);
  // The urn with one more observation; it is held by one more.
  UrnId grown(UrnId urn, std::int32_t u);
  // L of both together less L of each, nats; the same whichever comes first.
  double merge_gain(UrnId urn, UrnId other, std::size_t worker = 0) const;
  // The urn with the observations of both; it is held by one more.
  UrnId merged(UrnId urn, UrnId other);
  void hold(UrnId urn) { ++urns_[urn - 1].holders; }
  void let_go(UrnId urn);

 private:
  struct Item {
    std::int32_t value, count;
    std::int64_t sum;  // log of its term of L's sum, in units; kOut: it is not taken for the true one
  };
  // Ascending by value. Most urns have one, which needs no memory of its own.
  class Items {
   public:
    Items() {}
    explicit Items(const std::vector<Item>& items) : n_(static_cast<std::int32_t>(items.size())) {
      if (n_ > 1) several_ = new Item[n_];
      std::copy(items.begin(), items.end(), n_ > 1 ? several_ : &one_);
    }
    Items(Items&& other) noexcept { swap(other); }
    Items& operator=(Items&& other) noexcept {
      swap(other);
      return *this;
    }
    ~Items() {
      if (n_ > 1) delete[] several_;
    }
    const Item* get() const { return n_ > 1 ? several_ : &one_; }
    std::int32_t size() const { return n_; }

   private:
    void swap(Items& other) {
      std::swap(n_, other.n_);
      std::swap(one_, other.one_);  // whichever it is
    }

    union {
      Item one_{};
      Item* several_;
    };
    std::int32_t n_ = 0;
  };
  struct Urn {
    Items items;  // none: the place is free
    double log_marginal = 0.0;
    std::int64_t chance = 0;  // log of the term in which the true value is elsewhere, in units
    UrnId next = kNoUrn;      // of the same bucket
    std::int32_t size = 0, holders = 0;
    std::uint32_t before = 0;  // urns that had the place
  };
  struct Known {
    UrnName urn = 0, grown = 0;
    double gain = 0.0;
    std::int32_t u = -1;
    bool gained = false;
  };

  // Two urns, and what their merge gains.
  struct Met {
    UrnName urn = 0, other = 0;
    double gain = 0.0;
  };

  const Urn& at(UrnId urn) const { return urns_[urn - 1]; }
  UrnName name(UrnId urn) const { return (static_cast<UrnName>(at(urn).before) << 32) | urn; }
  double work_out_gain(const Urn& urn, std::int32_t u, Asked& asked) const;
  std::int64_t units(std::int32_t u, std::int32_t v, std::int32_t n, Asked& asked) const;
  std::int64_t chance_units(std::int32_t u, std::int32_t n) const;
  std::int64_t units_of(const std::vector<Item>& items, std::int32_t v, Asked& asked) const;
  double log_rising_of_all(std::int32_t n) const;
  void fit_log_rising(std::int32_t n);
  static double log_sum_exp(std::vector<double>& terms);
  double log_marginal_of(const std::vector<Item>& items, std::int64_t chance, Asked& asked) const;
  std::int64_t add_to(const Urn& urn, std::int32_t u, Asked& asked) const;
  void leave_most_seen(std::vector<Item>& items) const;
  bool comes_after(const Urn& urn, const Urn& other) const;
  std::int64_t join(const Urn& urn, const Urn& other, Asked& asked) const;
  void lay_together(const Urn& urn, const Urn& other, std::vector<Item>& items) const;
  std::int64_t sum_of_both(const Urn& urn, const Urn& other, std::int32_t v, Asked& asked) const;
  UrnId interned(Asked& asked, std::int64_t chance);
  std::uint64_t hash_of(const Item* items, std::size_t n) const;
  void rehash();

  std::vector<Urn> urns_;
  std::vector<std::uint32_t> free_;
  std::vector<UrnId> buckets_, singles_;  // by hash; by value
  std::size_t n_live_ = 0, n_known_;
  std::int32_t largest_ = 0;  // observations of the largest urn so far
  std::vector<double> log_rising_;
  mutable std::vector<std::unique_ptr<Asked>> asked_;  // by thread
};

class Urns::Asked {
 public:
  Known& known_of(UrnName urn, std::int32_t u, std::size_t room) {
    if (known_.size() < room) known_.assign(room, Known{});
    const std::uint64_t key = mixed(urn) + static_cast<std::uint64_t>(u);
    Known& known = known_[mixed(key) & (known_.size() - 1)];
    if (known.urn != urn || known.u != u) {
      known = Known{};
      known.urn = urn;
      known.u = u;
    }
    return known;
  }

  Met& met_of(UrnName urn, UrnName other, std::size_t room) {
    if (met_.size() < room) met_.assign(room, Met{});
    return met_[mixed(mixed(urn) + other) & (met_.size() - 1)];
  }

  Draws draws;
  std::vector<double> terms, factors;
  std::vector<Item> items;

 private:
  std::vector<Known> known_;
  std::vector<Met> met_;
};

class AttributeTable : public Table {
 public:
  std::vector<std::unique_ptr<Urns>> attributes;

  bool knows(const Record& x) const override;
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override;
  double log_predictive_new(const Record& x) override;
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>& slots) override;
  // By attribute.
  void log_marginals(Slot slot, double* out) override;
  void set_workers(std::size_t workers) override;
  void log_merge_ratios(std::size_t worker, Slot slot, std::int64_t n,
                        const std::int64_t* others, double* out) override;
  std::int64_t parts() const override { return static_cast<std::int64_t>(attributes.size()); }
  void log_merge_parts(std::size_t worker, Slot slot, Slot other, double* out) override;
  std::unique_ptr<Table> fresh() const override;
  void unite(Slot slot, Slot other, Slot both) override;

 private:
  void make_slot(std::int64_t slot);

  std::vector<UrnId> held_;  // by slot and attribute; none: no fragment states it
  std::vector<char> unread_;  // by slot: whether no fragment states anything that is read
};

namespace {

constexpr double kUnits = 68719476736.0;  // 2^36 units of a log in one nat
constexpr std::int64_t kOut = std::numeric_limits<std::int64_t>::min();
constexpr std::size_t kMostValues = 48;
constexpr int kShort = 8;
constexpr std::size_t kFewKnown = 1 << 10, kMostKnown = 1 << 15;

// Stirling's series of log gamma(x) without log(2 pi) / 2, for x of at least 8 (to 1e-13).
double stirling(double x) {
  const double y = 1.0 / (x * x);
  double series = 691.0 / 360360.0;
  series = 1.0 / 1188.0 - y * series;
  series = 1.0 / 1680.0 - y * series;
  series = 1.0 / 1260.0 - y * series;
  series = 1.0 / 360.0 - y * series;
  series = 1.0 / 12.0 - y * series;
  return (x - 0.5) * libm.log(x) - x + series / x;
}

// log [a]_n = log a + ... + log(a + n - 1).
double log_rising(double a, std::int32_t n) {
  double product = a;
  const std::int32_t few = std::min<std::int32_t>(n, kShort);
  for (std::int32_t k = 1; k < few; ++k) product *= a + k;
  const double first = libm.log(product);
  if (n <= kShort) return first;
  return first + (stirling(a + n) - stirling(a + kShort));
}

std::int64_t in_units(double nats) { return static_cast<std::int64_t>(nats * kUnits); }

// The one of items, ascending by value, that has this value; null if there is none.
template <typename Item>
Item* item_of(Item* items, std::size_t n, std::int32_t value) {
  Item* found = std::lower_bound(
      items, items + n, value, [](const auto& item, std::int32_t v) { return item.value < v; });
  return found != items + n && found->value == value ? found : nullptr;
}

}  // namespace

Urns::Urns(std::shared_ptr<Values> shared)
    : values(std::move(shared)), buckets_(1 << 10, kNoUrn), n_known_(kFewKnown),
      log_rising_(1, 0.0) {
  set_workers(1);
}

void Urns::set_workers(std::size_t workers) {
  while (asked_.size() < workers) asked_.push_back(std::make_unique<Asked>());
}

std::int64_t Urns::units(std::int32_t u, std::int32_t v, std::int32_t n, Asked& asked) const {
  return n ? in_units(log_rising(values->draw(u, v, asked.draws), n)) : 0;
}

std::int64_t Urns::chance_units(std::int32_t u, std::int32_t n) const {
  return n ? in_units(log_rising(values->draw_elsewhere(u), n)) : 0;
}

std::int64_t Urns::units_of(const std::vector<Item>& items, std::int32_t v, Asked& asked) const {
  std::int64_t out = in_units(values->log_base(v));
  for (const Item& item : items) out += units(item.value, v, item.count, asked);
  return out;
}

double Urns::log_rising_of_all(std::int32_t n) const { return log_rising_[n]; }

// Have the logs for so many observations, and for twice as many as any urn has: no two urns together
// have more, and threads that score them must not wait for each other.
void Urns::fit_log_rising(std::int32_t n) {
  largest_ = std::max(largest_, n);
  while (log_rising_.size() <= 2 * static_cast<std::size_t>(largest_) + 1) {
    const auto k = static_cast<double>(log_rising_.size() - 1);
    log_rising_.push_back(log_rising_.back() + libm.log(values->concentration() + k));
  }
}

double Urns::log_sum_exp(std::vector<double>& terms) {
  const double top = *std::max_element(terms.begin(), terms.end());
  for (double& term : terms) term = libm.exp(term - top);
  return top + libm.log(exact_sum(terms.data(), terms.size()));
}

double Urns::gain(UrnId urn, std::int32_t u, std::size_t worker) const {
  Asked& asked = *asked_[worker];
  Known& known = asked.known_of(name(urn), u, n_known_);
  if (!known.gained) {
    known.gain = work_out_gain(at(urn), u, asked);
    known.gained = true;
  }
  return known.gain;
}

double Urns::work_out_gain(const Urn& urn, std::int32_t u, Asked& asked) const {
  const Item* items = urn.items.get();
  std::size_t n_true = 0;
  std::int32_t more = 0;
  bool is_true = false;
  for (std::int32_t k = 0; k < urn.items.size(); ++k) {
    n_true += items[k].sum != kOut;
    if (items[k].value == u) {
      more = items[k].count;
      is_true = items[k].sum != kOut;
    }
  }
  if (n_true == kMostValues && !is_true) {
    const std::int64_t chance = add_to(urn, u, asked);
    return log_marginal_of(asked.items, chance, asked) - urn.log_marginal;
  }
  std::vector<double>& terms = asked.terms;
  terms.clear();
  for (std::int32_t k = 0; k < urn.items.size(); ++k) {
    if (items[k].sum == kOut) continue;
    const double drawn = values->draw(u, items[k].value, asked.draws);
    terms.push_back(static_cast<double>(items[k].sum) / kUnits + libm.log(drawn + more));
  }
  terms.push_back(static_cast<double>(urn.chance) / kUnits +
                  libm.log(values->draw_elsewhere(u) + more));
  if (!more) {
    std::vector<double>& factors = asked.factors;
    factors.clear();
    factors.push_back(values->log_base(u));
    factors.push_back(libm.log(values->draw(u, u, asked.draws)));
    for (std::int32_t k = 0; k < urn.items.size(); ++k) {
      const double drawn = values->draw(items[k].value, u, asked.draws);
      factors.push_back(items[k].count == 1 ? libm.log(drawn)
                                            : log_rising(drawn, items[k].count));
    }
    terms.push_back(exact_sum(factors.data(), factors.size()));
  }
  return log_sum_exp(terms) - log_rising_of_all(urn.size + 1) - urn.log_marginal;
}

UrnId Urns::single(std::int32_t u) {
  if (static_cast<std::size_t>(u) >= singles_.size()) {
    make_room(singles_, values->size() - singles_.size());
    singles_.resize(values->size(), kNoUrn);
  }
  if (singles_[u] == kNoUrn) {
    Asked& asked = *asked_[0];
    asked.items.assign(1, Item{u, 1, 0});
    asked.items[0].sum = units_of(asked.items, u, asked);
    const UrnId made = interned(asked, chance_units(u, 1));
    singles_[u] = made;
  }
  return singles_[u];
}

UrnId Urns::grown(UrnId urn, std::int32_t u) {
  Asked& asked = *asked_[0];
  {
    const Known& known = asked.known_of(name(urn), u, n_known_);
    const auto grown = static_cast<UrnId>(known.grown);
    if (grown != kNoUrn && name(grown) == known.grown) {
      hold(grown);
      return grown;
    }
  }
  const std::int64_t chance = add_to(at(urn), u, asked);
  const UrnId made = interned(asked, chance);
  asked.known_of(name(urn), u, n_known_).grown = name(made);
  return made;
}

// Leave the items of the urn with one observation more, by value, in `asked`; returns their chance.
std::int64_t Urns::add_to(const Urn& urn, std::int32_t u, Asked& asked) const {
  std::vector<Item>& items = asked.items;
  items.assign(urn.items.get(), urn.items.get() + urn.items.size());
  const auto before = [](const Item& item, std::int32_t value) { return item.value < value; };
  auto at = std::lower_bound(items.begin(), items.end(), u, before);
  const bool seen = at != items.end() && at->value == u;
  const bool is_true = seen && at->sum != kOut;
  if (!seen) at = items.insert(at, Item{u, 0, kOut});
  const std::int32_t count = ++at->count;
  for (Item& item : items) {
    if (item.sum == kOut) continue;
    item.sum += units(u, item.value, count, asked) - units(u, item.value, count - 1, asked);
  }
  if (!is_true) {
    at->sum = units_of(items, u, asked);
    leave_most_seen(items);
  }
  return urn.chance + chance_units(u, count) - chance_units(u, count - 1);
}

// Of more values than may be the true one, the one seen least of them is left out.
void Urns::leave_most_seen(std::vector<Item>& items) const {
  std::size_t n_true = 0;
  Item* least = nullptr;
  for (Item& item : items) {
    if (item.sum == kOut) continue;
    ++n_true;
    if (!least || item.count < least->count ||
        (item.count == least->count && values->spelled_before(least->value, item.value))) {
      least = &item;
    }
  }
  if (n_true > kMostValues) least->sum = kOut;
}

double Urns::merge_gain(UrnId urn, UrnId other, std::size_t worker) const {
  // differences are taken in one order
  if (comes_after(at(urn), at(other))) std::swap(urn, other);
  if (at(other).size == 1) {
    return gain(urn, at(other).items.get()->value, worker) - log_marginal(other);
  }
  Asked& asked = *asked_[worker];
  const UrnName one = name(urn), second = name(other);
  Met& met = asked.met_of(one, second, n_known_);
  if (met.urn != one || met.other != second) {
    const std::int64_t chance = join(at(urn), at(other), asked);
    const double both = log_marginal_of(asked.items, chance, asked);
    met = {one, second, both - log_marginal(urn) - log_marginal(other)};
  }
  return met.gain;
}

// Whether an urn of one observation is compared with a larger one, or its values or counts are later.
bool Urns::comes_after(const Urn& urn, const Urn& other) const {
  if ((urn.size == 1) != (other.size == 1)) return urn.size == 1;
  const Item *a = urn.items.get(), *b = other.items.get();
  const auto less_value = [](const Item& x, const Item& y) { return x.value < y.value; };
  const Item *end_a = a + urn.items.size(), *end_b = b + other.items.size();
  if (std::lexicographical_compare(b, end_b, a, end_a, less_value)) return true;
  if (std::lexicographical_compare(a, end_a, b, end_b, less_value)) return false;
  const auto less_count = [](const Item& x, const Item& y) { return x.count < y.count; };
  return std::lexicographical_compare(b, end_b, a, end_a, less_count);
}

UrnId Urns::merged(UrnId urn, UrnId other) {
  if (at(other).size == 1) return grown(urn, at(other).items.get()->value);
  if (at(urn).size == 1) return grown(other, at(urn).items.get()->value);
  const std::int64_t chance = join(at(urn), at(other), *asked_[0]);
  return interned(*asked_[0], chance);
}

// Leave the items of both, by value, in `asked`; returns their chance.
std::int64_t Urns::join(const Urn& urn, const Urn& other, Asked& asked) const {
  std::vector<Item>& items = asked.items;
  lay_together(urn, other, items);
  for (Item& item : items) {
    if (item.sum != kOut) item.sum = sum_of_both(urn, other, item.value, asked);
  }
  std::int64_t chance = urn.chance;
  for (std::int32_t k = 0; k < other.items.size(); ++k) {
    const Item& of_other = other.items.get()[k];
    const std::int32_t after = item_of(items.data(), items.size(), of_other.value)->count;
    chance += chance_units(of_other.value, after) -
              chance_units(of_other.value, after - of_other.count);
  }
  return chance;
}

// The observations of both, by value; the sums of those that may be the true one are yet to come.
void Urns::lay_together(const Urn& urn, const Urn& other, std::vector<Item>& items) const {
  items.clear();
  const Item *a = urn.items.get(), *b = other.items.get();
  const Item *end_a = a + urn.items.size(), *end_b = b + other.items.size();
  while (a != end_a || b != end_b) {
    const bool of_a = a != end_a && (b == end_b || a->value <= b->value);
    const bool of_b = b != end_b && (a == end_a || b->value <= a->value);
    const std::int32_t count = (of_a ? a->count : 0) + (of_b ? b->count : 0);
    items.push_back(Item{of_a ? a->value : b->value, count, 0});
    a += of_a;
    b += of_b;
  }
  if (items.size() <= kMostValues) return;
  std::vector<Item> ranked = items;
  std::sort(ranked.begin(), ranked.end(), [this](const Item& x, const Item& y) {
    return x.count != y.count ? x.count > y.count : values->spelled_before(x.value, y.value);
  });
  for (std::size_t k = kMostValues; k < ranked.size(); ++k) {
    item_of(items.data(), items.size(), ranked[k].value)->sum = kOut;
  }
}

// The sum of a value of both, from that of one of them; the items of both are in `asked`.
std::int64_t Urns::sum_of_both(const Urn& urn, const Urn& other, std::int32_t v,
                               Asked& asked) const {
  std::vector<Item>& items = asked.items;
  const Item* known = item_of(urn.items.get(), urn.items.size(), v);
  const Urn* rest = &other;
  if (!known || known->sum == kOut) {
    known = item_of(other.items.get(), other.items.size(), v);
    rest = &urn;
  }
  if (!known || known->sum == kOut) return units_of(items, v, asked);
  std::int64_t sum = known->sum;
  for (std::int32_t k = 0; k < rest->items.size(); ++k) {
    const Item& more = rest->items.get()[k];
    const std::int32_t after = item_of(items.data(), items.size(), more.value)->count;
    sum += units(more.value, v, after, asked) - units(more.value, v, after - more.count, asked);
  }
  return sum;
}

double Urns::log_marginal_of(const std::vector<Item>& items, std::int64_t chance,
                             Asked& asked) const {
  std::int32_t size = 0;
  asked.terms.clear();
  for (const Item& item : items) {
    size += item.count;
    if (item.sum != kOut) asked.terms.push_back(static_cast<double>(item.sum) / kUnits);
  }
  asked.terms.push_back(static_cast<double>(chance) / kUnits);
  return log_sum_exp(asked.terms) - log_rising_of_all(size);
}

std::uint64_t Urns::hash_of(const Item* items, std::size_t n) const {
  std::uint64_t hash = n;
  for (std::size_t k = 0; k < n; ++k) {
    hash = mixed(hash ^ (static_cast<std::uint64_t>(items[k].value) << 32) ^
                 static_cast<std::uint32_t>(items[k].count));
  }
  return hash;
}

// The urn of the items in `asked`, held by one more.
UrnId Urns::interned(Asked& asked, std::int64_t chance) {
  const std::vector<Item>& items = asked.items;
  const std::size_t n = items.size();
  const std::uint64_t hash = hash_of(items.data(), n);
  const auto same = [](const Item& a, const Item& b) {
    return a.value == b.value && a.count == b.count;
  };
  for (UrnId id = buckets_[hash & (buckets_.size() - 1)]; id != kNoUrn; id = at(id).next) {
    const Urn& known = at(id);
    if (static_cast<std::size_t>(known.items.size()) == n &&
        std::equal(items.begin(), items.end(), known.items.get(), same)) {
      hold(id);
      return id;
    }
  }
  if (++n_live_ > buckets_.size()) rehash();
  if (free_.empty()) {
    make_room(urns_, 1);
    urns_.emplace_back();
    free_.push_back(static_cast<UrnId>(urns_.size()));
  }
  const UrnId made = free_.back();
  free_.pop_back();
  Urn& urn = urns_[made - 1];
  urn.items = Items(items);
  urn.chance = chance;
  urn.size = 0;
  for (const Item& item : items) urn.size += item.count;
  urn.holders = 1;
  fit_log_rising(urn.size);
  urn.log_marginal = log_marginal_of(items, chance, asked);
  UrnId& bucket = buckets_[hash & (buckets_.size() - 1)];
  urn.next = bucket;
  bucket = made;
  return made;
}

void Urns::let_go(UrnId id) {
  Urn& urn = urns_[id - 1];
  if (--urn.holders) return;
  const std::uint64_t hash = hash_of(urn.items.get(), urn.items.size());
  UrnId* link = &buckets_[hash & (buckets_.size() - 1)];
  while (*link != id) link = &urns_[*link - 1].next;
  *link = urn.next;
  urn.items = Items();
  ++urn.before;
  --n_live_;
  free_.push_back(id);
}

void Urns::rehash() {
  buckets_.assign(2 * buckets_.size(), kNoUrn);
  for (std::size_t place = 0; place < urns_.size(); ++place) {
    Urn& urn = urns_[place];
    if (!urn.items.size()) continue;
    const std::uint64_t hash = hash_of(urn.items.get(), urn.items.size());
    UrnId& bucket = buckets_[hash & (buckets_.size() - 1)];
    urn.next = bucket;
    bucket = static_cast<UrnId>(place + 1);
  }
  n_known_ = std::max(n_known_, std::min(kMostKnown, buckets_.size()));
}

bool AttributeTable::knows(const Record& x) const {
  for (std::size_t i = 0; i < x.n; ++i) {
    const auto a = static_cast<std::size_t>(x.attributes[i]);
    if (a >= attributes.size() || x.values[i] >= attributes[a]->values->size()) return false;
  }
  return true;
}

void AttributeTable::log_predictive(const Record& x, const std::vector<Slot>& slots,
                                    double* out) {
  const std::size_t width = attributes.size();
  std::fill(out, out + slots.size(), 0.0);
  for (std::size_t i = 0; i < x.n; ++i) {
    const std::int32_t value = x.values[i];
    Urns& urns = *attributes[x.attributes[i]];
    for (std::size_t k = 0; k < slots.size(); ++k) {
      const UrnId urn = held_[slots[k] * width + x.attributes[i]];
      out[k] += urn == kNoUrn ? urns.log_marginal(urns.single(value)) : urns.gain(urn, value);
    }
  }
  for (std::size_t k = 0; k < slots.size(); ++k) {
    if (!x.n || unread_[slots[k]]) out[k] += kUnread;
  }
}

double AttributeTable::log_predictive_new(const Record& x) {
  double total = 0.0;
  for (std::size_t i = 0; i < x.n; ++i) {
    Urns& urns = *attributes[x.attributes[i]];
    total += urns.log_marginal(urns.single(x.values[i]));
  }
  return total;
}

void AttributeTable::make_slot(std::int64_t slot) {
  const std::size_t n = slot + 1;
  if (held_.size() < n * attributes.size()) held_.resize(n * attributes.size(), kNoUrn);
  if (unread_.size() < n) unread_.resize(n);
}

void AttributeTable::extend(const Record& x, const std::vector<std::int64_t>& parents,
                            const std::vector<std::int64_t>& children) {
  const std::size_t width = attributes.size();
  for (std::size_t k = 0; k < children.size(); ++k) {
    const std::size_t begin = children[k] * width;
    make_slot(children[k]);
    unread_[children[k]] = !x.n && (parents[k] < 0 || unread_[parents[k]]);
    for (std::size_t a = 0; a < width; ++a) {
      held_[begin + a] = parents[k] < 0 ? kNoUrn : held_[parents[k] * width + a];
    }
    for (std::size_t i = 0; i < x.n; ++i) {
      const std::int32_t a = x.attributes[i];
      UrnId& urn = held_[begin + a];
      if (urn == kNoUrn) {
        urn = attributes[a]->single(x.values[i]);
        attributes[a]->hold(urn);
      } else {
        urn = attributes[a]->grown(urn, x.values[i]);
      }
    }
    // what the fragment does not state is the parent's
    std::size_t i = 0;
    for (std::size_t a = 0; a < width; ++a) {
      if (i < x.n && x.attributes[i] == static_cast<std::int32_t>(a)) {
        ++i;
      } else if (held_[begin + a] != kNoUrn) {
        attributes[a]->hold(held_[begin + a]);
      }
    }
  }
}

void AttributeTable::release(const std::vector<std::int64_t>& slots) {
  const std::size_t width = attributes.size();
  for (std::int64_t slot : slots) {
    for (std::size_t a = 0; a < width; ++a) {
      UrnId& urn = held_[slot * width + a];
      if (urn != kNoUrn) attributes[a]->let_go(urn);
      urn = kNoUrn;
    }
  }
}

void AttributeTable::log_marginals(Slot slot, double* out) {
  const std::size_t width = attributes.size();
  for (std::size_t a = 0; a < width; ++a) {
    const UrnId urn = held_[slot * width + a];
    out[a] = urn == kNoUrn ? std::numeric_limits<double>::quiet_NaN()
                           : attributes[a]->log_marginal(urn);
  }
}

void AttributeTable::set_workers(std::size_t workers) {
  for (auto& urns : attributes) urns->set_workers(workers);
}

std::unique_ptr<Table> AttributeTable::fresh() const {
  auto table = std::make_unique<AttributeTable>();
  for (std::size_t a = 0; a < attributes.size(); ++a) {
    table->attributes.push_back(std::make_unique<Urns>(attributes[a]->values));
  }
  return table;
}

void AttributeTable::log_merge_ratios(std::size_t worker, Slot slot, std::int64_t n,
                                      const std::int64_t* others, double* out) {
  const std::size_t width = attributes.size();
  for (std::int64_t k = 0; k < n; ++k) {
    if (unread_[slot] || unread_[others[k]]) {
      out[k] = kUnread;
      continue;
    }
    double total = 0.0;
    for (std::size_t a = 0; a < width; ++a) {
      const UrnId urn = held_[slot * width + a], other = held_[others[k] * width + a];
      if (urn != kNoUrn && other != kNoUrn) total += attributes[a]->merge_gain(urn, other, worker);
    }
    out[k] = total;
  }
}

void AttributeTable::log_merge_parts(std::size_t worker, Slot slot, Slot other, double* out) {
  const std::size_t width = attributes.size();
  for (std::size_t a = 0; a < width; ++a) {
    const UrnId one = held_[slot * width + a], more = held_[other * width + a];
    out[a] = one == kNoUrn || more == kNoUrn ? std::numeric_limits<double>::quiet_NaN()
                                             : attributes[a]->merge_gain(one, more, worker);
  }
}

void AttributeTable::unite(Slot slot, Slot other, Slot both) {
  const std::size_t width = attributes.size();
  make_slot(both);
  unread_[both] = unread_[slot] && (other == kNone || unread_[other]);
  for (std::size_t a = 0; a < width; ++a) {
    const UrnId one = held_[slot * width + a];
    const UrnId more = other == kNone ? kNoUrn : held_[other * width + a];
    UrnId made = one == kNoUrn ? more : one;
    if (one != kNoUrn && more != kNoUrn) {
      made = attributes[a]->merged(one, more);
    } else if (made != kNoUrn) {
      attributes[a]->hold(made);
    }
    if (both == other && more != kNoUrn) attributes[a]->let_go(more);
    held_[both * width + a] = made;
  }
}

}  // namespace kbforge

using kbforge::AttributeTable;
using kbforge::Table;

namespace {

std::vector<std::unique_ptr<kbforge::Urns>>& attributes_of(Table* table) {
  return static_cast<AttributeTable*>(table)->attributes;
}

}  // namespace

KB_API Table* kb_attributes_new(void) { return new AttributeTable(); }

KB_API void kb_attributes_begin(Table* table, double concentration, double discount,
                                std::int64_t n_weights, const double* weights, std::int32_t numeric,
                                std::int64_t alphabet, std::int64_t n_letters,
                                const std::uint32_t* letters) {
  kbforge::AttributeRules rules;
  rules.concentration = concentration;
  rules.discount = discount;
  rules.weights.assign(weights, weights + n_weights);
  rules.numeric = numeric != 0;
  rules.alphabet = alphabet;
  rules.letters.assign(letters, letters + n_letters);
  auto values = std::make_shared<kbforge::Values>(std::move(rules));
  attributes_of(table).push_back(std::make_unique<kbforge::Urns>(std::move(values)));
}

// The values of the attribute begun last are titles. Of each retention, how probable a word is kept,
// and one with a digit; of each word, the counted titles that have it, ascending; and the base
// probabilities of these.
KB_API void kb_attributes_titles(Table* table, std::int64_t n_retentions, const double* retentions,
                                 std::int64_t n_words, const std::int64_t* starts,
                                 const std::int32_t* holders, std::int64_t n, const double* bases) {
  kbforge::TitleRules rules{};
  rules.retentions.assign(retentions, retentions + 2 * n_retentions);
  rules.starts.assign(starts, starts + n_words + 1);
  rules.holders.assign(holders, holders + starts[n_words]);
  rules.bases.assign(bases, bases + n);
  attributes_of(table).back()->values->begin_titles(std::move(rules));
}

// More values of an attribute, numbered from `first`, which is how many there are; 0: it is not, and
// nothing was done. Of each: base probability, whether it was counted, characters, and
// features by name and number, with the base probability of all values that have each; of a title its
// words, with whether each has a digit in place of its name.
KB_API std::int32_t kb_attributes_values(Table* table, std::int32_t attribute, std::int64_t first,
                                         std::int64_t n, const double* base, const std::uint8_t* counted,
                                         const std::int64_t* char_start, const std::uint32_t* chars,
                                         const std::int64_t* feature_start, const std::int32_t* names,
                                         const std::int32_t* features, const double* masses) {
  kbforge::Values& values = *attributes_of(table)[attribute]->values;
  if (values.size() != first) return 0;
  values.add(n, base, counted, char_start, chars, feature_start, names, features, masses);
  return 1;
}

// c G(u | v), for tests and for explanations.
KB_API double kb_attributes_draw(Table* table, std::int32_t attribute, std::int32_t u,
                                 std::int32_t v) {
  kbforge::Draws draws;
  return attributes_of(table)[attribute]->values->draw(u, v, draws);
}

// G(u | v) of n pairs of values of an attribute that has all weight on one component.
KB_API void kb_attributes_component(Table* table, std::int32_t attribute, std::int64_t n,
                                    const std::int32_t* pairs, double* out) {
  const kbforge::Values& values = *attributes_of(table)[attribute]->values;
  kbforge::Draws draws;
  for (std::int64_t k = 0; k < n; ++k) {
    out[k] = values.component(pairs[2 * k], pairs[2 * k + 1], draws);
  }
}

// L({u, v}) - L({u}) - L({v}) of two values of an attribute, nats.
KB_API double kb_attributes_evidence(Table* table, std::int32_t attribute, std::int32_t u,
                                     std::int32_t v) {
  kbforge::Urns& urns = *attributes_of(table)[attribute];
  return urns.gain(urns.single(u), v) - urns.log_marginal(urns.single(v));
}
