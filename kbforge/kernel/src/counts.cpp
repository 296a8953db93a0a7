#include "counts.hpp"

#include <algorithm>

namespace kbforge {

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
    log_predictive_by(0, x, slots, out);
  }
}

void CountTable::log_predictive_by(std::size_t worker, const Record& x,
                                   const std::vector<Slot>& slots, double* out) {
  std::vector<std::int32_t>& asked = asked_[worker];
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

void CountTable::log_merge_ratios(Slot slot, std::int64_t n, const std::int64_t* others,
                                  double* out) {
  std::vector<std::int32_t>& asked = asked_[0];
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

void CountTable::merge(Slot slot, Slot into) {
  std::vector<std::int32_t> rows, counts;
  for (const Count& held : held_[slot]) {
    rows.push_back(held.row);
    counts.push_back(held.n);
  }
  n_live_ -= posted_ && !held_[into].empty();
  extend(Record{rows.data(), counts.data(), rows.size()}, {into}, {into});
  release({slot});
}

void CountTable::release(const std::vector<std::int64_t>& slots) {
  for (std::int64_t slot : slots) {
    n_live_ -= posted_ && !held_[slot].empty();
    std::vector<Count>().swap(held_[slot]);
  }
}

}  // namespace kbforge
