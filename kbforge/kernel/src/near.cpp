#include "near.hpp"

#include <algorithm>
#include <numeric>

#include "api.hpp"
#include "crew.hpp"

namespace kbforge {

namespace {

bool nearer(const NearRows::Near& one, const NearRows::Near& other) {
  return one.cosine != other.cosine ? one.cosine > other.cosine : one.row < other.row;
}

// The tokens that are used, as 1.
std::vector<std::uint8_t> used(const std::vector<std::int64_t>& shared, double most) {
  std::vector<std::int64_t> order(shared.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(),
                   [&](std::int64_t a, std::int64_t b) { return shared[a] < shared[b]; });
  std::vector<std::uint8_t> kept(shared.size(), 0);
  double spent = 0.0;
  for (const std::int64_t column : order) {
    const auto n = static_cast<double>(shared[column]);
    spent += n * n;
    if (spent > most) break;
    kept[column] = 1;
  }
  return kept;
}

}  // namespace

NearRows::NearRows(std::int64_t rows, const Bags& bags, std::int64_t columns, double work,
                   const std::int64_t* group, std::int64_t but)
    : rows_(rows), scale_(bags.scale, bags.scale + rows), starts_(columns + 1, 0) {
  std::vector<std::int64_t> shared(columns, 0);
  for (std::int64_t at = 0; at < bags.starts[rows]; ++at) ++shared[bags.columns[at]];
  const std::vector<std::uint8_t> kept = used(shared, work);
  const auto each = [&](auto visit) {
    for (std::int64_t row = 0; row < rows; ++row) {
      if (group && group[row] == but) continue;
      for (std::int64_t at = bags.starts[row]; at < bags.starts[row + 1]; ++at) {
        if (kept[bags.columns[at]]) visit(bags.columns[at], static_cast<std::int32_t>(row));
      }
    }
  };
  each([&](std::int32_t column, std::int32_t) { ++starts_[column + 1]; });
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  posting_.resize(static_cast<std::size_t>(starts_.back()));
  std::vector<std::int64_t> next(starts_.begin(), starts_.end() - 1);
  each([&](std::int32_t column, std::int32_t row) { posting_[next[column]++] = row; });
}

void NearRows::nearest(const Bags& bags, std::int64_t row, const Search& search, Room& room) const {
  if (room.sums.size() < static_cast<std::size_t>(rows_)) {
    room.sums.resize(rows_, 0.0);
    room.touched.resize(rows_ + 1);
  }
  double* const sums = room.sums.data();
  std::int32_t *const touched = room.touched.data(), *end = touched;
  const std::int64_t first = bags.starts[row], n = bags.starts[row + 1] - first;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int32_t column = bags.columns[search.backwards ? first + n - 1 - k : first + k];
    const double weight = bags.weight[column], mine = weight * bags.scale[row];
    for (std::int64_t at = starts_[column]; at < starts_[column + 1]; ++at) {
      const std::int32_t other = posting_[at];
      // without a branch: which rows come for the first time nothing tells beforehand
      *end = other;
      end += sums[other] == 0.0;
      sums[other] += mine * (weight * scale_[other]);
    }
  }
  room.found.clear();
  for (const std::int32_t* at = touched; at != end; ++at) {
    const std::int32_t other = *at;
    const double cosine = sums[other];
    sums[other] = 0.0;
    if (cosine < search.least || (search.others && other == row)) continue;
    if (comparable(search.mine[row], search.theirs[other])) room.found.push_back({cosine, other});
  }
  if (room.found.size() > search.most) {
    const auto last = room.found.begin() + static_cast<std::ptrdiff_t>(search.most);
    std::nth_element(room.found.begin(), last, room.found.end(), nearer);
    room.found.resize(search.most);
  }
  std::sort(room.found.begin(), room.found.end(), nearer);
}

// Pairs of rows, told in any order and more than once.
class Candidates {
 public:
  // Rows with near ones: `width` each, -1 for none.
  struct Lists {
    std::int64_t n, width;
    const std::int64_t* rows;
    const std::int32_t* near;
  };
  // Rows of equal forms: numbers, ascending, and the rows that have each, ascending; rows that look
  // for numbers, of which 0 is none. Of a number of many rows only some from the row itself on count.
  struct Forms {
    std::int64_t n;
    const std::int64_t *numbers, *rows;
    std::int64_t wanting;
    const std::int64_t *wanted, *wanting_rows;
    std::int64_t most;
  };

  explicit Candidates(std::int64_t rows) : starts_(rows + 1, 0) {}

  void add(const Lists& lists) { lists_.push_back(lists); }
  void add(const Forms& forms) { forms_.push_back(forms); }
  // Sort the pairs, each once, i < j, that are of different tables and have a bit in common.
  std::int64_t finish(const std::int64_t* tables, const std::int64_t* bits, std::int64_t workers);
  void write(std::int32_t* pairs, std::int64_t workers) const;

 private:
  template <typename Visit>
  void each(Visit visit) const;

  static constexpr std::int64_t kRows = 4096;  // of one part
  std::vector<Lists> lists_;
  std::vector<Forms> forms_;
  std::vector<std::int64_t> starts_;  // by the lower row, where the higher ones begin
  std::vector<std::int32_t> higher_;
  std::vector<std::int64_t> ends_, before_;  // of the sorted ones, and how many those of rows before are
};

template <typename Visit>
void Candidates::each(Visit visit) const {
  const auto meet = [&](std::int64_t one, std::int64_t other) {
    if (one != other) visit(std::min(one, other), std::max(one, other));
  };
  for (const Lists& lists : lists_) {
    for (std::int64_t k = 0; k < lists.n; ++k) {
      for (std::int64_t at = k * lists.width; at < (k + 1) * lists.width; ++at) {
        if (lists.near[at] >= 0) meet(lists.rows[k], lists.near[at]);
      }
    }
  }
  for (const Forms& forms : forms_) {
    for (std::int64_t k = 0; k < forms.wanting; ++k) {
      if (!forms.wanted[k]) continue;
      const std::int64_t row = forms.wanting_rows[k];
      const auto [low, high] =
          std::equal_range(forms.numbers, forms.numbers + forms.n, forms.wanted[k]);
      const std::int64_t* at = forms.rows + (low - forms.numbers);
      const std::int64_t* const end = forms.rows + (high - forms.numbers);
      if (end - at > forms.most) at = std::lower_bound(at, end, row);
      for (std::int64_t left = forms.most; at != end && left > 0; ++at, --left) meet(row, *at);
    }
  }
}

std::int64_t Candidates::finish(const std::int64_t* tables, const std::int64_t* bits,
                                std::int64_t workers) {
  each([&](std::int64_t low, std::int64_t) { ++starts_[low + 1]; });
  std::partial_sum(starts_.begin(), starts_.end(), starts_.begin());
  higher_.resize(static_cast<std::size_t>(starts_.back()));
  ends_.assign(starts_.begin(), starts_.end() - 1);
  each([&](std::int64_t low, std::int64_t high) {
    higher_[ends_[low]++] = static_cast<std::int32_t>(high);
  });
  const auto rows = static_cast<std::int64_t>(ends_.size());
  share_parts(rows, kRows, workers, [&](std::size_t, std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      const auto begin = higher_.begin() + starts_[row];
      auto last = higher_.begin() + ends_[row];
      last = std::remove_if(begin, last, [&](std::int32_t other) {
        return !comparable(tables[row], tables[other]) || !(bits[row] & bits[other]);
      });
      std::sort(begin, last);
      ends_[row] = std::unique(begin, last) - higher_.begin();
    }
  });
  before_.assign(rows + 1, 0);
  for (std::int64_t row = 0; row < rows; ++row) {
    before_[row + 1] = before_[row] + ends_[row] - starts_[row];
  }
  return before_.back();
}

void Candidates::write(std::int32_t* pairs, std::int64_t workers) const {
  const auto rows = static_cast<std::int64_t>(ends_.size());
  share_parts(rows, kRows, workers, [&](std::size_t, std::int64_t row, std::int64_t end) {
    for (; row < end; ++row) {
      std::int32_t* out = pairs + 2 * before_[row];
      for (std::int64_t at = starts_[row]; at < ends_[row]; ++at) {
        *out++ = static_cast<std::int32_t>(row);
        *out++ = higher_[at];
      }
    }
  });
}

}  // namespace kbforge

using kbforge::Bags;
using kbforge::Candidates;
using kbforge::NearRows;

// An index of rows of bags, of which the scales are copied; `work` bounds the squares of how many rows
// have each token. `group` may be null: see NearRows.
KB_API NearRows* kb_near_new(std::int64_t rows, const Bags* bags, std::int64_t columns, double work,
                             const std::int64_t* group, std::int64_t but) {
  return new NearRows(rows, *bags, columns, work, group, but);
}

KB_API void kb_near_free(NearRows* index) { delete index; }

// The nearest rows of rows of bags, shape [n, most], -1 for none, and their cosines. The rest is as in
// NearRows::Search.
KB_API void kb_near_rows(const NearRows* index, const Bags* bags, std::int64_t n,
                         const std::int64_t* rows, const std::int64_t* mine,
                         const std::int64_t* theirs, std::int32_t others, std::int32_t backwards,
                         std::int64_t most, double least, std::int32_t workers,
                         std::int32_t* out, double* cosines) {
  const NearRows::Search search{static_cast<std::size_t>(most), least, mine, theirs, others != 0,
                                backwards != 0};
  kbforge::share_parts(n, 64, workers, [&](std::size_t, std::int64_t k, std::int64_t end) {
    thread_local NearRows::Room room;  // whose sums are 0 between rows
    for (; k < end; ++k) {
      index->nearest(*bags, rows[k], search, room);
      for (std::int64_t place = 0; place < most; ++place) {
        const bool there = place < static_cast<std::int64_t>(room.found.size());
        out[k * most + place] = there ? room.found[place].row : -1;
        cosines[k * most + place] = there ? room.found[place].cosine : -1.0;
      }
    }
  });
}

KB_API Candidates* kb_candidates_new(std::int64_t rows) { return new Candidates(rows); }

KB_API void kb_candidates_free(Candidates* pairs) { delete pairs; }

// More pairs, as in Candidates; arrays stay the caller's until the pairs are finished.
KB_API void kb_candidates_near(Candidates* pairs, std::int64_t n, std::int64_t width,
                               const std::int64_t* rows, const std::int32_t* near) {
  pairs->add(Candidates::Lists{n, width, rows, near});
}

KB_API void kb_candidates_equal(Candidates* pairs, std::int64_t n, const std::int64_t* numbers,
                                const std::int64_t* rows, std::int64_t wanting,
                                const std::int64_t* wanted, const std::int64_t* wanting_rows,
                                std::int64_t most) {
  pairs->add(Candidates::Forms{n, numbers, rows, wanting, wanted, wanting_rows, most});
}

// How many pairs there are; then these, shape [pairs, 2].
KB_API std::int64_t kb_candidates_count(Candidates* pairs, const std::int64_t* tables,
                                        const std::int64_t* bits, std::int32_t workers) {
  return pairs->finish(tables, bits, workers);
}

KB_API void kb_candidates_pairs(const Candidates* pairs, std::int32_t workers, std::int32_t* out) {
  pairs->write(out, workers);
}
