// Dirichlet-multinomial likelihoods, of n-grams, values or numbers: counts of rows.
//
// See kbforge_lm/likelihoods/counts.py for the model. The log factors of a row are told, and
// lie on the grid: sums of them are exact in any order, whether over the rows of one cluster or,
// where many clusters are asked for, over the clusters of one row.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <vector>

#include "api.hpp"
#include "table.hpp"

namespace kbforge {

// The factors of row `row` for counts from `begin` on, `n` of them: nats, on the grid.
using MoreFactors = void (*)(std::int32_t row, std::int64_t begin, std::int64_t n, double* out);

class CountTable : public Table {
 public:
  explicit CountTable(MoreFactors more) : more_(more) {}

  std::int64_t n_rows() const { return static_cast<std::int64_t>(more_factors_.size()); }
  // Further rows, and the factors of counts 0 to width - 1 of each; shape [n, width], width > 1,
  // the same each time.
  void add_rows(std::int64_t n, std::int64_t width, const double* factors);

  // A record's attributes are rows, ascending, and its values how often it counts in each.
  bool knows(const Record& x) const override;
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override;
  double log_predictive_new(const Record& x) override;
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override;
  void release(const std::vector<std::int64_t>& slots) override;
  void set_workers(std::size_t workers) override { asked_.resize(workers); }
  void log_merge_ratios(std::size_t worker, Slot slot, std::int64_t n,
                        const std::int64_t* others, double* out) override;
  void unite(Slot slot, Slot other, Slot both) override;
  std::unique_ptr<Table> fresh() const override;

 private:
  struct Count {
    std::int32_t row, n;
  };
  // A cluster with a row, by its cell: its place among the clusters that there have been. A cell is
  // written once, so that nothing of a slot's former cluster comes back with the slot.
  struct Posting {
    std::uint32_t cell;
    std::int32_t n;
  };

  // F of a row at a count, nats.
  double factor(std::int32_t row, std::int64_t n) {
    return n < width_ ? few_[row * width_ + n] : more_factor(row, n);
  }
  double more_factor(std::int32_t row, std::int64_t n);
  // What a row that a cluster counts in n times adds if a fragment counts in it, too.
  double gain(std::int32_t row, std::int32_t n, std::int32_t more) {
    const double both = factor(row, std::int64_t{n} + more);
    return both - factor(row, n) - factor(row, more);
  }
  void ask_each(const Record& x, const std::vector<Slot>& slots, double* out);
  void ask_all(const Record& x, const std::vector<Slot>& slots, double* out);
  void post_all();
  void post(std::size_t slot);

  MoreFactors more_;
  std::int64_t width_ = 0;
  std::vector<double> few_;                       // factors of counts below `width_`, by row
  std::vector<std::vector<double>> more_factors_;  // those from there on, by row
  std::vector<std::vector<Count>> held_;      // by slot: the counts of its cluster, by row
  std::mutex mutex_;                              // of these
  // by thread and row: how often the fragment counts in it
  std::vector<std::vector<std::int32_t>> asked_{1};
  // where clusters are, from the first time on that many were asked for
  bool posted_ = false;
  std::vector<std::vector<Posting>> postings_;  // by row
  std::vector<std::uint32_t> cell_of_;          // by slot
  std::vector<double> gains_;                   // by cell
  std::vector<double> gain_of_;                 // by how often a cluster counts in the row at hand
  std::size_t n_live_ = 0;
};

namespace {
constexpr std::size_t kMany = 64;      // fewer clusters are walked one by one, in any case
constexpr std::size_t kShare = 4;      // and fewer than one in so many
constexpr std::size_t kSpare = 1024;   // cells beside twice those of live clusters
}  // namespace

void CountTable::add_rows(std::int64_t n, std::int64_t width, const double* factors) {
  width_ = width;
  few_.insert(few_.end(), factors, factors + n * width);
  more_factors_.resize(more_factors_.size() + n);
}

double CountTable::more_factor(std::int32_t row, std::int64_t n) {
  const std::lock_guard<std::mutex> lock(mutex_);
  auto& known = more_factors_[row];
  const auto begin = static_cast<std::int64_t>(known.size());
  const std::int64_t wanted = n - width_ + 1;
  if (begin < wanted) {
    const std::int64_t end = std::max(wanted, 2 * begin);
    known.resize(end);
    more_(row, width_ + begin, end - begin, known.data() + begin);
  }
  return known[n - width_];
}

bool CountTable::knows(const Record& x) const {
  return !x.n || x.attributes[x.n - 1] < n_rows();
}

// Only rows that the fragment shares with a cluster change what it is worth alone.
void CountTable::log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) {
  if (slots.size() > kMany && slots.size() > held_.size() / kShare) {
    ask_all(x, slots, out);
  } else {
    posted_ = false;
    ask_each(x, slots, out);
  }
}

void CountTable::ask_each(const Record& x, const std::vector<Slot>& slots, double* out) {
  std::vector<std::int32_t>& asked = asked_[0];
  asked.resize(n_rows());
  const double alone = log_predictive_new(x), unread = alone + kUnread;
  for (std::size_t k = 0; k < x.n; ++k) asked[x.attributes[k]] = x.values[k];
  for (std::size_t k = 0; k < slots.size(); ++k) {
    double sum = x.n && !held_[slots[k]].empty() ? alone : unread;
    for (const Count& held : held_[slots[k]]) {
      const std::int32_t more = asked[held.row];
      if (more) sum += gain(held.row, held.n, more);
    }
    out[k] = sum;
  }
  for (std::size_t k = 0; k < x.n; ++k) asked[x.attributes[k]] = 0;
}

void CountTable::ask_all(const Record& x, const std::vector<Slot>& slots, double* out) {
  if (!posted_ || gains_.size() > 2 * n_live_ + kSpare) post_all();
  postings_.resize(n_rows());
  const double alone = log_predictive_new(x), unread = alone + kUnread;
  std::fill(gains_.begin(), gains_.end(), x.n ? alone : unread);
  gains_[0] = unread;  // of clusters that have no rows
  for (std::size_t k = 0; k < x.n; ++k) {
    const std::int32_t row = x.attributes[k], more = x.values[k];
    gain_of_.clear();
    for (const Posting& one : postings_[row]) {
      while (one.n >= static_cast<std::int32_t>(gain_of_.size())) {
        gain_of_.push_back(gain(row, static_cast<std::int32_t>(gain_of_.size()), more));
      }
      gains_[one.cell] += gain_of_[one.n];
    }
  }
  for (std::size_t k = 0; k < slots.size(); ++k) out[k] = gains_[cell_of_[slots[k]]];
}

void CountTable::post_all() {
  posted_ = true;
  for (auto& row : postings_) row.clear();
  postings_.resize(n_rows());
  gains_.assign(1, 0.0);  // of clusters that have no rows
  n_live_ = 0;
  for (std::size_t slot = 0; slot < held_.size(); ++slot) post(slot);
}

// From now on the cluster of a slot is found by its rows.
void CountTable::post(std::size_t slot) {
  cell_of_.resize(held_.size());
  cell_of_[slot] = 0;
  if (held_[slot].empty()) return;
  const auto cell = static_cast<std::uint32_t>(gains_.size());
  gains_.push_back(0.0);
  cell_of_[slot] = cell;
  for (const Count& held : held_[slot]) postings_[held.row].push_back(Posting{cell, held.n});
  ++n_live_;
}

double CountTable::log_predictive_new(const Record& x) {
  double sum = 0.0;
  for (std::size_t k = 0; k < x.n; ++k) sum += factor(x.attributes[k], x.values[k]);
  return sum;
}

void CountTable::extend(const Record& x, const std::vector<std::int64_t>& parents,
                        const std::vector<std::int64_t>& children) {
  const std::vector<Count> none;
  for (std::size_t k = 0; k < children.size(); ++k) {
    if (children[k] >= static_cast<std::int64_t>(held_.size())) held_.resize(children[k] + 1);
    const std::vector<Count>& parent = parents[k] < 0 ? none : held_[parents[k]];
    std::vector<Count> child;
    child.reserve(parent.size() + x.n);
    std::size_t at = 0;
    for (const Count& one : parent) {
      for (; at < x.n && x.attributes[at] < one.row; ++at) {
        child.push_back(Count{x.attributes[at], x.values[at]});
      }
      const bool shared = at < x.n && x.attributes[at] == one.row;
      child.push_back(Count{one.row, one.n + (shared ? x.values[at] : 0)});
      at += shared;
    }
    for (; at < x.n; ++at) child.push_back(Count{x.attributes[at], x.values[at]});
    child.shrink_to_fit();
    held_[children[k]] = std::move(child);
    if (posted_) {
      postings_.resize(n_rows());
      post(children[k]);
    }
  }
}

std::unique_ptr<Table> CountTable::fresh() const {
  auto table = std::make_unique<CountTable>(more_);
  table->add_rows(n_rows(), width_, few_.data());
  return table;
}

void CountTable::log_merge_ratios(std::size_t worker, Slot slot, std::int64_t n,
                                  const std::int64_t* others, double* out) {
  std::vector<std::int32_t>& asked = asked_[worker];
  asked.resize(n_rows());
  for (const Count& own : held_[slot]) asked[own.row] = own.n;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::vector<Count>& other = held_[others[k]];
    out[k] = held_[slot].empty() || other.empty() ? kUnread : 0.0;
    for (const Count& held : other) {
      if (asked[held.row]) out[k] += gain(held.row, held.n, asked[held.row]);
    }
  }
  for (const Count& own : held_[slot]) asked[own.row] = 0;
}

void CountTable::unite(Slot slot, Slot other, Slot both) {
  std::vector<std::int32_t> rows, counts;
  for (const Count& held : held_[slot]) {
    rows.push_back(held.row);
    counts.push_back(held.n);
  }
  n_live_ -= posted_ && both == other && !held_[both].empty();
  extend(Record{rows.data(), counts.data(), rows.size()}, {other}, {both});
}

void CountTable::release(const std::vector<std::int64_t>& slots) {
  for (std::int64_t slot : slots) {
    n_live_ -= posted_ && !held_[slot].empty();
    std::vector<Count>().swap(held_[slot]);
  }
}

}  // namespace kbforge

using kbforge::Table;

// Counts of rows; `more` gives factors of a row: its number, the first count, how many, where to.
KB_API Table* kb_counts_new(void (*more)(std::int32_t, std::int64_t, std::int64_t, double*)) {
  return new kbforge::CountTable(more);
}

// More rows, numbered from `first`, which is how many there are; 0: it is not, and nothing was
// done. The factors of each at counts 0 to width - 1, nats; shape [n, width].
KB_API std::int32_t kb_counts_rows(Table* table, std::int64_t first, std::int64_t n,
                                   std::int64_t width,
                                   const double* factors) {
  auto* counts = static_cast<kbforge::CountTable*>(table);
  if (counts->n_rows() != first) return 0;
  counts->add_rows(n, width, factors);
  return 1;
}
