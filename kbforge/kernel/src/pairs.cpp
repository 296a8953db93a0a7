// Clusters of the pair likelihood: how often each row was seen, and the sum over pairs of rows.
//
// See kbforge_plugins/likelihoods/pairs/likelihood.py for the model. All is added as whole numbers.
#include <cmath>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "api.hpp"
#include "table.hpp"

namespace kbforge {

using Row = std::int32_t;

// The candidate pairs of a file's rows and what each adds to `apart`, in units. The arrays are the
// caller's, and stay where they are. Pairs go by their first row, and by their second one.
struct Links {
  std::int64_t rows;
  const std::int64_t* start;         // [rows + 1] by row, where the pairs are whose first one it is
  const std::int32_t *second, *above;
  const std::int64_t* back_start;    // [rows + 1] by row, the pairs whose second one it is
  const std::int32_t *back, *back_first;
  const std::int32_t* own;           // [rows] of two fragments that state the same
};

class PairTable : public Table {
 public:
  // `apart`: log odds of rows that are no candidates; `units` of log odds are one nat.
  PairTable(const Links& links, std::int64_t apart, double units)
      : links_(links), apart_(apart), scale_(units * kOne * kOne) {}

  std::int64_t n_rows() const { return links_.rows + static_cast<std::int64_t>(met_.size()); }
  // Rows that the file does not have, numbered on: where each one's candidates begin, shape [n + 1],
  // rows up to itself, and what each adds.
  void add_rows(std::int64_t n, const std::int64_t* start, const std::int32_t* rows,
                const std::int32_t* above);

  // A record's value is a row.
  bool knows(const Record& x) const override { return x.values[0] < n_rows(); }
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override;
  double log_predictive_new(const Record&) override { return 0.0; }
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>& slots) override;
  void log_marginals(Slot slot, double* out) override;
  void set_workers(std::size_t workers) override { asked_.resize(workers); }
  void log_merge_ratios(std::size_t worker, Slot slot, std::int64_t n,
                        const std::int64_t* others, double* out) override;
  void unite(Slot slot, Slot other, Slot both) override;
  std::unique_ptr<Table> fresh() const override;

 private:
  static constexpr std::int64_t kOne = 256;  // the weight of a row that was seen once
  struct Count {
    Row row;
    std::int32_t n;
  };
  struct Cluster {
    std::vector<Count> counts;
    std::int64_t weight = 0;
  };
  struct Near {
    Row row;
    std::int32_t above;
  };

  // By row, what it adds, for candidates of the row at hand, and which these are.
  class Asked {
   public:
    void note(Row row, std::int32_t above);
    void forget();
    const std::vector<Row>& noted() const { return noted_; }
    bool has(Row row) const { return places_[row].near; }
    std::int64_t above(Row row) const { return places_[row].above; }
    void resize(std::size_t rows) { places_.resize(rows); }

   private:
    struct Place {
      std::int32_t above = 0;
      bool near = false;
    };
    std::vector<Place> places_;
    std::vector<Row> noted_;
  };

  // What a row is to a cluster: its weight there, and what its candidates there add.
  struct Part {
    std::int64_t weight = 0, near = 0;
  };
  // Sums of log odds times two weights.
  __extension__ typedef __int128 Units;

  static std::int64_t weight(std::int64_t n);
  static Cluster joined(const Cluster& one, const Cluster& other);
  // What a thread needs: of the row at hand, and, by row, of the cluster at hand.
  struct Desk {
    Asked near;
    std::vector<Part> parts;
    std::vector<Row> touched;  // rows of `parts` that are not as at first
  };

  Units units_of(const Cluster& cluster, Desk& desk) const;
  void ask(Row x, Asked& asked) const;
  void lay_out(const Cluster& cluster, Desk& desk) const;
  static void clear(Desk& desk);

  Links links_;
  std::int64_t apart_;
  double scale_;
  std::vector<std::vector<Near>> met_;                  // by row that the file does not have
  std::unordered_map<Row, std::vector<Near>> later_;    // by row of the file: of those, its candidates
  std::vector<Cluster> clusters_;                       // by slot
  std::vector<Desk> asked_{1};                          // by thread
};

// floor(256 sqrt(n)).
std::int64_t PairTable::weight(std::int64_t n) {
  const std::int64_t square = n * kOne * kOne;
  auto root = static_cast<std::int64_t>(std::sqrt(static_cast<double>(square)));
  while (root * root > square) --root;
  while ((root + 1) * (root + 1) <= square) ++root;
  return root;
}

void PairTable::add_rows(std::int64_t n, const std::int64_t* start, const std::int32_t* rows,
                         const std::int32_t* above) {
  for (std::int64_t k = 0; k < n; ++k) {
    const auto row = static_cast<Row>(n_rows());
    met_.emplace_back();
    for (std::int64_t at = start[k]; at < start[k + 1]; ++at) {
      met_.back().push_back(Near{rows[at], above[at]});
      if (rows[at] == row) continue;
      const Near back{row, above[at]};
      if (rows[at] < links_.rows) {
        later_[rows[at]].push_back(back);
      } else {
        met_[rows[at] - links_.rows].push_back(back);
      }
    }
  }
}

// What the candidates of x add, by row.
void PairTable::ask(Row x, Asked& asked) const {
  asked.resize(n_rows());
  if (x >= links_.rows) {
    for (const Near& one : met_[x - links_.rows]) asked.note(one.row, one.above);
    return;
  }
  for (std::int64_t at = links_.start[x]; at < links_.start[x + 1]; ++at) {
    asked.note(links_.second[at], links_.above[at]);
  }
  for (std::int64_t at = links_.back_start[x]; at < links_.back_start[x + 1]; ++at) {
    asked.note(links_.back_first[at], links_.above[links_.back[at]]);
  }
  asked.note(x, links_.own[x]);
  const auto later = later_.find(x);
  if (later == later_.end()) return;
  for (const Near& one : later->second) asked.note(one.row, one.above);
}

void PairTable::Asked::note(Row row, std::int32_t above) {
  places_[row] = Place{above, true};
  noted_.push_back(row);
}

void PairTable::Asked::forget() {
  for (Row row : noted_) places_[row] = Place{};
  noted_.clear();
}

void PairTable::log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) {
  const Row row = x.values[0];
  Asked& asked = asked_[0].near;
  ask(row, asked);
  for (std::size_t k = 0; k < slots.size(); ++k) {
    const Cluster& cluster = clusters_[slots[k]];
    std::int64_t here = 0, sum = 0;
    for (const Count& held : cluster.counts) {
      if (held.row == row) {
        here = held.n;
      } else if (asked.has(held.row)) {
        sum += asked.above(held.row) * weight(held.n);
      }
    }
    sum += apart_ * (cluster.weight - weight(here));
    std::int64_t units = (weight(here + 1) - weight(here)) * sum;
    if (here) units += (apart_ + asked.above(row)) * kOne * kOne;
    out[k] = static_cast<double>(units) / scale_;
  }
  asked.forget();
}

void PairTable::extend(const Record& x, const std::vector<std::int64_t>& parents,
                       const std::vector<std::int64_t>& children) {
  const Row row = x.values[0];
  for (std::size_t k = 0; k < children.size(); ++k) {
    if (children[k] >= static_cast<std::int64_t>(clusters_.size())) {
      clusters_.resize(children[k] + 1);
    }
    Cluster child;
    if (parents[k] >= 0) {
      child.counts.reserve(clusters_[parents[k]].counts.size() + 1);
      child = clusters_[parents[k]];
    }
    std::size_t at = 0;
    while (at < child.counts.size() && child.counts[at].row != row) ++at;
    if (at == child.counts.size()) child.counts.push_back(Count{row, 0});
    const std::int64_t before = child.counts[at].n++;
    child.weight += weight(before + 1) - weight(before);
    clusters_[children[k]] = std::move(child);
  }
}

void PairTable::release(const std::vector<std::int64_t>& slots) {
  for (std::int64_t slot : slots) clusters_[slot] = Cluster{};
}

// By row: its weight in the cluster, and what its candidates there add.
void PairTable::lay_out(const Cluster& cluster, Desk& desk) const {
  desk.parts.resize(n_rows());
  for (const Count& held : cluster.counts) {
    const std::int64_t mine = weight(held.n);
    desk.parts[held.row].weight = mine;
    desk.touched.push_back(held.row);
    ask(held.row, desk.near);
    for (Row row : desk.near.noted()) {
      desk.parts[row].near += mine * desk.near.above(row);
      desk.touched.push_back(row);
    }
    desk.near.forget();
  }
}

void PairTable::clear(Desk& desk) {
  for (Row row : desk.touched) desk.parts[row] = Part{};
  desk.touched.clear();
}

PairTable::Units PairTable::units_of(const Cluster& cluster, Desk& desk) const {
  lay_out(cluster, desk);
  Units twice = 0, own = 0;
  for (const Count& held : cluster.counts) {
    const std::int64_t mine = weight(held.n);
    ask(held.row, desk.near);
    const std::int64_t alike = desk.near.above(held.row);
    desk.near.forget();
    const std::int64_t others = desk.parts[held.row].near - mine * alike;
    twice += static_cast<Units>(mine) * (apart_ * (cluster.weight - mine) + others);
    own += static_cast<Units>(held.n - 1) * (apart_ + alike) * kOne * kOne;
  }
  clear(desk);
  return own + twice / 2;
}

void PairTable::log_marginals(Slot slot, double* out) {
  *out = static_cast<double>(units_of(clusters_[slot], asked_[0])) / scale_;
}

std::unique_ptr<Table> PairTable::fresh() const {
  auto table = std::make_unique<PairTable>(links_, apart_, scale_ / (kOne * kOne));
  table->met_ = met_;
  table->later_ = later_;
  return table;
}

void PairTable::log_merge_ratios(std::size_t worker, Slot slot, std::int64_t n,
                                 const std::int64_t* others, double* out) {
  Desk& desk = asked_[worker];
  const Cluster& own = clusters_[slot];
  std::vector<std::int64_t> shared;
  lay_out(own, desk);
  for (std::int64_t k = 0; k < n; ++k) {
    const Cluster& other = clusters_[others[k]];
    Units units = static_cast<Units>(apart_) * own.weight * other.weight;
    bool meets = false;
    for (const Count& held : other.counts) {
      units += static_cast<Units>(weight(held.n)) * desk.parts[held.row].near;
      meets |= desk.parts[held.row].weight != 0;
    }
    if (meets) shared.push_back(k);
    out[k] = static_cast<double>(units) / scale_;
  }
  clear(desk);
  for (std::int64_t k : shared) {
    const Cluster& other = clusters_[others[k]];
    const Units units = units_of(joined(own, other), desk) - units_of(own, desk) -
                        units_of(other, desk);
    out[k] = static_cast<double>(units) / scale_;
  }
}

PairTable::Cluster PairTable::joined(const Cluster& one, const Cluster& other) {
  Cluster both = other;
  std::unordered_map<Row, std::size_t> place;
  for (const Count& held : both.counts) place.emplace(held.row, place.size());
  for (const Count& held : one.counts) {
    const auto found = place.find(held.row);
    if (found == place.end()) {
      both.counts.push_back(held);
      both.weight += weight(held.n);
    } else {
      std::int32_t& count = both.counts[found->second].n;
      both.weight += weight(std::int64_t{count} + held.n) - weight(count);
      count += held.n;
    }
  }
  return both;
}

void PairTable::unite(Slot slot, Slot other, Slot both) {
  if (both >= static_cast<Slot>(clusters_.size())) clusters_.resize(both + 1);
  clusters_[both] = other == kNone ? Cluster(clusters_[slot])
                                   : joined(clusters_[slot], clusters_[other]);
}

}  // namespace kbforge

using kbforge::Table;

// Pairs of rows; the arrays of links stay where they are as long as the table lives.
KB_API Table* kb_pairs_new(std::int64_t rows, const std::int64_t* start, const std::int32_t* second,
                           const std::int32_t* above, const std::int64_t* back_start,
                           const std::int32_t* back, const std::int32_t* back_first,
                           const std::int32_t* own, std::int64_t apart, double units) {
  const kbforge::Links links{rows, start, second, above, back_start, back, back_first, own};
  return new kbforge::PairTable(links, apart, units);
}

// More rows, numbered from `first`, which is how many there are; 0: it is not, and nothing was
// done. Where each one's candidates begin, shape [n + 1]; rows up to itself; what each adds.
KB_API std::int32_t kb_pairs_rows(Table* table, std::int64_t first, std::int64_t n,
                                  const std::int64_t* start, const std::int32_t* rows,
                                  const std::int32_t* above) {
  auto* pairs = static_cast<kbforge::PairTable*>(table);
  if (pairs->n_rows() != first) return 0;
  pairs->add_rows(n, start, rows, above);
  return 1;
}
