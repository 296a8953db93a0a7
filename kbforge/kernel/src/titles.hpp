// Titles by their words: how probable one is as a variant of another.
//
// The model is that of kbforge_plugins/likelihoods/attributes/vocabulary.py: a variant keeps some
// words and is drawn from all counted titles that have these.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace kbforge {

struct TitleRules {
  double discount;                   // power of every base probability
  double noise;                      // the weight of G's last component
  std::vector<double> weights;       // of the retentions, in order
  std::vector<double> retentions;    // of each, how probable a word is kept, and one with a digit
  std::vector<std::int64_t> starts;  // where the holders of each word of the vocabulary begin
  std::vector<std::int32_t> holders;  // the counted titles that have it, ascending
  std::vector<double> bases;         // of counted titles, as holders number them
};

// The masses of sets of words that one thread asked for lately.
class Masses {
 private:
  friend class Titles;
  struct Known {
    std::vector<std::int32_t> words;
    double mass = 0.0;
  };
  using Holders = std::pair<const std::int32_t*, const std::int32_t*>;

  std::vector<Known> known_;
  std::vector<std::int32_t> common_, texts_;
  std::vector<Holders> holders_;
  std::vector<double> bases_;
};

class Titles {
 public:
  explicit Titles(TitleRules rules);

  // More titles, numbered on: of each its base probability, whether it was counted, and its words by
  // number, with whether they have a digit. Numbers beyond the vocabulary's are of words without
  // holders.
  void add(std::int64_t n, const double* base, const std::uint8_t* counted,
           const std::int64_t* word_start, const std::int32_t* digits, const std::int32_t* words);
  // The weights of noise and of words in common: of u given v, and of v given u.
  std::pair<double, double> chances(std::int32_t u, std::int32_t v, Masses& asked) const;

 private:
  using Words = std::pair<const std::int32_t*, const std::int32_t*>;

  Words words_of(std::int32_t v) const;
  double mass(Masses& asked) const;
  double work_out_mass(Masses& asked) const;
  double chance_given(std::int32_t v, const std::vector<std::int32_t>& common, double mass) const;
  std::int64_t digits_in(const std::int32_t* begin, const std::int32_t* end) const;

  TitleRules rules_;
  std::vector<bool> has_digit_;  // by word of the vocabulary
  std::vector<double> own_;      // of each title what it adds to the mass of its words
  std::vector<std::uint32_t> starts_;
  std::vector<std::int32_t> words_;  // of each title, ascending
  std::vector<double> powers_;  // by exponent: of each retention, words kept and left out, without and with digits
  std::size_t room_;            // of the masses asked for lately
};

}  // namespace kbforge
