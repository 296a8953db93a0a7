// The values of one attribute: what a vocabulary says of each, and how one is made of another.
//
// G(u | v) is that of kbforge_plugins/likelihoods/attributes/urn.py: a mixture of copies, slips of the
// pen, features or words in common, and noise.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "numbers.hpp"
#include "titles.hpp"

namespace kbforge {

struct AttributeRules {
  double concentration;          // c
  double discount;               // power of every base probability
  std::vector<double> weights;   // of G's components, in order: slips, features, noise
  bool numeric;                  // whether slips of the pen concern digits
  std::int64_t alphabet;         // letters that a slip may write
  std::vector<std::uint32_t> letters;  // these, ascending
};

// The draws that one thread asked for lately.
class Draws {
 private:
  friend class Values;
  struct Known {
    std::int32_t u = -1, v = -1;
    double draw = 0.0;
  };
  Known& place_of(std::int32_t u, std::int32_t v);

  std::vector<Known> known_;
  std::vector<double> of_u_, of_v_;
  Masses masses_;
};

// Characters one after another, each of as few bytes as the largest needs.
class Characters {
 public:
  void add(const std::uint32_t* characters, std::size_t n);
  std::size_t size() const { return bytes_.size() / width_; }
  std::uint32_t at(std::size_t place) const { return read(&bytes_[place * width_]); }
  // Those from `begin` up to `end`.
  void copy(std::size_t begin, std::size_t end, std::uint32_t* out) const;

 private:
  std::uint32_t read(const std::uint8_t* byte) const {
    std::uint32_t character = 0;
    for (std::size_t k = 0; k < width_; ++k) character |= std::uint32_t{byte[k]} << (8 * k);
    return character;
  }

  std::size_t width_ = 1;
  std::vector<std::uint8_t> bytes_;
};

class Values {
 public:
  explicit Values(AttributeRules rules);

  // The values to come are titles: words in common count, not features.
  void begin_titles(TitleRules rules);
  // More values, numbered on; arrays as kb_attributes_values says.
  void add(std::int64_t n, const double* base, const std::uint8_t* counted,
           const std::int64_t* char_start, const std::uint32_t* chars,
           const std::int64_t* feature_start, const std::int32_t* names,
           const std::int32_t* features, const double* masses);

  std::int32_t size() const { return static_cast<std::int32_t>(values_.size()); }
  double concentration() const { return rules_.concentration; }
  double log_base(std::int32_t v) const { return values_[v].log_base; }
  // c G(u | elsewhere).
  double draw_elsewhere(std::int32_t u) const {
    return std::max(elsewhere_scale_ * values_[u].base_power, kLeastElsewhere);
  }
  // c G(u | v); threads ask with draws of their own.
  double draw(std::int32_t u, std::int32_t v, Draws& draws) const;
  // G(u | v) where all weight is on one component, summed in the order of the features of u.
  double component(std::int32_t u, std::int32_t v, Draws& draws) const;
  // Whether u is spelled before v, letter by letter.
  bool spelled_before(std::int32_t u, std::int32_t v) const;

 private:
  static constexpr double kLeastElsewhere = 1e-305;

  struct Value {
    double base_power, log_base;
    std::uint64_t letters;  // which there are, by their last six bits
    std::uint32_t char_start, char_end, feature_start, feature_end : 31, counted : 1;
  };
  struct Slip {
    int component;
    double probability;
  };

  void compare(std::int32_t u, std::int32_t v, Draws& draws) const;
  std::pair<double, double> by_features(std::int32_t u, std::int32_t v, Draws& draws) const;
  void work_out_shares(const Value& value, double base, const std::int32_t* names,
                       const double* masses);
  int slips_between(const Value& u, const Value& v) const;
  Slip slip(const Value& observed, const Value& given, int distance) const;
  bool writes_the_alphabet(const Value& observed, const Value& given) const;
  std::vector<std::uint32_t> spelling(const Value& value) const;
  bool is_letter(std::uint32_t character) const;
  std::int64_t letters_in(const Value& value) const;

  AttributeRules rules_;
  std::optional<Titles> titles_;
  double elsewhere_scale_;
  std::vector<Value> values_;
  Characters chars_;
  std::vector<std::int32_t> features_;
  std::vector<double> shares_;  // of each entry of features_, times its weight
  std::size_t room_;            // of the draws asked for lately
};

}  // namespace kbforge
