#include "spelling.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <tuple>

#include "api.hpp"
#include "crc.hpp"

namespace kbforge {

namespace {

using Text = std::string_view;

constexpr std::size_t kLong = 1000;        // a longer text has one spelling
constexpr std::size_t kMost = 32;          // values that are compared
constexpr std::size_t kCharacters = 128;   // of a value
constexpr std::uint32_t kPlaces = 1 << 23;
constexpr double kSlip = 3.0, kShared = 0.5;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= '\x1f'); }
char lowered(char c) { return is_upper(c) ? static_cast<char>(c + 32) : c; }

template <typename Is>
bool any(Text text, const Is& is) {
  return std::any_of(text.begin(), text.end(), is);
}

bool has_both_cases(Text text) { return any(text, is_upper) && any(text, is_lower); }
bool is_address(Text text) { return text.find('@') != Text::npos || text.find("://") != Text::npos; }

Text stripped(Text text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::vector<Text> split(Text text) {
  std::vector<Text> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    while (at < text.size() && !is_space(text[at])) ++at;
    if (at > begin) words.push_back(text.substr(begin, at - begin));
    ++at;
  }
  return words;
}

// [+-]?\d*[.,]?\d+
bool is_number(Text text) {
  if (!text.empty() && (text[0] == '+' || text[0] == '-')) text.remove_prefix(1);
  if (text.empty() || !is_digit(text.back())) return false;
  std::size_t marks = 0;
  for (const char c : text) {
    if (c == '.' || c == ',') ++marks;
    else if (!is_digit(c)) return false;
  }
  return marks < 2;
}

// The key of all spellings of a value: its words without case; with digits, one word.
std::string value_of(Text text) {
  if (text.size() > kLong) return std::string(text);
  std::string plain(text);
  std::transform(plain.begin(), plain.end(), plain.begin(), lowered);
  if (is_number(plain)) return plain;
  std::string spaced;
  bool has_digit = false;
  for (const char c : plain) {
    if (c == '\'' || c == '`' || c == '.') continue;
    has_digit |= is_digit(c);
    spaced += is_digit(c) || is_lower(c) ? c : ' ';
  }
  const std::vector<Text> words = split(spaced);
  if (words.empty()) return std::string(text);
  std::string out;
  for (std::size_t k = 0; k < words.size(); ++k) {
    const bool is_one = has_digit || (k && words[k].size() == 1 && words[k - 1].size() == 1);
    if (k && !is_one) out += ' ';  // "s. a." is "sa"
    out += words[k];
  }
  return out;
}

// "B, A" turned into "A B"; nothing without such a comma or with digits.
std::string turned(Text text) {
  const std::size_t comma = text.find(',');
  if (comma == Text::npos || any(text, is_digit)) return "";
  const Text last = stripped(text.substr(0, comma)), first = stripped(text.substr(comma + 1));
  if (first.find(',') != Text::npos || last.empty() || first.empty()) return "";
  return std::string(first) + ' ' + std::string(last);
}

std::int64_t rare_words(Text text, const FrequentWords& words) {
  std::vector<std::int32_t> places;
  places_of(text, places);
  const std::int64_t mask = 8 * words.bytes - 1;
  return std::count_if(places.begin(), places.end(), [&](std::int64_t place) {
    return !(words.bits[(place & mask) >> 3] >> (place & 7) & 1);
  });
}

// Edits: insertions, deletions, substitutions, and transpositions of neighbours that are edited once.
std::size_t edits(Text a, Text b) {
  std::array<std::array<std::size_t, kCharacters + 1>, 3> rows;
  for (std::size_t j = 0; j <= b.size(); ++j) rows[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    auto &row = rows[i % 3], &above = rows[(i + 2) % 3], &before = rows[(i + 1) % 3];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
  }
  return rows[a.size() % 3][b.size()];
}

// A value by its first characters.
struct Cut {
  std::string value;
  Text text;
  std::vector<Text> words;
  std::int64_t weight;
};

// Whether a spelling is a value with some words reduced to initials.
bool abbreviates(const std::vector<Text>& ours, const std::vector<Text>& theirs) {
  if (ours.size() != theirs.size() || ours.size() < 2) return false;
  bool some = false, is_short = false;
  for (std::size_t k = 0; k < ours.size(); ++k) {
    const bool same = ours[k] == theirs[k];
    const bool initial = ours[k].size() == 1 && theirs[k][0] == ours[k][0];
    if (!same && !initial) return false;
    some |= same;
    is_short |= ours[k].size() == 1;
  }
  return some && is_short;
}

double nearness(const Cut& spelling, const Cut& value) {
  if (spelling.value == value.value || abbreviates(spelling.words, value.words)) return 1.0;
  const double longer = static_cast<double>(std::max(spelling.text.size(), value.text.size()));
  const double alike = 1 - kSlip * static_cast<double>(edits(spelling.text, value.text)) / longer;
  std::vector<Text> ours(spelling.words), theirs(value.words), both;
  for (std::vector<Text>* words : {&ours, &theirs}) {
    std::sort(words->begin(), words->end());
    words->erase(std::unique(words->begin(), words->end()), words->end());
  }
  double shared = 0.0;
  if (ours.size() + theirs.size() > 2) {
    std::set_intersection(ours.begin(), ours.end(), theirs.begin(), theirs.end(),
                          std::back_inserter(both));
    for (const Text word : both) shared += static_cast<double>(word.size());
  }
  return std::max({0.0, alike, kShared * shared / longer});
}

// A sum in units of 10^-9: sums differ in their last bits.
std::int64_t rounded(double sum) {
  char digits[64];
  std::snprintf(digits, sizeof digits, "%.9f", sum);
  std::string plain;
  std::copy_if(digits, digits + std::char_traits<char>::length(digits), std::back_inserter(plain),
               is_digit);
  return std::atoll(plain.c_str());
}

// What spells a value.
struct Value {
  std::int64_t weight = 0;
  std::vector<std::size_t> allowed;  // of the spellings to choose from
};
using Values = std::map<std::string, Value>;

// The most stated values, ascending; a checksum breaks ties.
std::vector<Cut> first_of(std::vector<Values::const_iterator> some) {
  if (some.size() > kMost) {
    std::vector<std::tuple<std::int64_t, std::uint32_t, std::size_t>> order;
    for (std::size_t k = 0; k < some.size(); ++k) {
      order.emplace_back(-some[k]->second.weight, crc32(some[k]->first), k);
    }
    std::partial_sort(order.begin(), order.begin() + kMost, order.end());
    std::vector<Values::const_iterator> kept;
    for (std::size_t k = 0; k < kMost; ++k) kept.push_back(some[std::get<2>(order[k])]);
    some.swap(kept);
  }
  std::vector<Cut> out(some.size());
  for (std::size_t k = 0; k < some.size(); ++k) {
    out[k].value = some[k]->first;
    out[k].weight = some[k]->second.weight;
    out[k].text = Text(some[k]->first).substr(0, kCharacters);
    out[k].words = split(out[k].text);
  }
  return out;
}

// Keep the values, among equally frequent ones, that are nearest to all spellings.
void keep_nearest(const Values& values, std::vector<Values::const_iterator>& best) {
  std::vector<Values::const_iterator> all;
  for (auto at = values.begin(); at != values.end(); ++at) all.push_back(at);
  const std::vector<Cut> spellings = first_of(all);
  std::vector<Values::const_iterator> nearest;
  std::int64_t most = -1;
  for (const Cut& value : first_of(best)) {
    double sum = 0.0;
    for (const Cut& spelling : spellings) {
      sum += static_cast<double>(spelling.weight) * nearness(spelling, value);
    }
    const std::int64_t here = rounded(sum);
    if (here < most) continue;
    if (here > most) nearest.clear();
    most = here;
    nearest.push_back(values.find(value.value));
  }
  best.swap(nearest);
}

}  // namespace

bool is_plain(Text text) {
  return !any(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
}

void places_of(Text text, std::vector<std::int32_t>& places) {
  if (text.size() > kLong || any(text, is_digit) || is_address(text)) return;
  const std::string value = value_of(text);
  for (const Text word : split(value)) {
    places.push_back(static_cast<std::int32_t>(crc32(word) & (kPlaces - 1)));
  }
}

std::size_t best_spelling(const std::vector<Spelling>& stated, const std::vector<std::size_t>& among,
                          const FrequentWords& words) {
  if (stated.size() == 1) return 0;
  std::vector<std::string> value_by(stated.size()), turned_by(stated.size());
  std::vector<std::string> others;  // values of texts that are not turned around
  bool is_any = false;
  for (std::size_t k = 0; k < stated.size(); ++k) {
    value_by[k] = value_of(stated[k].text);
    turned_by[k] = turned(stated[k].text);
    if (turned_by[k].empty()) others.push_back(value_by[k]);
    is_any |= !turned_by[k].empty();
  }
  if (is_any) {
    std::sort(others.begin(), others.end());
    const auto is_other = [&](const std::string& value) {
      return std::binary_search(others.begin(), others.end(), value);
    };
    for (std::size_t k = 0; k < stated.size(); ++k) {
      if (turned_by[k].empty()) continue;
      const std::string value = value_of(turned_by[k]);
      if (!is_other(value) && is_other(value_by[k])) {
        turned_by[k].clear();
      } else {
        value_by[k] = value;
      }
    }
  }
  Values values;
  for (std::size_t k = 0; k < stated.size(); ++k) values[value_by[k]].weight += stated[k].count;
  const auto allow = [&](std::size_t k) { values[value_by[k]].allowed.push_back(k); };
  for (std::size_t k = 0; among.empty() && k < stated.size(); ++k) allow(k);
  for (const std::size_t k : among) allow(k);
  std::vector<Values::const_iterator> best;
  for (auto at = values.begin(); at != values.end(); ++at) {
    if (at->second.allowed.empty()) continue;
    if (!best.empty() && best[0]->second.weight > at->second.weight) continue;
    if (!best.empty() && best[0]->second.weight < at->second.weight) best.clear();
    best.push_back(at);
  }
  if (best.size() > 1) keep_nearest(values, best);
  if (best.size() > 1 && words.bits) {
    std::vector<std::int64_t> rare;
    for (const auto& value : best) {
      std::int64_t least = rare_words(stated[value->second.allowed[0]].text, words);
      for (const std::size_t k : value->second.allowed) {
        least = std::min(least, rare_words(stated[k].text, words));
      }
      rare.push_back(least);
    }
    const std::int64_t fewest = *std::min_element(rare.begin(), rare.end());
    std::vector<Values::const_iterator> kept;
    for (std::size_t k = 0; k < best.size(); ++k) {
      if (rare[k] == fewest) kept.push_back(best[k]);
    }
    best.swap(kept);
  }
  std::vector<std::size_t> texts;
  for (const auto& value : best) {
    texts.insert(texts.end(), value->second.allowed.begin(), value->second.allowed.end());
  }
  const auto has_space = [&](std::size_t k) { return stated[k].text.find(' ') != Text::npos; };
  const bool is_written = std::any_of(texts.begin(), texts.end(), [&](std::size_t k) {
    return has_space(k) && has_both_cases(stated[k].text);
  });
  const auto rank = [&](std::size_t k) {
    const Text text = stated[k].text;
    const bool lower = any(text, is_lower), upper = any(text, is_upper);
    const bool is_cased = is_address(text) ? lower && !upper : lower && upper;
    return std::make_tuple(!turned_by[k].empty(), is_written && has_space(k) && upper && !lower,
                           -stated[k].count, text.find(',') != Text::npos, !is_cased,
                           -static_cast<std::int64_t>(text.size()), text);
  };
  return *std::min_element(texts.begin(), texts.end(),
                           [&](std::size_t a, std::size_t b) { return rank(a) < rank(b); });
}

}  // namespace kbforge

std::int64_t kb_words_places(const kb_texts* texts, std::int32_t* sizes, std::int32_t* out) {
  std::vector<std::int32_t> places;
  std::int64_t n = 0;
  for (std::int64_t k = 0; k < texts->n; ++k) {
    const std::string_view text(texts->bytes + texts->starts[k],
                                static_cast<std::size_t>(texts->starts[k + 1] - texts->starts[k]));
    places.clear();
    sizes[k] = -1;
    if (!kbforge::is_plain(text)) continue;
    kbforge::places_of(text, places);
    sizes[k] = static_cast<std::int32_t>(places.size());
    n = std::copy(places.begin(), places.end(), out + n) - out;
  }
  return n;
}

void kb_words_count(std::int64_t n, const std::int64_t* starts, const std::int32_t* attribute,
                    const std::int32_t* value, const std::int64_t* first, const std::int64_t* begins,
                    const std::int32_t* places, std::uint8_t* several) {
  std::vector<std::int32_t> own;
  for (std::int64_t fragment = 0; fragment < n; ++fragment) {
    own.clear();
    for (std::int64_t at = starts[fragment]; at < starts[fragment + 1]; ++at) {
      const std::int64_t text = first[attribute[at]] + value[at];
      own.insert(own.end(), places + begins[text], places + begins[text + 1]);
    }
    std::sort(own.begin(), own.end());
    own.erase(std::unique(own.begin(), own.end()), own.end());
    for (const std::int32_t place : own) several[place] += several[place] < 2;
  }
}
