// The links of a file's rows (kbforge_plugins/likelihoods/pairs/odds.py): pairs of rows, ascending by
// the first and second one, and what their log odds add.
#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "api.hpp"

// Links by their second row: where each row's begin, shape [rows + 1], their numbers, ascending, and
// their first rows.
KB_API void kb_links_back(std::int64_t rows, const std::int64_t* starts, const std::int32_t* second,
                          std::int64_t* back_starts, std::int32_t* back, std::int32_t* back_first) {
  std::fill(back_starts, back_starts + rows + 1, 0);
  for (std::int64_t link = 0; link < starts[rows]; ++link) ++back_starts[second[link] + 1];
  for (std::int64_t row = 0; row < rows; ++row) back_starts[row + 1] += back_starts[row];
  std::vector<std::int64_t> next(back_starts, back_starts + rows);
  for (std::int64_t row = 0; row < rows; ++row) {
    for (std::int64_t link = starts[row]; link < starts[row + 1]; ++link) {
      const std::int64_t place = next[second[link]]++;
      back[place] = static_cast<std::int32_t>(link);
      back_first[place] = static_cast<std::int32_t>(row);
    }
  }
}

// Whether each link is, for one of its rows, among the `most` with the highest log odds, of those that
// add at least `least`; the first rows of equals.
KB_API void kb_links_leading(std::int64_t rows, const std::int64_t* starts,
                             const std::int32_t* second, const std::int32_t* above,
                             const std::int64_t* back_starts, const std::int32_t* back,
                             const std::int32_t* back_first, std::int64_t least, std::int64_t most,
                             std::uint8_t* leading) {
  struct Link {
    std::int32_t above, other, number;
  };
  std::fill(leading, leading + starts[rows], 0);
  std::vector<Link> likely;
  const auto consider = [&](std::int64_t link, std::int32_t other) {
    if (above[link] >= least) likely.push_back({above[link], other, static_cast<std::int32_t>(link)});
  };
  for (std::int64_t row = 0; row < rows; ++row) {
    likely.clear();
    for (std::int64_t at = back_starts[row]; at < back_starts[row + 1]; ++at) {
      consider(back[at], back_first[at]);
    }
    for (std::int64_t link = starts[row]; link < starts[row + 1]; ++link) consider(link, second[link]);
    const auto n = std::min(likely.size(), static_cast<std::size_t>(most));
    std::partial_sort(likely.begin(), likely.begin() + static_cast<std::ptrdiff_t>(n), likely.end(),
                      [](const Link& one, const Link& other) {
                        return one.above != other.above ? one.above > other.above
                                                        : one.other < other.other;
                      });
    for (std::size_t k = 0; k < n; ++k) leading[likely[k].number] = 1;
  }
}
