// The nearest rows of each row, by the cosine of weighted tokens, and candidate pairs of rows
// (kbforge_plugins/likelihoods/pairs/near.py).
#pragma once

#include <cstdint>
#include <vector>

#include "bags.hpp"

namespace kbforge {

// Tables that rows belong to, 0 for none; two rows of one table are not compared.
inline bool comparable(std::int64_t one, std::int64_t other) { return one != other || one == 0; }

// Rows by token. Tokens are used from the rarest on, up to a limit on the work for all rows, so very
// common ones are left out.
class NearRows {
 public:
  // `group` by row, or null; rows of the group `but` are left out, though their tokens count.
  NearRows(std::int64_t rows, const Bags& bags, std::int64_t columns, double work,
           const std::int64_t* group, std::int64_t but);

  struct Search {
    std::size_t most;
    double least;              // cosine
    const std::int64_t *mine, *theirs;  // tables of the rows that ask, and of all
    bool others;               // the rows that ask are those of the index: each leaves out itself
    bool backwards;            // products are added from the last token on
  };
  struct Near {
    double cosine;
    std::int32_t row;
  };
  // Room for one thread.
  struct Room {
    std::vector<double> sums;
    std::vector<std::int32_t> touched;
    std::vector<Near> found;
  };
  // The nearest rows of a row of bags, the nearest first, the first one of equals; in room.found.
  void nearest(const Bags& bags, std::int64_t row, const Search& search, Room& room) const;

 private:
  std::int64_t rows_;
  std::vector<double> scale_;
  std::vector<std::int64_t> starts_;   // by token; a token that is not used has no rows
  std::vector<std::int32_t> posting_;
};

}  // namespace kbforge
