#include "titles.hpp"

#include <algorithm>
#include <iterator>

#include "memory.hpp"
#include "numbers.hpp"

namespace kbforge {

namespace {

constexpr double kLeastRest = 1e-12;
constexpr std::size_t kFewKnown = 1 << 8, kMostKnown = 1 << 14;
constexpr std::size_t kPowers = 4;  // of a retention

}  // namespace

Titles::Titles(TitleRules rules)
    : rules_(std::move(rules)),
      has_digit_(rules_.starts.size() - 1),
      starts_(1, 0),
      room_(kFewKnown) {}

void Titles::add(std::int64_t n, const double* base, const std::uint8_t* counted,
                 const std::int64_t* word_start, const std::int32_t* digits,
                 const std::int32_t* words) {
  make_room(own_, static_cast<std::size_t>(n));
  make_room(starts_, static_cast<std::size_t>(n));
  make_room(words_, static_cast<std::size_t>(word_start[n]));
  std::size_t longest = 0;
  for (std::int64_t k = 0; k < n; ++k) {
    own_.push_back(counted[k] ? base[k] : 0.0);
    const auto first = static_cast<std::ptrdiff_t>(words_.size());
    words_.insert(words_.end(), words + word_start[k], words + word_start[k + 1]);
    std::sort(words_.begin() + first, words_.end());
    words_.erase(std::unique(words_.begin() + first, words_.end()), words_.end());
    starts_.push_back(static_cast<std::uint32_t>(words_.size()));
    longest = std::max(longest, words_.size() - static_cast<std::size_t>(first));
    for (std::int64_t at = word_start[k]; at < word_start[k + 1]; ++at) {
      const auto word = static_cast<std::size_t>(words[at]);
      if (digits[at] && word < has_digit_.size()) has_digit_[word] = true;
    }
  }
  const std::vector<double>& kept = rules_.retentions;
  while (powers_.size() < (longest + 1) * 2 * kept.size()) {
    const auto exponent = static_cast<double>(powers_.size() / (2 * kept.size()));
    for (double share : kept) {
      powers_.push_back(libm.pow(share, exponent));
      powers_.push_back(libm.pow(1.0 - share, exponent));
    }
  }
  while (room_ < std::min(kMostKnown, own_.size())) room_ *= 2;
}

std::pair<double, double> Titles::chances(std::int32_t u, std::int32_t v, Masses& asked) const {
  const Words one = words_of(u), other = words_of(v);
  asked.common_.clear();
  std::set_intersection(one.first, one.second, other.first, other.second,
                        std::back_inserter(asked.common_));
  if (asked.common_.empty()) return {rules_.noise, rules_.noise};
  const double all = mass(asked);
  return {chance_given(v, asked.common_, all), chance_given(u, asked.common_, all)};
}

Titles::Words Titles::words_of(std::int32_t v) const {
  return {words_.data() + starts_[v], words_.data() + starts_[v + 1]};
}

// The base probability of all counted titles that have every common word.
double Titles::mass(Masses& asked) const {
  if (asked.known_.size() < room_) asked.known_.assign(room_, Masses::Known{});
  std::uint64_t hash = 0;
  for (std::int32_t word : asked.common_) hash = mixed(hash ^ static_cast<std::uint32_t>(word));
  Masses::Known& known = asked.known_[hash & (asked.known_.size() - 1)];
  if (known.words != asked.common_) {
    known.words = asked.common_;
    known.mass = work_out_mass(asked);
  }
  return known.mass;
}

double Titles::work_out_mass(Masses& asked) const {
  const auto n_words = static_cast<std::int32_t>(has_digit_.size());
  if (asked.common_.back() >= n_words) return 0.0;
  auto& holders = asked.holders_;
  holders.clear();
  for (std::int32_t word : asked.common_) {
    const std::int32_t* all = rules_.holders.data();
    holders.emplace_back(all + rules_.starts[word], all + rules_.starts[word + 1]);
  }
  std::sort(holders.begin(), holders.end(), [](const auto& a, const auto& b) {
    return a.second - a.first < b.second - b.first;
  });
  std::vector<std::int32_t>& texts = asked.texts_;
  texts.assign(holders[0].first, holders[0].second);
  for (std::size_t k = 1; k < holders.size(); ++k) {
    const std::int32_t *at = holders[k].first, *const end = holders[k].second;
    auto kept = texts.begin();
    for (std::int32_t text : texts) {
      at = std::lower_bound(at, end, text);
      if (at == end) break;
      if (*at == text) *kept++ = text;
    }
    texts.erase(kept, texts.end());
  }
  asked.bases_.clear();
  for (std::int32_t text : texts) asked.bases_.push_back(rules_.bases[text]);
  return exact_sum(asked.bases_.data(), asked.bases_.size());
}

// The weight of noise and of these words of title v being kept.
double Titles::chance_given(std::int32_t v, const std::vector<std::int32_t>& common,
                            double mass) const {
  const double rest = mass - own_[v];
  if (rest <= kLeastRest) return rules_.noise;
  const double others = libm.pow(rest, rules_.discount);
  const Words words = words_of(v);
  const std::int64_t n = words.second - words.first, n_common = common.size();
  const std::int64_t digits = digits_in(words.first, words.second);
  const std::int64_t kept_digits = digits_in(common.data(), common.data() + n_common);
  const std::int64_t kept = n_common - kept_digits;
  const std::size_t width = kPowers * rules_.weights.size();
  double sum = 0.0;
  for (std::size_t k = 0; k < rules_.weights.size(); ++k) {
    const double* power = powers_.data() + kPowers * k;
    const double share = power[width * kept] * power[width * (n - digits - kept) + 1] *
                         power[width * kept_digits + 2] * power[width * (digits - kept_digits) + 3];
    sum += rules_.weights[k] * (share / others);
  }
  return rules_.noise + sum;
}

// How many of the words have a digit; one that is not the vocabulary's counts as having none.
std::int64_t Titles::digits_in(const std::int32_t* begin, const std::int32_t* end) const {
  const auto n_words = static_cast<std::int32_t>(has_digit_.size());
  return std::count_if(begin, end, [this, n_words](std::int32_t word) {
    return word < n_words && has_digit_[word];
  });
}

}  // namespace kbforge
