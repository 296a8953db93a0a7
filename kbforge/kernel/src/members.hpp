// Which fragments a cluster holds: lists that clusters share.
//
// A list is known by its newest node, which leads to the list of the cluster that this one grew from.
// Clusters of one subproblem differ in few fragments, yet each has nodes of its own from there on. So
// when nodes have become many, long lists are folded: fragments that the same clusters hold become
// one part, and a list then names its parts. A fragment is kept once, however many clusters hold it.
#pragma once

#include <cstdint>
#include <vector>

namespace kbforge {

using Number = std::int32_t;  // of a fragment
constexpr std::int32_t kNone = -1;

class Members {
 public:
  // The list of the fragments of `before`, or of none, and of one that is newer than all of them.
  std::int32_t grow(std::int32_t before, Number newest);

  // Whether a list names its parts. Otherwise it has a newest fragment, and a list before that.
  bool folded(std::int32_t list) const { return nodes_[list].fragment == kNone; }
  Number newest(std::int32_t list) const { return nodes_[list].fragment; }
  std::int32_t before(std::int32_t list) const { return nodes_[list].before; }
  const std::int32_t* parts_begin(std::int32_t list) const {
    return parts_.data() + list_start_[nodes_[list].before];
  }
  const std::int32_t* parts_end(std::int32_t list) const {
    return parts_.data() + list_start_[nodes_[list].before + 1];
  }

  // Whether some fragments of a list are in parts.
  bool has_parts(std::int32_t list) const;
  // The fragments of a list, ascending.
  void read(std::int32_t list, std::vector<Number>& out) const;

  std::size_t n_nodes() const { return nodes_.size(); }
  std::size_t n_parts() const { return part_start_.size() - 1; }
  // Whether there are so many nodes that it is time for a `Folding`.
  bool many() const { return nodes_.size() >= most_nodes_; }

 private:
  friend class Folding;

  struct Node {
    std::int32_t before;  // of a folded list, which one it is of those
    Number fragment;      // of a folded list, kNone
  };

  std::vector<Node> nodes_;
  std::vector<std::uint32_t> list_start_{0};  // where each folded list starts in parts_, and the end
  std::vector<std::int32_t> parts_;
  std::vector<std::uint32_t> part_start_{0};  // where each part starts in fragments_, and the end
  std::vector<Number> fragments_;
  std::size_t most_nodes_ = 1 << 10;
};

// Makes lists anew, one subproblem after another. Those that are not asked for are forgotten.
//
// Parts come by refinement: at first all fragments are in one group, and each list divides every group
// into what it holds and what it does not. What is a part already stays together.
class Folding {
 public:
  Folding(Members& members, Number n_fragments);

  // The lists of one subproblem, each replaced by its new number.
  void fold(std::vector<std::int32_t>& lists);
  // As `fold`, but they stay as they are; none of them may have parts.
  void keep(std::vector<std::int32_t>& lists);

  // Put the new lists in the place of the old ones.
  void finish();

 private:
  // Fragments, or parts, that are in the same of the lists looked at.
  struct Group {
    std::int32_t list = kNone;  // the last that was found to hold some of them
    std::int32_t divided_into = kNone;
    std::int32_t size = 0;
    std::int32_t part = kNone;
  };

  template <typename Visit>
  void units(std::int32_t list, Visit visit) const;
  void divide(std::int32_t list, std::int32_t place);
  void make_parts();
  std::int32_t named(std::int32_t list, std::int32_t place);

  Members& old_;
  Members made_;
  const Number n_fragments_;
  std::vector<std::int32_t> group_of_;  // of each fragment, and behind them of each part
  std::vector<std::int32_t> moved_;     // new numbers of the old nodes kept
  // of one subproblem
  std::vector<Group> groups_;
  std::vector<std::int32_t> found_;
};

}  // namespace kbforge
