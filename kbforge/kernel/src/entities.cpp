// Entities: how sure each is, what its fragments state, and its line of JSON (kbforge/kb/entities.py
// has the definitions).
#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api.hpp"
#include "numbers.hpp"
#include "spelling.hpp"

namespace kbforge {

namespace {

// A part of the numbers that `starts` divides.
template <typename Number>
struct Span {
  const Number *first, *last;
  const Number* begin() const { return first; }
  const Number* end() const { return last; }
  std::size_t size() const { return static_cast<std::size_t>(last - first); }
};

template <typename Number>
Span<Number> span(const Number* numbers, const std::int64_t* starts, std::int64_t at) {
  return {numbers + starts[at], numbers + starts[at + 1]};
}

// Another grouping of an entity's fragments: its probability, and the ranks of its clusters.
struct Rival {
  double probability;
  std::vector<std::int32_t> ranks;
};

// The posterior of a subproblem's fragments, over its particles.
class Beliefs {
 public:
  Beliefs(const kb_groupings& of, std::int64_t at) : of_(of), base_(of.clusters[at]) {
    const std::int64_t n = of.clusters[at + 1] - base_;
    first_row_ = of.particles[at];
    n_rows_ = static_cast<std::size_t>(of.particles[at + 1] - first_row_);
    ranked_.resize(static_cast<std::size_t>(n));
    for (std::int64_t k = 0; k < n; ++k) ranked_[static_cast<std::size_t>(k)] = base_ + k;
    std::sort(ranked_.begin(), ranked_.end(), [&](std::int64_t a, std::int64_t b) {
      const auto one = members(a), two = members(b);
      return std::lexicographical_compare(one.begin(), one.end(), two.begin(), two.end());
    });
    rank_.resize(ranked_.size());
    for (std::size_t k = 0; k < ranked_.size(); ++k) {
      rank_[static_cast<std::size_t>(ranked_[k] - base_)] = static_cast<std::int32_t>(k);
    }
    having_.resize(ranked_.size());
    for (std::size_t row = 0; row < n_rows_; ++row) {
      const std::int64_t number = first_row_ + static_cast<std::int64_t>(row);
      for (const std::int32_t cell : span(of.cells, of.rows, number)) {
        having_[static_cast<std::size_t>(rank_[static_cast<std::size_t>(cell)])].push_back(row);
      }
    }
    // unless all groupings are one
    if (n > of.rows[first_row_ + 1] - of.rows[first_row_]) hold();
  }

  // The probability of a cluster; and its alternatives above `least`, the most probable first.
  double about(std::int64_t cluster, double least, std::vector<Rival>& rivals) {
    rivals.clear();
    const std::int32_t own = rank_[static_cast<std::size_t>(cluster - base_)];
    const auto& agreeing = having_[static_cast<std::size_t>(own)];
    // exactly 1 when nothing disagrees: rounding must not read as doubt
    if (agreeing.size() == n_rows_) return 1.0;
    touching_.clear();
    for (const std::int32_t fragment : members(cluster)) {
      const auto& held = holding_[local(fragment)];
      touching_.insert(touching_.end(), held.begin(), held.end());
    }
    std::sort(touching_.begin(), touching_.end());
    touching_.erase(std::unique(touching_.begin(), touching_.end()), touching_.end());
    minds_.assign(n_rows_, {});
    for (const std::int32_t rank : touching_) {
      if (rank == own) continue;
      for (const std::size_t row : having_[static_cast<std::size_t>(rank)]) {
        minds_[row].push_back(rank);
      }
    }
    order_.clear();
    for (std::size_t row = 0; row < n_rows_; ++row) {
      if (!minds_[row].empty()) order_.push_back(row);
    }
    std::sort(order_.begin(), order_.end(),
              [&](std::size_t a, std::size_t b) { return minds_[a] < minds_[b]; });
    for (std::size_t k = 0; k < order_.size();) {
      const std::size_t first = k;
      shares_.clear();
      for (; k < order_.size() && minds_[order_[k]] == minds_[order_[first]]; ++k) {
        shares_.push_back(share(order_[k]));
      }
      const double mass = std::min(exact_sum(shares_.data(), shares_.size()), 1.0);
      if (mass > least) rivals.push_back({mass, minds_[order_[first]]});
    }
    // equally probable ones are in the order of their clusters
    std::stable_sort(rivals.begin(), rivals.end(), [](const Rival& a, const Rival& b) {
      return a.probability > b.probability;
    });
    shares_.clear();
    for (const std::size_t row : agreeing) shares_.push_back(share(row));
    return std::min(exact_sum(shares_.data(), shares_.size()), 1.0);
  }

  std::int64_t cluster(std::int32_t rank) const { return ranked_[static_cast<std::size_t>(rank)]; }

 private:
  Span<std::int32_t> members(std::int64_t cluster) const {
    return span(of_.members, of_.lengths, cluster);
  }

  double share(std::size_t row) const {
    return libm.exp(of_.weights[first_row_ + static_cast<std::int64_t>(row)]);
  }

  // The place of a fragment among the subproblem's.
  std::size_t local(std::int32_t fragment) const {
    const auto found = std::lower_bound(fragments_.begin(), fragments_.end(), fragment);
    return static_cast<std::size_t>(found - fragments_.begin());
  }

  // The clusters of each fragment, by rank.
  void hold() {
    const std::int64_t row = of_.rows[first_row_];
    for (std::int64_t at = row; at < of_.rows[first_row_ + 1]; ++at) {
      const auto some = members(base_ + of_.cells[at]);
      fragments_.insert(fragments_.end(), some.begin(), some.end());
    }
    std::sort(fragments_.begin(), fragments_.end());
    holding_.resize(fragments_.size());
    for (std::size_t rank = 0; rank < ranked_.size(); ++rank) {
      for (const std::int32_t fragment : members(ranked_[rank])) {
        holding_[local(fragment)].push_back(static_cast<std::int32_t>(rank));
      }
    }
  }

  const kb_groupings& of_;
  const std::int64_t base_;
  std::vector<std::int32_t> fragments_;
  std::int64_t first_row_;
  std::size_t n_rows_;
  std::vector<std::int64_t> ranked_;  // clusters in the order of their fragments
  std::vector<std::int32_t> rank_;
  std::vector<std::vector<std::size_t>> having_;    // particles, by rank of a cluster they have
  std::vector<std::vector<std::int32_t>> holding_;  // ranks, by local number of a fragment
  std::vector<std::int32_t> touching_;
  std::vector<std::vector<std::int32_t>> minds_;  // the other clusters, by particle
  std::vector<std::size_t> order_;
  std::vector<double> shares_;
};

// What a fragment of an entity states.
struct Said {
  std::int32_t place, attribute, value;
  std::size_t member;
};

}  // namespace

class Entities {
 public:
  Entities(const kb_groupings& groupings, const kb_said& said, std::int64_t most, double least)
      : groupings_(groupings), said_(said), most_(most), least_(least) {
    for (std::vector<std::int64_t>* starts :
         {&member_start_, &rival_start_, &group_start_, &cell_start_, &value_start_, &holder_start_}) {
      starts->push_back(0);
    }
  }

  // Assemble the entities of some subproblems.
  void assemble(std::int64_t begin, std::int64_t end) {
    std::vector<std::int64_t> chosen;
    std::vector<Rival> rivals;
    for (std::int64_t at = begin; at < end; ++at) {
      Beliefs beliefs(groupings_, at);
      chosen.clear();
      for (const std::int32_t cell : estimate(at)) chosen.push_back(groupings_.clusters[at] + cell);
      std::sort(chosen.begin(), chosen.end(), [&](std::int64_t a, std::int64_t b) {
        return first_of(a) < first_of(b);
      });
      for (const std::int64_t cluster : chosen) {
        reported_.push_back(beliefs.about(cluster, least_, rivals));
        subproblem_.push_back(groupings_.numbers ? groupings_.numbers[at] : at);
        keep(beliefs, rivals);
        describe(span(groupings_.members, groupings_.lengths, cluster));
      }
    }
    best_.resize(attribute_.size());
    for (std::size_t e = 0; e < reported_.size(); ++e) choose(e);
  }

  kb_entities columns() {
    return {static_cast<std::int64_t>(reported_.size()),
            static_cast<std::int64_t>(attribute_.size()),
            static_cast<std::int64_t>(probability_.size()),
            static_cast<std::int64_t>(undecided_.size()),
            member_start_.data(),
            cell_start_.data(),
            value_start_.data(),
            holder_start_.data(),
            members_.data(),
            attribute_.data(),
            value_.data(),
            holder_.data(),
            best_.data(),
            undecided_.data(),
            reported_.data(),
            probability_.data()};
  }

  // Their lines, with what is not in the columns.
  const std::string& lines(const kb_stated_entities& also) {
    lines_.clear();
    const char* confidence = also.confidence + 1;  // behind the bracket
    const char* reported = also.reported ? also.reported + 1 : nullptr;
    const char* rival = also.rivals + 1;
    std::size_t n_named = 0;  // besides those that are named here
    for (std::size_t e = 0; e < reported_.size(); ++e) {
      lines_ += "{\"id\":";
      put(also.ids, static_cast<std::int64_t>(e));
      lines_ += ",\"name\":";
      if (n_named < undecided_.size() && undecided_[n_named] == static_cast<std::int64_t>(e)) {
        put(also.names, static_cast<std::int64_t>(n_named++));
      } else {
        put(names_[e]);
      }
      lines_ += ",\"properties\":{";
      for (std::int64_t cell = cell_start_[e]; cell < cell_start_[e + 1]; ++cell) {
        put_attribute(cell, cell == cell_start_[e], also.of_values);
      }
      lines_ += "},\"fragments\":[";
      put_ids(span(members_.data(), member_start_.data(), static_cast<std::int64_t>(e)));
      lines_ += "],\"confidence\":";
      put_number(confidence);
      if (reported) {
        lines_ += ",\"reported\":";
        put_number(reported);
      }
      lines_ += ",\"subproblem\":";
      lines_ += std::to_string(subproblem_[e]);
      if (also.more.n) lines_ += text_of(also.more, static_cast<std::int64_t>(e));
      if (rival_start_[e] < rival_start_[e + 1]) put_rivals(e, rival);
      lines_ += "}\n";
    }
    return lines_;
  }

 private:
  Span<std::int32_t> estimate(std::int64_t at) const {
    if (groupings_.estimates) return span(groupings_.estimate, groupings_.estimates, at);
    return span(groupings_.cells, groupings_.rows, groupings_.particles[at]);
  }

  std::int32_t first_of(std::int64_t cluster) const {
    return groupings_.members[groupings_.lengths[cluster]];
  }

  // Keep the most probable alternatives; without a limit, those whose ids fit on one line.
  void keep(const Beliefs& beliefs, const std::vector<Rival>& rivals) {
    std::int64_t characters = 0;
    for (std::size_t k = 0; k < rivals.size(); ++k) {
      if (most_ >= 0 && static_cast<std::int64_t>(k) >= most_) break;
      if (most_ < 0) {
        for (const std::int32_t rank : rivals[k].ranks) {
          for (const std::int32_t fragment : members(beliefs.cluster(rank))) {
            characters += length_of(fragment);
          }
        }
        if (characters > -most_) break;
      }
      probability_.push_back(rivals[k].probability);
      for (const std::int32_t rank : rivals[k].ranks) groups_.push_back(beliefs.cluster(rank));
      group_start_.push_back(static_cast<std::int64_t>(groups_.size()));
    }
    rival_start_.push_back(static_cast<std::int64_t>(probability_.size()));
  }

  Span<std::int32_t> members(std::int64_t cluster) const {
    return span(groupings_.members, groupings_.lengths, cluster);
  }

  // The characters of an id.
  std::int64_t length_of(std::int32_t fragment) const {
    const char* const begin = said_.ids.bytes + said_.ids.starts[fragment];
    const char* const end = said_.ids.bytes + said_.ids.starts[fragment + 1];
    return std::count_if(begin, end, [](char c) { return (c & 0xC0) != 0x80; });
  }

  // Attributes in order; of each the distinct values, the most stated first, then by code point.
  void describe(Span<std::int32_t> fragments) {
    members_.insert(members_.end(), fragments.begin(), fragments.end());
    member_start_.push_back(static_cast<std::int64_t>(members_.size()));
    stated_.clear();
    for (std::size_t member = 0; member < fragments.size(); ++member) {
      const std::int32_t fragment = fragments.begin()[member];
      for (std::int64_t s = said_.starts[fragment]; s < said_.starts[fragment + 1]; ++s) {
        const std::int32_t attribute = said_.attribute[s];
        stated_.push_back({said_.place[attribute], attribute, said_.value[s], member});
      }
    }
    std::sort(stated_.begin(), stated_.end(), [](const Said& a, const Said& b) {
      if (a.place != b.place) return a.place < b.place;
      if (a.value != b.value) return a.value < b.value;
      return a.member < b.member;
    });
    for (std::size_t k = 0; k < stated_.size();) {
      const std::size_t first = k;
      runs_.clear();
      while (k < stated_.size() && stated_[k].place == stated_[first].place) {
        const std::size_t begin = k;
        std::int64_t count = 0;
        for (; k < stated_.size() && stated_[k].place == stated_[first].place &&
               stated_[k].value == stated_[begin].value;
             ++k) {
          count += k == begin || stated_[k].member != stated_[k - 1].member;
        }
        runs_.push_back({begin, k, count});
      }
      const kb_texts& texts = said_.texts[stated_[first].attribute];
      if (runs_.size() > 1) {
        std::sort(runs_.begin(), runs_.end(), [&](const Run& a, const Run& b) {
          if (a.count != b.count) return a.count > b.count;
          return is_before(texts, stated_[a.begin].value, stated_[b.begin].value);
        });
      }
      for (const Run& run : runs_) {
        value_.push_back(stated_[run.begin].value);
        for (std::size_t at = run.begin; at < run.end; ++at) {
          if (at > run.begin && stated_[at].member == stated_[at - 1].member) continue;
          holder_.push_back(fragments.begin()[stated_[at].member]);
        }
        holder_start_.push_back(static_cast<std::int64_t>(holder_.size()));
      }
      attribute_.push_back(stated_[first].attribute);
      value_start_.push_back(static_cast<std::int64_t>(value_.size()));
    }
    cell_start_.push_back(static_cast<std::int64_t>(attribute_.size()));
  }

  static std::string_view text_of(const kb_texts& texts, std::int64_t number) {
    const std::int64_t begin = texts.starts[number];
    return {texts.bytes + begin, static_cast<std::size_t>(texts.starts[number + 1] - begin)};
  }

  // The number of values of a cell, the text of one, and how many fragments state it.
  std::int64_t values(std::size_t cell) const { return value_start_[cell + 1] - value_start_[cell]; }
  std::string_view text(std::size_t cell, std::int64_t value) const {
    const std::size_t number = static_cast<std::size_t>(value_start_[cell] + value);
    return text_of(said_.texts[attribute_[cell]], value_[number]);
  }
  Spelling spelling(std::size_t cell, std::int64_t value) const {
    const std::size_t number = static_cast<std::size_t>(value_start_[cell] + value);
    return {text(cell, value), holder_start_[number + 1] - holder_start_[number]};
  }

  // The best value of a cell.
  std::int32_t best_of(std::size_t cell) {
    if (values(cell) == 1) return 0;
    spellings_.clear();
    for (std::int64_t k = 0; k < values(cell); ++k) spellings_.push_back(spelling(cell, k));
    return static_cast<std::int32_t>(best_spelling(spellings_, {}, {said_.words, said_.n_words}));
  }

  // The cells that name an entity: see kbforge.kb.entities.naming.
  void find_naming(std::size_t begin, std::size_t end) {
    naming_.clear();
    std::int32_t least = said_.unnaming;
    for (std::size_t cell = begin; cell < end; ++cell) {
      const std::int32_t rank = said_.naming[attribute_[cell]];
      if (rank > least || (rank == least && rank != said_.unnaming - 1)) continue;
      if (rank < least) naming_.clear();
      least = rank;
      naming_.push_back(cell);
    }
    for (std::size_t cell = begin; cell < end && naming_.empty(); ++cell) {
      if (said_.naming[attribute_[cell]] == said_.unnaming) naming_.push_back(cell);
    }
  }

  // The name of an entity, and the best value of each of its attributes, unless one of its texts is
  // for kbforge/kb/spelling.py, or a person has chosen.
  void choose(std::size_t e) {
    const std::size_t begin = static_cast<std::size_t>(cell_start_[e]);
    const std::size_t end = static_cast<std::size_t>(cell_start_[e + 1]);
    names_.emplace_back();
    for (const std::int32_t member : span(members_.data(), member_start_.data(), static_cast<std::int64_t>(e))) {
      if (!said_.asserted || !said_.asserted[member]) continue;
      undecided_.push_back(static_cast<std::int64_t>(e));
      return;
    }
    find_naming(begin, end);
    for (std::size_t cell = begin; cell < end; ++cell) {
      const bool names_it = naming_.size() > 1 &&
                            std::find(naming_.begin(), naming_.end(), cell) != naming_.end();
      if (values(cell) == 1 && !names_it) continue;
      for (std::int64_t k = 0; k < values(cell); ++k) {
        if (is_plain(text(cell, k))) continue;
        undecided_.push_back(static_cast<std::int64_t>(e));
        return;
      }
    }
    for (std::size_t cell = begin; cell < end; ++cell) best_[cell] = best_of(cell);
    if (naming_.size() > 1) {
      names_[e] = joined_name();
    } else if (naming_.size() == 1) {
      names_[e] = text(naming_[0], best_[naming_[0]]);
    } else {
      names_[e] = text_of(said_.ids, members_[static_cast<std::size_t>(member_start_[e])]);
    }
  }

  // The best of what single fragments state in several cells; its parts are the best of their cells.
  std::string joined_name() {
    using Parts = std::vector<std::pair<std::size_t, std::int64_t>>;  // cells and values
    std::map<std::int32_t, Parts> stated;                             // by fragment
    for (const std::size_t cell : naming_) {
      for (std::int64_t k = 0; k < values(cell); ++k) {
        for (const std::int32_t fragment : span(holder_.data(), holder_start_.data(), value_start_[cell] + k)) {
          Parts& parts = stated[fragment];
          if (parts.empty() || parts.back().first != cell) parts.emplace_back(cell, k);
        }
      }
    }
    const auto is_less = [&](const Parts& one, const Parts& other) {
      return std::lexicographical_compare(
          one.begin(), one.end(), other.begin(), other.end(), [&](const auto& a, const auto& b) {
            const auto name = [&](const auto& part) { return text_of(said_.names, attribute_[part.first]); };
            if (a.first != b.first) return name(a) < name(b);
            return text(a.first, a.second) < text(b.first, b.second);
          });
    };
    struct Name {
      std::int64_t count = 0;
      const Parts* parts = nullptr;  // the last ones of those that join to it
    };
    std::map<std::string, Name> names;
    for (const auto& [fragment, parts] : stated) {
      std::string joined;
      for (const auto& [cell, value] : parts) {
        if (!joined.empty()) joined += ' ';
        joined += text(cell, value);
      }
      Name& name = names[joined];
      ++name.count;
      if (!name.parts || is_less(*name.parts, parts)) name.parts = &parts;
    }
    spellings_.clear();
    std::vector<std::size_t> full;
    for (const auto& [text, name] : names) {
      if (name.parts->size() > 1) full.push_back(spellings_.size());
      spellings_.push_back({text, name.count});
    }
    const std::size_t best = best_spelling(spellings_, full, {said_.words, said_.n_words});
    const std::string found(spellings_[best].text);
    for (const auto& [cell, value] : *names[found].parts) best_[cell] = static_cast<std::int32_t>(value);
    return found;
  }

  // Texts in UTF-8 are in the order of their code points.
  static bool is_before(const kb_texts& texts, std::int32_t a, std::int32_t b) {
    return text_of(texts, a) < text_of(texts, b);
  }

  void put_attribute(std::int64_t cell, bool is_first, const kb_texts& more) {
    if (!is_first) lines_ += ',';
    const std::int64_t best = best_[static_cast<std::size_t>(cell)];
    const std::int32_t attribute = attribute_[static_cast<std::size_t>(cell)];
    put(said_.names, attribute);
    lines_ += ":[";
    const std::int64_t begin = value_start_[static_cast<std::size_t>(cell)];
    const std::int64_t end = value_start_[static_cast<std::size_t>(cell) + 1];
    put_value(attribute, begin + best, true, more);
    for (std::int64_t value = begin; value < end; ++value) {
      if (value != begin + best) put_value(attribute, value, false, more);
    }
    lines_ += ']';
  }

  void put_value(std::int32_t attribute, std::int64_t value, bool is_first, const kb_texts& more) {
    lines_ += is_first ? "{\"value\":" : ",{\"value\":";
    put(said_.texts[attribute], value_[static_cast<std::size_t>(value)]);
    lines_ += ",\"fragments\":[";
    const auto holders = span(holder_.data(), holder_start_.data(), value);
    put_ids(holders);
    lines_ += "],\"count\":";
    lines_ += std::to_string(holders.size());
    if (more.n) lines_ += text_of(more, value);
    lines_ += '}';
  }

  void put_ids(Span<std::int32_t> fragments) {
    bool is_first = true;
    for (const std::int32_t fragment : fragments) {
      if (!is_first) lines_ += ',';
      put(said_.ids, fragment);
      is_first = false;
    }
  }

  void put_rivals(std::size_t e, const char*& number) {
    lines_ += ",\"alternatives\":[";
    for (std::int64_t rival = rival_start_[e]; rival < rival_start_[e + 1]; ++rival) {
      lines_ += rival == rival_start_[e] ? "{\"probability\":" : ",{\"probability\":";
      put_number(number);
      lines_ += ",\"groups\":[";
      bool is_first = true;
      for (const std::int64_t cluster : span(groups_.data(), group_start_.data(), rival)) {
        lines_ += is_first ? "[" : ",[";
        put_ids(members(cluster));
        lines_ += ']';
        is_first = false;
      }
      lines_ += "]}";
    }
    lines_ += ']';
  }

  // The next number of a list in JSON.
  void put_number(const char*& at) {
    const char* const begin = at;
    while (*at != ',' && *at != ']') ++at;
    lines_.append(begin, at++);
  }

  // A text as JSON.
  void put(const kb_texts& texts, std::int64_t number) { put(text_of(texts, number)); }

  void put(std::string_view text) {
    const char* at = text.data();
    const char* const end = at + text.size();
    lines_ += '"';
    const char* plain = at;
    for (; at != end; ++at) {
      const unsigned char c = static_cast<unsigned char>(*at);
      if (c >= 0x20 && c != '"' && c != '\\') continue;
      lines_.append(plain, at);
      plain = at + 1;
      lines_ += '\\';
      static constexpr char kShort[] = "btn\0fr";  // of 8 to 13
      if (c == '"' || c == '\\') {
        lines_ += *at;
      } else if (c >= 8 && c <= 13 && kShort[c - 8]) {
        lines_ += kShort[c - 8];
      } else {
        lines_ += c < 0x10 ? "u000" : "u001";
        lines_ += "0123456789abcdef"[c & 15];
      }
    }
    lines_.append(plain, end);
    lines_ += '"';
  }

  struct Run {
    std::size_t begin, end;  // of what is stated
    std::int64_t count;      // fragments
  };

  const kb_groupings groupings_;
  const kb_said said_;
  const std::int64_t most_;
  const double least_;
  // of entities
  std::vector<std::int64_t> member_start_, rival_start_, cell_start_;
  std::vector<std::int32_t> members_;
  std::vector<double> reported_;
  std::vector<std::int64_t> subproblem_;
  // of alternatives, and their groups
  std::vector<double> probability_;
  std::vector<std::int64_t> group_start_, groups_;
  // of what entities state: attributes, their values, and who states them
  std::vector<std::int64_t> value_start_, holder_start_;
  std::vector<std::int32_t> attribute_, value_, holder_;
  std::vector<std::int32_t> best_;  // value of each attribute
  // names, but of those whose numbers are undecided
  std::vector<std::string> names_;
  std::vector<std::int64_t> undecided_;
  std::vector<Said> stated_;
  std::vector<Run> runs_;
  std::vector<Spelling> spellings_;
  std::vector<std::size_t> naming_;
  std::string lines_;
};

}  // namespace kbforge

using kbforge::Entities;

Entities* kb_entities_new(const kb_groupings* groupings, const kb_said* said, std::int64_t most,
                          double least, std::int64_t begin, std::int64_t end, kb_entities* out) {
  Entities* const entities = new Entities(*groupings, *said, most, least);
  entities->assemble(begin, end);
  *out = entities->columns();
  return entities;
}

void kb_entities_free(Entities* entities) { delete entities; }

std::int64_t kb_entities_lines(Entities* entities, const kb_stated_entities* also,
                               const char** out) {
  const std::string& lines = entities->lines(*also);
  *out = lines.data();
  return static_cast<std::int64_t>(lines.size());
}
