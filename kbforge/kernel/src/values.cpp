#include "values.hpp"

#include <algorithm>
#include <cstring>

#include "memory.hpp"

namespace kbforge {

namespace {

enum Component { kCopy = 0, kSubstitution = 1, kEdit = 2, kTwoEdits = 3, kSlips = 4 };
constexpr int kMostSlips = 2;
constexpr std::uint32_t kLongestCompared = 120;
constexpr double kLeastRest = 1e-12;
constexpr std::size_t kFewKnown = 1 << 10, kMostKnown = 1 << 16;

// Optimal string alignment with at most two slips; three stands for more.
int alignment(const std::uint32_t* a, int n, const std::uint32_t* b, int m) {
  while (n && m && a[0] == b[0]) ++a, ++b, --n, --m;
  while (n && m && a[n - 1] == b[m - 1]) --n, --m;
  if (std::abs(n - m) > kMostSlips) return kMostSlips + 1;
  if (!n || !m) return std::max(n, m);
  int rows[3][kLongestCompared + 8];
  int *now = rows[0], *last = rows[1], *before = rows[2];
  for (int j = 0; j <= m; ++j) last[j] = j, before[j] = 0;
  for (int i = 1; i <= n; ++i) {
    int best = now[0] = i;
    const int low = std::max(1, i - kMostSlips), high = std::min(m, i + kMostSlips);
    if (low > 1) now[low - 1] = kMostSlips + 1;
    for (int j = low; j <= high; ++j) {
      int fewest = last[j - 1] + (a[i - 1] != b[j - 1]);
      if (j < i + kMostSlips) fewest = std::min(fewest, last[j] + 1);
      fewest = std::min(fewest, now[j - 1] + 1);
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        fewest = std::min(fewest, before[j - 2] + 1);
      }
      now[j] = fewest;
      best = std::min(best, fewest);
    }
    if (best > kMostSlips) return kMostSlips + 1;
    std::swap(before, last);
    std::swap(last, now);
  }
  return std::min(last[m], kMostSlips + 1);
}

std::uint64_t pair_of(std::int32_t u, std::int32_t v) {
  return (static_cast<std::uint64_t>(v) << 32) | static_cast<std::uint32_t>(u);
}

}  // namespace

void Characters::add(const std::uint32_t* characters, std::size_t n) {
  const std::uint32_t largest = n ? *std::max_element(characters, characters + n) : 0;
  const std::size_t needed = largest < 1u << 8 ? 1 : largest < 1u << 16 ? 2 : 3;
  if (needed > width_) {
    std::vector<std::uint8_t> wider(size() * needed, 0);
    for (std::size_t place = 0; place < size(); ++place) {
      std::copy_n(&bytes_[place * width_], width_, &wider[place * needed]);
    }
    bytes_.swap(wider);
    width_ = needed;
  }
  make_room(bytes_, n * width_);
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t byte = 0; byte < width_; ++byte) {
      bytes_.push_back(static_cast<std::uint8_t>(characters[k] >> (8 * byte)));
    }
  }
}

void Characters::copy(std::size_t begin, std::size_t end, std::uint32_t* out) const {
  const std::uint8_t* byte = bytes_.data() + begin * width_;
  if (width_ == 1) {
    std::copy(byte, byte + (end - begin), out);
    return;
  }
  for (; begin < end; ++begin, byte += width_) *out++ = read(byte);
}

Values::Values(AttributeRules rules)
    : rules_(std::move(rules)),
      elsewhere_scale_(rules_.concentration * (1.0 - rules_.weights[kCopy])),
      room_(kFewKnown) {}

void Values::begin_titles(TitleRules rules) {
  rules.discount = rules_.discount;
  rules.noise = rules_.weights.back();
  rules.weights.assign(rules_.weights.begin() + kSlips, rules_.weights.end() - 1);
  titles_.emplace(std::move(rules));
}

void Values::add(std::int64_t n, const double* base, const std::uint8_t* counted,
                 const std::int64_t* char_start, const std::uint32_t* chars,
                 const std::int64_t* feature_start, const std::int32_t* names,
                 const std::int32_t* features, const double* masses) {
  const std::size_t first_char = chars_.size(), first_feature = features_.size();
  make_room(values_, static_cast<std::size_t>(n));
  chars_.add(chars, static_cast<std::size_t>(char_start[n]));
  if (titles_) {
    titles_->add(n, base, counted, feature_start, names, features);
  } else {
    make_room(features_, static_cast<std::size_t>(feature_start[n]));
    make_room(shares_, static_cast<std::size_t>(feature_start[n]));
    features_.insert(features_.end(), features, features + feature_start[n]);
    shares_.resize(features_.size(), 0.0);
  }
  for (std::int64_t k = 0; k < n; ++k) {
    Value value{};
    value.base_power = libm.pow(base[k], rules_.discount);
    value.log_base = rules_.discount * libm.log(base[k]);
    value.char_start = static_cast<std::uint32_t>(first_char + char_start[k]);
    value.char_end = static_cast<std::uint32_t>(first_char + char_start[k + 1]);
    value.feature_start = static_cast<std::uint32_t>(first_feature + feature_start[k]);
    value.feature_end = static_cast<std::uint32_t>(first_feature + feature_start[k + 1]);
    for (std::int64_t at = char_start[k]; at < char_start[k + 1]; ++at) {
      value.letters |= 1ull << (chars[at] & 63);
    }
    value.counted = counted[k] != 0;
    if (!titles_) {
      work_out_shares(value, base[k], names + feature_start[k], masses + feature_start[k]);
    }
    values_.push_back(value);
  }
  // what was asked for lately has room for more of them
  while (room_ < std::min(kMostKnown, 4 * values_.size())) room_ *= 2;
}

Draws::Known& Draws::place_of(std::int32_t u, std::int32_t v) {
  return known_[mixed(pair_of(u, v)) & (known_.size() - 1)];
}

double Values::draw(std::int32_t u, std::int32_t v, Draws& draws) const {
  if (draws.known_.size() < room_) draws.known_.assign(room_, Draws::Known{});
  Draws::Known& known = draws.place_of(u, v);
  if (known.u != u || known.v != v) compare(u, v, draws);
  return known.draw;
}

bool Values::spelled_before(std::int32_t u, std::int32_t v) const {
  const std::vector<std::uint32_t> one = spelling(values_[u]), other = spelling(values_[v]);
  return std::lexicographical_compare(one.begin(), one.end(), other.begin(), other.end());
}

// Remember c G(u | v) and c G(v | u); what was asked for is written last.
void Values::compare(std::int32_t u, std::int32_t v, Draws& draws) const {
  const std::vector<double>& weights = rules_.weights;
  const double c = rules_.concentration;
  if (u == v) {
    draws.place_of(u, u) = Draws::Known{u, u, c * weights[kCopy]};
    return;
  }
  auto chance = titles_ ? titles_->chances(u, v, draws.masses_) : by_features(u, v, draws);
  const Value &one = values_[u], &other = values_[v];
  if (!one.counted) chance.first = weights.back();
  if (!other.counted) chance.second = weights.back();
  double u_given_v = chance.first * one.base_power;
  double v_given_u = chance.second * other.base_power;
  const int distance = slips_between(one, other);
  if (distance <= kMostSlips) {
    const Slip to_u = slip(one, other, distance), to_v = slip(other, one, distance);
    u_given_v += weights[to_u.component] * to_u.probability;
    v_given_u += weights[to_v.component] * to_v.probability;
  }
  draws.place_of(v, u) = Draws::Known{v, u, c * v_given_u};
  draws.place_of(u, v) = Draws::Known{u, v, c * u_given_v};
}

double Values::component(std::int32_t u, std::int32_t v, Draws& draws) const {
  const std::vector<double>& weights = rules_.weights;
  const auto which = std::max_element(weights.begin(), weights.end()) - weights.begin();
  if (u == v) return weights[kCopy];
  const Value &one = values_[u], &other = values_[v];
  if (which < kSlips) {
    const int distance = slips_between(one, other);
    if (distance > kMostSlips) return 0.0;
    const Slip to_u = slip(one, other, distance);
    return to_u.component == which ? to_u.probability : 0.0;
  }
  if (weights.back() > 0.0) return one.base_power;
  if (!one.counted) return 0.0;
  if (titles_) return titles_->chances(u, v, draws.masses_).first * one.base_power;
  double sum = 0.0;
  for (std::uint32_t i = one.feature_start; i < one.feature_end; ++i) {
    for (std::uint32_t j = other.feature_start; j < other.feature_end; ++j) {
      if (features_[i] == features_[j]) sum += shares_[j] * one.base_power;
    }
  }
  return sum;
}

// The weights of noise and of features in common: of u given v, and of v given u.
std::pair<double, double> Values::by_features(std::int32_t u, std::int32_t v, Draws& draws) const {
  const Value &one = values_[u], &other = values_[v];
  draws.of_u_.assign(1, rules_.weights.back());
  draws.of_v_.assign(1, rules_.weights.back());
  for (std::uint32_t i = one.feature_start; i < one.feature_end; ++i) {
    for (std::uint32_t j = other.feature_start; j < other.feature_end; ++j) {
      if (features_[i] != features_[j]) continue;
      draws.of_u_.push_back(shares_[j]);
      draws.of_v_.push_back(shares_[i]);
    }
  }
  return {exact_sum(draws.of_u_.data(), draws.of_u_.size()),
          exact_sum(draws.of_v_.data(), draws.of_v_.size())};
}

// By feature: how probable it is to be the one kept, over what else has it.
void Values::work_out_shares(const Value& value, double base, const std::int32_t* names,
                             const double* masses) {
  const double own = value.counted ? base : 0.0;
  const std::uint32_t n = value.feature_end - value.feature_start;
  for (std::uint32_t i = 0; i < n; ++i) {
    const auto several = static_cast<double>(std::count(names, names + n, names[i]));
    const double rest = masses[i] - own;
    if (rest > kLeastRest) {
      const double share = 1.0 / (libm.pow(rest, rules_.discount) * several);
      shares_[value.feature_start + i] = share * rules_.weights[kSlips + names[i]];
    }
  }
}

int Values::slips_between(const Value& u, const Value& v) const {
  const int n = static_cast<int>(u.char_end - u.char_start);
  const int m = static_cast<int>(v.char_end - v.char_start);
  const int more = kMostSlips + 1;
  if (std::abs(n - m) > kMostSlips || std::max(n, m) > static_cast<int>(kLongestCompared)) {
    return more;
  }
  // a slip puts in one letter and takes out one at most
  if (__builtin_popcountll(u.letters ^ v.letters) > 2 * kMostSlips) return more;
  std::uint32_t one[kLongestCompared], other[kLongestCompared];
  chars_.copy(u.char_start, u.char_end, one);
  chars_.copy(v.char_start, v.char_end, other);
  return alignment(one, n, other, m);
}

std::vector<std::uint32_t> Values::spelling(const Value& value) const {
  std::vector<std::uint32_t> out(value.char_end - value.char_start);
  chars_.copy(value.char_start, value.char_end, out.data());
  return out;
}

bool Values::is_letter(std::uint32_t character) const {
  return std::binary_search(rules_.letters.begin(), rules_.letters.end(), character);
}

std::int64_t Values::letters_in(const Value& value) const {
  std::int64_t count = 0;
  for (auto at = value.char_start; at < value.char_end; ++at) count += is_letter(chars_.at(at));
  return count;
}

Values::Slip Values::slip(const Value& observed, const Value& given, int distance) const {
  const std::int64_t n = given.char_end - given.char_start;
  if (!n || !writes_the_alphabet(observed, given)) return Slip{kSubstitution, 0.0};
  const bool all_letters = given.counted && !rules_.numeric;
  const std::int64_t within = all_letters ? n : letters_in(given);
  const std::int64_t alphabet = rules_.alphabet;
  const std::int64_t others = rules_.numeric ? 0 : (n - within) * alphabet;
  const std::int64_t ways = within * (alphabet - 1) + others;
  const std::int64_t substitutions = std::max<std::int64_t>(ways + n - 1, 1);
  const std::int64_t edits = n + (n + 1) * alphabet;
  if (distance == 2) {
    const std::int64_t either = substitutions + edits;
    return Slip{kTwoEdits, 1.0 / static_cast<double>(either * either)};
  }
  if (observed.char_end - observed.char_start == n) {
    return Slip{kSubstitution, 1.0 / static_cast<double>(substitutions)};
  }
  return Slip{kEdit, 1.0 / static_cast<double>(edits)};
}

// Whether what is new in the observed value is of the alphabet.
bool Values::writes_the_alphabet(const Value& observed, const Value& given) const {
  if (observed.counted && !rules_.numeric) return true;
  std::vector<std::uint32_t> seen = spelling(observed), meant = spelling(given);
  std::sort(seen.begin(), seen.end());
  std::sort(meant.begin(), meant.end());
  std::vector<std::uint32_t> fresh, gone;
  std::set_difference(seen.begin(), seen.end(), meant.begin(), meant.end(),
                      std::back_inserter(fresh));
  const auto letter = [this](std::uint32_t character) { return is_letter(character); };
  if (!std::all_of(fresh.begin(), fresh.end(), letter)) return false;
  if (!rules_.numeric) return true;
  // a sign that is gone from a date or number was deleted: nothing was put in its place
  std::set_difference(meant.begin(), meant.end(), seen.begin(), seen.end(),
                      std::back_inserter(gone));
  const auto signs = static_cast<std::int64_t>(gone.size()) -
                     std::count_if(gone.begin(), gone.end(), letter);
  const auto shorter = static_cast<std::int64_t>(meant.size()) -
                       static_cast<std::int64_t>(seen.size());
  return signs <= std::max<std::int64_t>(shorter, 0);
}

}  // namespace kbforge
