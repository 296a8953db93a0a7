#include "pairs.hpp"

#include <cmath>

namespace kbforge {

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

void PairTable::log_predictive_by(std::size_t worker, const Record& x,
                                  const std::vector<Slot>& slots, double* out) {
  const Row row = x.values[0];
  Asked& asked = near_[worker];
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

PairTable::Units PairTable::units_of(const Cluster& cluster) {
  parts_.resize(n_rows());
  for (const Count& held : cluster.counts) parts_[held.row].weight = weight(held.n);
  Units twice = 0, own = 0;
  for (const Count& held : cluster.counts) {
    const std::int64_t mine = weight(held.n);
    std::int64_t sum = apart_ * (cluster.weight - mine);
    ask(held.row, near_[0]);
    for (Row row : near_[0].noted()) {
      if (row != held.row) sum += near_[0].above(row) * parts_[row].weight;
    }
    twice += static_cast<Units>(mine) * sum;
    own += static_cast<Units>(held.n - 1) * (apart_ + near_[0].above(held.row)) * kOne * kOne;
    near_[0].forget();
  }
  for (const Count& held : cluster.counts) parts_[held.row] = Part{};
  return own + twice / 2;
}

void PairTable::log_marginals(Slot slot, double* out) {
  *out = static_cast<double>(units_of(clusters_[slot])) / scale_;
}

void PairTable::log_merge_ratios(Slot slot, std::int64_t n, const std::int64_t* others,
                                 double* out) {
  const Cluster& own = clusters_[slot];
  std::vector<Part> parts(n_rows());  // by row, of the own cluster
  for (const Count& held : own.counts) {
    const std::int64_t mine = weight(held.n);
    parts[held.row].weight = mine;
    ask(held.row, near_[0]);
    for (Row row : near_[0].noted()) parts[row].near += mine * near_[0].above(row);
    near_[0].forget();
  }
  for (std::int64_t k = 0; k < n; ++k) {
    const Cluster& other = clusters_[others[k]];
    Units units = static_cast<Units>(apart_) * own.weight * other.weight;
    bool shared = false;
    for (const Count& held : other.counts) {
      units += static_cast<Units>(weight(held.n)) * parts[held.row].near;
      shared |= parts[held.row].weight != 0;
    }
    if (shared) units = units_of(joined(own, other)) - units_of(own) - units_of(other);
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

void PairTable::merge(Slot slot, Slot into) {
  clusters_[into] = joined(clusters_[slot], clusters_[into]);
  clusters_[slot] = Cluster{};
}

}  // namespace kbforge
