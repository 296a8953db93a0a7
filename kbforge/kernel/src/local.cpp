// Subproblems in doubt: how they are found, and how they are solved.
#include "local.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <numeric>

#include "memory.hpp"
#include "run.hpp"

namespace kbforge {

namespace {

std::int32_t root_of(std::vector<std::int32_t>& up, std::int32_t x) {
  while (up[x] != x) x = up[x] = up[up[x]];
  return x;
}

// Clusters of units in another table, whose first slots hold one unit each. What the prior says of
// sizes is part of what this table says: to a run, a unit is a fragment.
class UnitTable : public Table {
 public:
  UnitTable(Table& table, const Rounds& rounds, std::vector<std::int32_t> sizes)
      : table_(table), rounds_(rounds), unit_size_(std::move(sizes)),
        first_(static_cast<std::int64_t>(unit_size_.size())) {}

  bool knows(const Record&) const override { return true; }
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override {
    std::vector<std::int64_t> others;
    for (Slot slot : slots) others.push_back(first_ + slot);
    table_.log_merge_ratios(0, x.values[0], static_cast<std::int64_t>(others.size()),
                            others.data(), out);
    const std::int32_t more = unit_size_[x.values[0]];
    for (std::size_t k = 0; k < slots.size(); ++k) {
      const std::int32_t size = size_[slots[k]];
      out[k] += rounds_.log_cluster(size + more) - rounds_.log_cluster(size);
    }
  }
  // Its own L, which it has in any cluster, is left out.
  double log_predictive_new(const Record& x) override { return of_size(unit_size_[x.values[0]]); }
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override {
    for (std::size_t k = 0; k < children.size(); ++k) {
      const std::int64_t parent = parents[k], child = children[k];
      if (child >= static_cast<std::int64_t>(size_.size())) size_.resize(child + 1);
      size_[child] = unit_size_[x.values[0]] + (parent < 0 ? 0 : size_[parent]);
      table_.unite(x.values[0], parent < 0 ? kNone : static_cast<Slot>(first_ + parent),
                   static_cast<Slot>(first_ + child));
    }
  }
  void release(const std::vector<std::int64_t>& slots) override {
    std::vector<std::int64_t> there;
    for (std::int64_t slot : slots) there.push_back(first_ + slot);
    table_.release(there);
  }
  // What the prior says of a size beside log alpha.
  double of_size(std::int32_t size) const {
    return rounds_.log_cluster(size) - rounds_.log_cluster(1);
  }

 private:
  Table& table_;
  const Rounds& rounds_;
  std::vector<std::int32_t> unit_size_, size_;  // fragments by unit, and by slot
  std::int64_t first_;
};

}  // namespace

Local::Local(Rounds& rounds, const LocalRules& rules, const std::int64_t* places)
    : rounds_(rounds), rules_(rules), places_(places) {
  const auto n = static_cast<std::int32_t>(rounds.n_units());
  final_.resize(n);
  for (std::int32_t x = 0; x < n; ++x) final_[x] = rounds.root(x);
  joined_.resize(n);
  std::iota(joined_.begin(), joined_.end(), 0);
  join(doubts());
  contract();
  compare();
  solve();
  compared_ = {};
  give_back_memory();  // what gathering needs comes in the place of what solving needed
  gather();
}

std::int32_t Local::part_of(std::int32_t cluster) const {
  while (joined_[cluster] != cluster) cluster = joined_[cluster];
  return number_[cluster];
}

// Pairs of clusters that might as well be merged or exchange units, the closest first.
std::vector<Local::Doubt> Local::doubts() const {
  const auto most = static_cast<std::int32_t>(std::min(rules_.doubt * kGainUnits, 1e9));
  std::vector<Doubt> out;
  const auto add = [&](std::int32_t one, std::int32_t other, std::int32_t margin) {
    if (one != other && margin < most) {
      out.push_back({margin, std::min(one, other), std::max(one, other)});
    }
  };
  for (std::int32_t x = 0; x < static_cast<std::int32_t>(final_.size()); ++x) {
    if (final_[x] != x) continue;
    for (const Rounds::Edge& edge : rounds_.edges(x)) add(x, edge.to, std::max(0, -edge.gain));
  }
  for (const Rival& rival : rounds_.rivals()) {
    add(final_[rival.one], final_[rival.other], rival.margin);
  }
  const auto by_pair = [](const Doubt& a, const Doubt& b) {
    if (a.one != b.one) return a.one < b.one;
    return a.other != b.other ? a.other < b.other : a.margin < b.margin;
  };
  std::sort(out.begin(), out.end(), by_pair);
  const auto same = [](const Doubt& a, const Doubt& b) {
    return a.one == b.one && a.other == b.other;
  };
  out.erase(std::unique(out.begin(), out.end(), same), out.end());
  std::stable_sort(out.begin(), out.end(),
                   [](const Doubt& a, const Doubt& b) { return a.margin < b.margin; });
  return out;
}

// Join clusters to subproblems, as by Kruskal (1956), as long as these stay within the bound.
void Local::join(std::vector<Doubt> doubts) {
  const auto n = static_cast<std::int32_t>(final_.size());
  std::vector<std::int64_t> size(n, 0);
  for (std::int32_t x = 0; x < n; ++x) {
    if (final_[x] == x) size[x] = rounds_.size(x);
  }
  for (const Doubt& doubt : doubts) {
    std::int32_t one = root_of(joined_, doubt.one), other = root_of(joined_, doubt.other);
    if (one == other) continue;
    if (size[one] + size[other] > rules_.most) {
      cut += 1.0 / (1.0 + libm.exp(doubt.margin / kGainUnits));
      continue;
    }
    if (one > other) std::swap(one, other);
    joined_[other] = one;
    size[one] += size[other];
  }
  number_.assign(n, kNone);
  std::int32_t count = 0;
  for (std::int32_t x = 0; x < n; ++x) {
    if (final_[x] == x && joined_[x] == x) number_[x] = count++;
  }
  parts_.resize(count);
  clusters_ = Lists<std::int32_t>(parts_.size(), [&](const auto& put) {
    for (std::int32_t x = 0; x < n; ++x) {
      if (final_[x] == x) put(part_of(x), x);
    }
  });
}

// Contract what certain merges brought together; where a subproblem would have too many units, what
// less certain ones did, too.
void Local::contract() {
  const auto n = static_cast<std::int32_t>(final_.size());
  const auto& merges = rounds_.merges();
  std::vector<std::int64_t> units(parts_.size(), 0);
  for (std::int32_t x = 0; x < n; ++x) ++units[part_of(final_[x])];
  const Lists<std::int32_t> of_part(parts_.size(), [&](const auto& put) {
    for (std::size_t k = 0; k < merges.size(); ++k) {
      put(part_of(final_[merges[k].into]), static_cast<std::int32_t>(k));
    }
  });
  unit_.resize(n);
  std::iota(unit_.begin(), unit_.end(), 0);
  std::vector<std::uint8_t> whole(n, 1), contracted(merges.size());
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::int32_t *const begin = of_part.begin(part), *const end = of_part.end(part);
    double least = rules_.doubt * kGainUnits;
    for (;; least = least > kGainUnits / 16 ? least / 2 : 0.0) {
      std::int64_t left = units[part];
      for (auto k = begin; k != end; ++k) whole[merges[*k].into] = whole[merges[*k].slot] = 1;
      for (auto k = begin; k != end; ++k) {
        const Merge& merge = merges[*k];
        const bool both = whole[merge.into] && whole[merge.slot] && merge.margin >= least;
        whole[merge.into] = contracted[*k] = both;
        left -= both;
      }
      if (left <= rules_.most || least == 0.0) break;
    }
    for (auto k = begin; k != end; ++k) {
      if (contracted[*k]) unit_[merges[*k].slot] = merges[*k].into;
    }
  }
  for (std::int32_t x = 0; x < n; ++x) unit_[x] = root_of(unit_, x);
  held_ = Lists<std::int32_t>(n, [&](const auto& put) {
    for (std::int32_t x = 0; x < n; ++x) put(unit_[x], x);
  });
  units_ = Lists<std::int32_t>(parts_.size(), [&](const auto& put) {
    for (std::int32_t x = 0; x < n; ++x) {
      if (unit_[x] == x) put(part_of(final_[x]), x);
    }
  });
}

// Which units of a subproblem are compared: those that were, and those that merged or might have.
void Local::compare() {
  compared_ = Lists<Pair>(parts_.size(), [this](const auto& put) {
    const auto add = [&](std::int32_t x, std::int32_t y) {
      const std::int32_t one = unit_[x], other = unit_[y];
      const std::int32_t part = part_of(final_[x]);
      if (one == other || part != part_of(final_[y])) return;
      put(part, Pair{std::min(one, other), std::max(one, other)});
    };
    rounds_.compared().each(add);
    for (const Merge& merge : rounds_.merges()) add(merge.slot, merge.into);
    for (const Rival& rival : rounds_.rivals()) add(rival.one, rival.other);
    for (std::int32_t x = 0; x < static_cast<std::int32_t>(final_.size()); ++x) {
      if (final_[x] != x) continue;
      for (const Rounds::Edge& edge : rounds_.edges(x)) {
        if (edge.to > x) add(x, edge.to);
      }
    }
  });
}

void Local::solve() {
  Crew& crew = rounds_.crew();
  std::vector<std::unique_ptr<Table>> tables(crew.workers());
  for (auto& table : tables) table = rounds_.table().fresh();
  crew.share(parts_.size(), 16, [&](std::size_t worker, std::size_t k) {
    if (tables[worker]) solve(k, *tables[worker]);
  });
}

void Local::solve(std::size_t part, Table& table) {
  if (units_.size(part) < 2) return;
  Pair *const begin = compared_.begin(part), *const end = compared_.end(part);
  std::sort(begin, end);
  parts_[part].found = std::make_unique<Found>();
  if (!run(part, std::unique(begin, end), table)) parts_[part] = Part{};
}

// The places of the fragments of some units, ascending, as one more cluster.
template <typename Integer>
void Local::put(const std::vector<std::int32_t>& units, Groupings<Integer>& found) const {
  const std::size_t begin = found.members.size();
  for (std::int32_t first : units) {
    for (auto unit = held_.begin(first); unit != held_.end(first); ++unit) {
      const std::int64_t end = rounds_.unit_start()[*unit + 1];
      for (std::int64_t k = rounds_.unit_start()[*unit]; k < end; ++k) {
        found.members.push_back(static_cast<Integer>(places_[rounds_.unit_fragments()[k]]));
      }
    }
  }
  std::sort(found.members.begin() + begin, found.members.end());
  found.lengths.push_back(static_cast<Integer>(found.members.size() - begin));
}

// Of a subproblem, the units of a cluster as the rounds left it.
std::vector<std::int32_t> Local::units_of(std::size_t part, std::int32_t cluster) const {
  std::vector<std::int32_t> out;
  std::copy_if(units_.begin(part), units_.end(part), std::back_inserter(out),
               [&](std::int32_t unit) { return final_[unit] == cluster; });
  return out;
}

// A cluster as the rounds left it, as a subproblem by itself.
void Local::put_merged(std::size_t part, std::int32_t cluster) {
  put(units_of(part, cluster), out);
  for (auto* column : {&out.clusters, &out.particles, &out.rows}) column->push_back(1);
  out.cells.push_back(0);
  out.weights.push_back(0.0);
  out.scores.push_back(rounds_.log_marginal(cluster));
}

// Split SMC over the units of a subproblem; whether it found a place for each.
bool Local::run(std::size_t part, const Pair* compared_end, Table& table) {
  const auto n = static_cast<std::int32_t>(units_.size(part));
  const std::int32_t* const of_part = units_.begin(part);
  const auto local = [&](std::int32_t unit) {
    return std::lower_bound(of_part, of_part + n, unit) - of_part;
  };
  // a unit's keys are the pairs that it is in
  const Pair* const compared = compared_.begin(part);
  std::vector<std::vector<std::int64_t>> keys_of(n);
  for (auto pair = compared; pair != compared_end; ++pair) {
    keys_of[local(pair->first)].push_back(pair - compared);
    keys_of[local(pair->second)].push_back(pair - compared);
  }
  std::vector<std::int64_t> starts(n + 1), key_start(1, 0), keys;
  std::vector<std::int32_t> attributes(n, 0), values(n), sizes(n, 0);
  std::vector<double> alone(n, 0.0);  // L of each unit
  std::iota(starts.begin(), starts.end(), 0);
  std::iota(values.begin(), values.end(), 0);
  const Slot spare = n;
  for (std::int32_t k = 0; k < n; ++k) {
    keys.insert(keys.end(), keys_of[k].begin(), keys_of[k].end());
    key_start.push_back(static_cast<std::int64_t>(keys.size()));
    for (auto unit = held_.begin(of_part[k]); unit != held_.end(of_part[k]); ++unit) {
      for (std::int64_t at = rounds_.unit_start()[*unit]; at < rounds_.unit_start()[*unit + 1];
           ++at) {
        const Record x = rounds_.fragments().record(rounds_.unit_fragments()[at]);
        alone[k] += put_together(table, x, !sizes[k]++, k, spare);
      }
    }
  }
  UnitTable units(table, rounds_, sizes);
  Run run(Rules{rules_.particles, rules_.log_floor, true, false, rounds_.log_cluster(1), nullptr,
                nullptr},
          true, IndexRules{std::numeric_limits<std::int32_t>::max(), 1, 0});
  run.state.log_size.assign(n + 2, 0.0);
  run.state.log_cluster.assign(n + 2, rounds_.log_cluster(1));
  if (rounds_.bound()) bind(part, run);
  run.begin();
  const Batch batch{n, starts.data(), attributes.data(), values.data(), key_start.data(),
                    keys.data()};
  const bool whole = run.add(units, batch) == Outcome::kDone;
  if (whole) copy(part, run, sizes, alone);
  std::vector<std::int64_t> used;
  for (std::size_t slot = 0; slot < run.state.clusters.size(); ++slot) {
    if (run.state.clusters[slot].live) used.push_back(n + static_cast<std::int64_t>(slot));
  }
  for (std::int32_t k = 0; k < n; ++k) used.push_back(k);
  table.release(used);
  return whole;
}

// Each unit that something is kept apart from is a component of its own.
void Local::bind(std::size_t part, Run& run) const {
  const std::size_t n = units_.size(part);
  std::vector<Tags> marks(n);
  for (std::size_t k = 0; k < n; ++k) {
    const std::int32_t first = units_.begin(part)[k];
    for (auto unit = held_.begin(first); unit != held_.end(first); ++unit) {
      marks[k].add(rounds_.marks(*unit));
    }
  }
  std::vector<std::int64_t> starts(1, 0), apart;
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t other = 0; other < n; ++other) {
      if (rounds_.barred(marks[k], marks[other]) && k != other) apart.push_back(other);
    }
    starts.push_back(static_cast<std::int64_t>(apart.size()));
  }
  run.constraints.reset(new Constraints());
  run.constraints->bind(static_cast<std::int64_t>(n), starts.data(), apart.data());
  for (std::size_t k = 0; k < n; ++k) {
    if (marks[k].empty()) continue;
    run.constraints->tag(static_cast<Number>(k), Tags{{static_cast<std::int32_t>(k)}, {}, {}});
  }
}

// What a run has found, with the units' fragments in their place; alone: L of each unit, nats.
void Local::copy(std::size_t part, Run& run, const std::vector<std::int32_t>& sizes,
                 const std::vector<double>& alone) {
  Found& found = *parts_[part].found;
  for (const Block* block : run.state.blocks) {
    if (block) run.copy_page(*block);
  }
  std::size_t at = 0;
  std::vector<double> terms;            // by cluster
  std::vector<std::int64_t> smallest;   // likewise, its smallest place
  for (std::size_t k = 0; k < run.lengths.size(); ++k) {
    std::vector<std::int32_t> units;
    std::int32_t size = 0;
    double score = run.scores[k];
    for (std::int64_t left = run.lengths[k]; left > 0; --left, ++at) {
      units.push_back(units_.begin(part)[run.members[at]]);
      size += sizes[run.members[at]];
      score += alone[run.members[at]];
    }
    const std::size_t begin = found.members.size();
    put(units, found);
    smallest.push_back(found.members[begin]);
    terms.push_back(score + rounds_.log_cluster(1));
    found.scores.push_back(score - (rounds_.log_cluster(size) - rounds_.log_cluster(1)));
  }
  std::size_t first = 0, cell = 0, row = 0;
  for (std::size_t page = 0; page < run.clusters.size(); ++page) {
    for (std::int64_t k = 0; k < run.rows[row]; ++k) {
      parts_[part].log_posterior += terms[first + run.cells[cell + k]];
    }
    for (std::int64_t k = 0; k < run.particles[page]; ++k) {
      const auto cells = run.cells.begin() + static_cast<std::ptrdiff_t>(cell);
      std::sort(cells, cells + run.rows[row], [&](std::int64_t a, std::int64_t b) {
        return smallest[first + a] < smallest[first + b];
      });
      cell += run.rows[row++];
    }
    first += run.clusters[page];
  }
  const auto copy = [](auto& to, const auto& from) { to.assign(from.begin(), from.end()); };
  copy(found.clusters, run.clusters), copy(found.particles, run.particles);
  copy(found.rows, run.rows), copy(found.cells, run.cells), copy(found.weights, run.weights);
}

// All subproblems, by smallest place.
void Local::gather() {
  struct Page {  // where a page begins; of a part as the rounds left it, `cluster` alone counts
    std::int64_t place;
    std::size_t part, page, cluster, member, row, cell;
    bool operator<(const Page& other) const { return place < other.place; }
  };
  std::vector<Page> pages;
  std::size_t n_clusters = 0, n_rows = 0, n_cells = 0, n_members = 0;
  for (std::size_t k = 0; k < parts_.size(); ++k) {
    if (units_.size(k) > 1) {
      for (auto one = clusters_.begin(k); one != clusters_.end(k); ++one) in_doubt += rounds_.size(*one);
    }
    if (!parts_[k].found) {
      double left = 0.0;
      for (std::size_t at = 0; at < clusters_.size(k); ++at) {
        const std::int32_t cluster = clusters_.begin(k)[at];
        Found alone;
        put(units_of(k, cluster), alone);
        pages.push_back({alone.members[0], k, 0, at, 0, 0, 0});
        left += rounds_.log_cluster(rounds_.size(cluster)) + rounds_.log_marginal(cluster);
        n_members += rounds_.size(cluster);
      }
      log_posterior += left;
      n_clusters += clusters_.size(k), n_rows += clusters_.size(k), n_cells += clusters_.size(k);
      continue;
    }
    const Found& found = *parts_[k].found;
    n_clusters += found.lengths.size(), n_rows += found.rows.size();
    n_cells += found.cells.size(), n_members += found.members.size();
    Page next{0, k, 0, 0, 0, 0, 0};
    for (; next.page < found.clusters.size(); ++next.page) {
      Page here = next;
      here.place = found.members[next.member];
      for (std::int64_t left = found.clusters[next.page]; left > 0; --left, ++next.cluster) {
        here.place = std::min<std::int64_t>(here.place, found.members[next.member]);
        next.member += found.lengths[next.cluster];
      }
      for (std::int64_t left = found.particles[next.page]; left > 0; --left, ++next.row) {
        next.cell += found.rows[next.row];
      }
      pages.push_back(here);
    }
    log_posterior += parts_[k].log_posterior;
  }
  std::sort(pages.begin(), pages.end());
  for (auto* column : {&out.clusters, &out.particles}) column->reserve(pages.size());
  out.lengths.reserve(n_clusters), out.scores.reserve(n_clusters);
  out.rows.reserve(n_rows), out.weights.reserve(n_rows);
  out.cells.reserve(n_cells), out.members.reserve(n_members);
  const auto append = [](auto& to, const auto& from, std::size_t begin, std::size_t n) {
    to.insert(to.end(), from.begin() + begin, from.begin() + begin + n);
  };
  for (const Page& page : pages) {
    if (!parts_[page.part].found) {
      put_merged(page.part, clusters_.begin(page.part)[page.cluster]);
      continue;
    }
    const Found& found = *parts_[page.part].found;
    const std::size_t clusters = found.clusters[page.page], rows = found.particles[page.page];
    std::size_t members = 0, cells = 0;
    for (std::size_t k = 0; k < clusters; ++k) members += found.lengths[page.cluster + k];
    for (std::size_t k = 0; k < rows; ++k) cells += found.rows[page.row + k];
    out.clusters.push_back(static_cast<std::int64_t>(clusters));
    out.particles.push_back(static_cast<std::int64_t>(rows));
    append(out.lengths, found.lengths, page.cluster, clusters);
    append(out.scores, found.scores, page.cluster, clusters);
    append(out.members, found.members, page.member, members);
    append(out.rows, found.rows, page.row, rows);
    append(out.weights, found.weights, page.row, rows);
    append(out.cells, found.cells, page.cell, cells);
  }
}

}  // namespace kbforge

using kbforge::Rounds;
using kbforge::Table;

// Rounds over fragments, of which `apart` says what keeps them apart, if it is not null, with a table
// that must outlive them; arrays of the caller's stay where they are.
KB_API Rounds* kb_rounds_new(Table* table, std::int64_t n, const std::int64_t* record_start,
                             const std::int32_t* attributes, const std::int32_t* values,
                             const kb_apart* apart, std::int64_t sizes, const double* log_cluster,
                             double least, double certain, std::int64_t workers) {
  const kbforge::Batch fragments{n, record_start, attributes, values, nullptr, nullptr};
  return new Rounds(*table, fragments, apart, std::vector<double>(log_cluster, log_cluster + sizes),
                    least, certain, static_cast<std::size_t>(workers));
}

KB_API void kb_rounds_free(Rounds* rounds) {
  delete rounds;
  kbforge::give_back_memory();
}

// The first fragments of units; how many.
KB_API std::int64_t kb_rounds_units(Rounds* rounds, std::int64_t* firsts) {
  for (std::int64_t k = 0; k < rounds->n_units(); ++k) {
    firsts[k] = rounds->unit_fragments()[rounds->unit_start()[k]];
  }
  return rounds->n_units();
}

// The keys of n units from the first one on, of which some are taken in each of so many turns.
KB_API void kb_rounds_keys(Rounds* rounds, std::int64_t first, std::int64_t n,
                           const std::int64_t* key_start, const std::int64_t* keys,
                           std::int32_t turn, std::int32_t turns) {
  rounds->add_keys({first, n, key_start, keys},
                   {static_cast<std::uint32_t>(turn), static_cast<std::uint32_t>(turns)});
  kbforge::give_back_memory();
}

// Compare clusters by keys of all units, which are asked for no more if it is the last time; how many
// pairs were scored.
KB_API std::int64_t kb_rounds_connect(Rounds* rounds, std::int64_t most, std::int32_t shared,
                                      std::int32_t top, std::int32_t last) {
  return rounds->connect({most, shared, top}, last != 0);
}

// Merge only where more nats than this are gained; at first, 0.
KB_API void kb_rounds_above(Rounds* rounds, double nats) { rounds->merge_above(nats); }

// One round; how many merges it made, and the unnormalised log posterior after it.
KB_API std::int64_t kb_rounds_merge(Rounds* rounds, double* log_posterior) {
  const std::int64_t made = rounds->merge_best();
  *log_posterior = rounds->log_posterior();
  return made;
}

// By fragment, the first one of its cluster.
KB_API void kb_rounds_labels(const Rounds* rounds, std::int64_t* labels) {
  const auto& fragments = rounds->unit_fragments();
  const auto& start = rounds->unit_start();
  for (std::int32_t unit = 0; unit < rounds->n_units(); ++unit) {
    const std::int32_t first = fragments[start[rounds->root(unit)]];
    for (std::int64_t k = start[unit]; k < start[unit + 1]; ++k) labels[fragments[k]] = first;
  }
}

// The posterior where the rounds leave a doubt. The result, where `pages` leads, belongs to the caller.
KB_API kbforge::Posterior* kb_local_new(Rounds* rounds, std::int32_t particles, double log_floor,
                                        double doubt, std::int64_t most,
                                        const std::int64_t* places, kb_pages* pages, double* told) {
  auto* out = new kbforge::Posterior();
  {
    kbforge::Local local(*rounds, {particles, log_floor, doubt, most}, places);
    *out = std::move(local.out);
    told[1] = local.log_posterior;
    told[2] = static_cast<double>(local.in_doubt);
    told[3] = local.cut;
  }
  kbforge::give_back_memory();
  *pages = {out->clusters.data(), out->particles.data(), nullptr,           out->lengths.data(),
            out->members.data(),  out->rows.data(),      out->cells.data(), out->scores.data(),
            out->weights.data(),  0,                     0,                 0,
            0};
  pages->n_slots = static_cast<std::int64_t>(out->lengths.size());
  pages->n_members = static_cast<std::int64_t>(out->members.size());
  pages->n_rows = static_cast<std::int64_t>(out->rows.size());
  pages->n_cells = static_cast<std::int64_t>(out->cells.size());
  told[0] = static_cast<double>(out->clusters.size());
  return out;
}

KB_API void kb_local_free(kbforge::Posterior* posterior) {
  delete posterior;
  kbforge::give_back_memory();
}
