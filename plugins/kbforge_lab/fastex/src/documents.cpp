#include "documents.hpp"

#include <algorithm>
#include <map>

#include "numbers.hpp"

namespace kbforge {

namespace {

constexpr std::int64_t kTabulated = 1024;  // counts below this are looked up
constexpr std::int32_t kNone = -1;
// plugins/kbforge_lab/fastex/families.py has these, too
constexpr std::size_t kRemembered = 64, kRarest = 32;

std::size_t place_of(std::int32_t row, std::size_t size) {
  return static_cast<std::size_t>(static_cast<std::uint32_t>(row) * 2654435769u) & (size - 1);
}

}  // namespace

std::int32_t Documents::Cluster::at(std::int32_t row) const {
  if (table.empty()) return 0;
  for (std::size_t at = place_of(row, table.size());; at = (at + 1) & (table.size() - 1)) {
    if (table[at].row == row) return table[at].count;
    if (table[at].row == kNone) return 0;
  }
}

void Documents::Cluster::count(std::int32_t row, std::int32_t more) {
  if (2 * (used + 1) > table.size()) grow();
  for (std::size_t at = place_of(row, table.size());; at = (at + 1) & (table.size() - 1)) {
    if (table[at].row == kNone) {
      table[at] = Entry{row, 0};
      ++used;
    }
    if (table[at].row == row) {
      table[at].count += more;
      return;
    }
  }
}

void Documents::Cluster::grow() {
  std::size_t held = 0;
  for (const Entry& entry : table) held += entry.count > 0;
  std::size_t size = 16;
  while (size < 4 * (held + 1)) size *= 2;
  std::vector<Entry> old(size, Entry{kNone, 0});
  old.swap(table);
  used = 0;
  for (const Entry& entry : old) {
    if (entry.count > 0) count(entry.row, entry.count);
  }
}

Documents::Documents(Statistics told, const SparseCounts& data)
    : Family(told), half_(data.half, data.half + told.n_lengths), tangent_(data.tangent), unit_(data.unit) {
  std::vector<bool> is_word(data.n_rows);
  std::map<double, std::uint32_t> known;
  for (std::size_t row = 0; row < data.n_rows; ++row) {
    const double a = data.pseudo_counts[row];
    is_word[row] = data.signs[row] > 0.0;
    if (!is_word[row]) {
      totals_a_.push_back(a);
      kind_of_.push_back(0);
      continue;
    }
    const auto [found, is_new] = known.emplace(a, static_cast<std::uint32_t>(kinds_.size()));
    if (is_new) {
      Kind kind{a, {}, {}, {}};
      for (std::int64_t n = 0; n < kTabulated; ++n) {
        kind.theta.push_back(theta(kind, n));
        kind.log_plus.push_back(libm.log(n + a));
        kind.log_rising.push_back(log_gamma(n + a));
      }
      kinds_.push_back(std::move(kind));
    }
    kind_of_.push_back(found->second);
  }
  fragments_with_.resize(data.n_rows);
  first_clusters_.resize(data.n_rows);
  word_start_.push_back(0);
  for (std::size_t fragment = 0; fragment < told.n; ++fragment) {
    for (std::int64_t at = data.starts[fragment]; at < data.starts[fragment + 1]; ++at) {
      if (!is_word[data.rows[at]]) continue;
      words_.push_back(Entry{data.rows[at], data.counts[at]});
      ++fragments_with_[data.rows[at]];
    }
    word_start_.push_back(words_.size());
  }
}

double Documents::theta(const Kind& kind, std::int64_t n) const {
  if (n < static_cast<std::int64_t>(kind.theta.size())) return kind.theta[n];
  if (tangent_) return digamma(kind.a + n) - digamma(kind.a);
  return libm.log((kind.a + n) / kind.a);
}

// lgamma(n + more + a) - lgamma(n + a)
double Documents::rise(const Kind& kind, std::int64_t n, std::int64_t more) const {
  if (n + more < kTabulated) {
    return more == 1 ? kind.log_plus[n] : kind.log_rising[n + more] - kind.log_rising[n];
  }
  return log_gamma(n + more + kind.a) - log_gamma(n + kind.a);
}

void Documents::add(std::size_t fragment, std::size_t slot) {
  const std::size_t n_lengths = told.n_lengths;
  if (slot >= clusters_.size()) {
    clusters_.resize(slot + 1);
    totals_.resize((slot + 1) * n_lengths);
  }
  for (std::size_t h = 0; h < n_lengths; ++h) {
    totals_[slot * n_lengths + h] +=
        static_cast<std::int64_t>(told.lengths[fragment * n_lengths + h]);
  }
  for (std::size_t at = word_start_[fragment]; at < word_start_[fragment + 1]; ++at) {
    clusters_[slot].count(words_[at].row, words_[at].count);
  }
}

void Documents::remove(std::size_t fragment, std::size_t slot) {
  const std::size_t n_lengths = told.n_lengths;
  for (std::size_t h = 0; h < n_lengths; ++h) {
    totals_[slot * n_lengths + h] -=
        static_cast<std::int64_t>(told.lengths[fragment * n_lengths + h]);
  }
  for (std::size_t at = word_start_[fragment]; at < word_start_[fragment + 1]; ++at) {
    clusters_[slot].count(words_[at].row, -words_[at].count);
  }
}

double Documents::log_predictive(std::size_t fragment, std::size_t slot, bool held) const {
  const Cluster& cluster = clusters_[slot];
  double out = 0.0;
  for (std::size_t at = word_start_[fragment]; at < word_start_[fragment + 1]; ++at) {
    const Entry& x = words_[at];
    const std::int64_t n = cluster.at(x.row) - (held ? x.count : 0);
    out += rise(kinds_[kind_of_[x.row]], n, x.count);
  }
  const std::size_t n_lengths = told.n_lengths;
  for (std::size_t h = 0; h < n_lengths; ++h) {
    const double length = told.lengths[fragment * n_lengths + h];
    if (length == 0.0) continue;
    const double n = static_cast<double>(totals_[slot * n_lengths + h]) - (held ? length : 0.0);
    out -= log_gamma(n + length + totals_a_[h]) - log_gamma(n + totals_a_[h]);
  }
  return out;
}

void Documents::hash_fragment(std::size_t fragment, const Directions& directions,
                              std::uint64_t* hash) const {
  static thread_local std::vector<std::int32_t> sums;
  sums.assign(directions.bits, 0);
  for (std::size_t at = word_start_[fragment]; at < word_start_[fragment + 1]; ++at) {
    project(directions.of(words_[at].row), words_[at].count, directions.bits, sums.data());
  }
  pack(sums.data(), directions.bits, hash);
}

double Documents::hash_cluster(std::size_t slot, const Directions& directions,
                               std::uint64_t* hash, double* g) const {
  static thread_local std::vector<std::int32_t> sums;
  sums.assign(directions.bits, 0);
  double squares = 0.0;
  for (const Entry& entry : clusters_[slot].table) {
    if (entry.count <= 0) continue;
    const double coordinate = theta(kinds_[kind_of_[entry.row]], entry.count);
    squares += coordinate * coordinate;
    const std::int32_t times = static_cast<std::int32_t>(std::nearbyint(coordinate / unit_));
    project(directions.of(entry.row), times, directions.bits, sums.data());
  }
  pack(sums.data(), directions.bits, hash);
  for (std::size_t h = 0; h < told.n_lengths; ++h) {
    const double n = static_cast<double>(totals_[slot * told.n_lengths + h]) + totals_a_[h];
    g[h] = tangent_ ? digamma(n) : libm.log(n + half_[h]);
  }
  return std::sqrt(squares);
}

void Documents::remember(std::size_t fragment, std::int64_t slot) {
  for (std::size_t at = word_start_[fragment]; at < word_start_[fragment + 1]; ++at) {
    std::vector<std::int32_t>& first = first_clusters_[words_[at].row];
    if (first.size() == kRemembered) continue;
    if (std::find(first.begin(), first.end(), slot) == first.end()) {
      first.push_back(static_cast<std::int32_t>(slot));
    }
  }
}

// Those with which it shares most of its rarest words; the first of equals.
bool Documents::recall(std::size_t fragment, std::size_t most, std::vector<std::int64_t>& out) {
  rarest_.assign(words_.begin() + word_start_[fragment], words_.begin() + word_start_[fragment + 1]);
  std::sort(rarest_.begin(), rarest_.end(), [this](const Entry& one, const Entry& other) {
    const std::int32_t a = fragments_with_[one.row], b = fragments_with_[other.row];
    return a < b || (a == b && one.row < other.row);
  });
  std::size_t read = 0;
  out.clear();
  tally_.resize(clusters_.size());
  for (const Entry& entry : rarest_) {
    if (first_clusters_[entry.row].empty()) continue;
    if (read++ == kRarest) break;
    for (std::int32_t slot : first_clusters_[entry.row]) {
      if (!tally_[slot]++) out.push_back(slot);
    }
  }
  const std::size_t kept = std::min(most, out.size());
  std::partial_sort(out.begin(), out.begin() + kept, out.end(),
                    [this](std::int64_t one, std::int64_t other) {
                      return tally_[one] > tally_[other] ||
                             (tally_[one] == tally_[other] && one < other);
                    });
  for (std::int64_t slot : out) tally_[slot] = 0;
  out.resize(kept);
  return true;
}

}  // namespace kbforge
