#include "similarity.hpp"

#include <algorithm>

namespace kbforge {

namespace {

bool is_gap(char letter) {
  const auto code = static_cast<unsigned char>(letter);
  return code == 0x20 || (code >= 0x09 && code <= 0x0D) || (code >= 0x1C && code <= 0x1F);
}

std::size_t words_for(std::size_t bits) { return (bits + 63) / 64; }

void append(Text word, std::vector<char>& joined) {
  if (!joined.empty()) joined.push_back(' ');
  joined.insert(joined.end(), word.begin(), word.end());
}

double percent(std::size_t distance, std::size_t length) {
  if (!length) return 100.0;
  return 100.0 - 100.0 * static_cast<double>(distance) / static_cast<double>(length);
}

}  // namespace

void split_words(Text text, std::vector<Text>& out) {
  out.clear();
  std::size_t begin = 0;
  for (std::size_t at = 0; at <= text.size(); ++at) {
    if (at < text.size() && !is_gap(text[at])) continue;
    if (at > begin) out.push_back(text.substr(begin, at - begin));
    begin = at + 1;
  }
}

void TextComparer::remember(Text text) {
  const std::size_t needed = words_for(text.size()) * kBytes;
  if (places_.size() < needed) places_.resize(needed);
  for (std::size_t at = 0; at < text.size(); ++at) {
    places_[at / 64 * kBytes + static_cast<unsigned char>(text[at])] |= std::uint64_t{1} << at % 64;
  }
}

void TextComparer::forget(Text text) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    places_[at / 64 * kBytes + static_cast<unsigned char>(text[at])] = 0;
  }
}

// The length of the longest common subsequence, by bits (Hyyrö 2004).
std::size_t TextComparer::common(Text a, Text b) {
  std::size_t shared = 0;
  while (!a.empty() && !b.empty() && a.front() == b.front()) {
    a.remove_prefix(1);
    b.remove_prefix(1);
    ++shared;
  }
  while (!a.empty() && !b.empty() && a.back() == b.back()) {
    a.remove_suffix(1);
    b.remove_suffix(1);
    ++shared;
  }
  if (a.empty() || b.empty()) return shared;
  if (a.size() > b.size()) std::swap(a, b);
  remember(a);
  const std::size_t words = words_for(a.size());
  if (words == 1) {
    std::uint64_t row = ~std::uint64_t{0};
    for (const char letter : b) {
      const std::uint64_t met = row & places_[static_cast<unsigned char>(letter)];
      row = (row + met) | (row - met);
    }
    shared += static_cast<std::size_t>(__builtin_popcountll(~row));
  } else {
    bits_.assign(words, ~std::uint64_t{0});
    for (const char letter : b) {
      std::uint64_t carry = 0;
      for (std::size_t word = 0; word < words; ++word) {
        const std::uint64_t row = bits_[word];
        const std::uint64_t met = row & places_[word * kBytes + static_cast<unsigned char>(letter)];
        const std::uint64_t with_carry = row + carry;
        const std::uint64_t sum = with_carry + met;
        carry = (with_carry < row) | (sum < met);
        bits_[word] = sum | (row - met);
      }
    }
    for (const std::uint64_t row : bits_) {
      shared += static_cast<std::size_t>(__builtin_popcountll(~row));
    }
  }
  forget(a);
  return shared;
}

double TextComparer::similarity(Text a, Text b) {
  const std::size_t most = a.size() + b.size();
  if (!most) return 1.0;
  const std::size_t distance = most - 2 * common(a, b);
  return 1.0 - static_cast<double>(distance) / static_cast<double>(most);
}

double TextComparer::jaro(Text a, Text b) {
  if (a.empty() && b.empty()) return 1.0;
  if (a.empty() || b.empty()) return 0.0;
  if (a.size() == 1 && b.size() == 1) return a == b ? 1.0 : 0.0;
  const std::size_t longer = std::max(a.size(), b.size());
  const std::size_t reach = longer / 2 ? longer / 2 - 1 : 0;
  remember(a);
  bits_.assign(words_for(a.size()), 0);
  met_.clear();
  for (std::size_t at = 0; at < b.size(); ++at) {
    const std::size_t first = at > reach ? at - reach : 0;
    const std::size_t end = std::min(a.size(), at + reach + 1);
    if (first >= end) break;
    for (std::size_t word = first / 64; word * 64 < end; ++word) {
      std::uint64_t free = places_[word * kBytes + static_cast<unsigned char>(b[at])] & ~bits_[word];
      if (first > word * 64) free &= ~std::uint64_t{0} << (first - word * 64);
      if (end < word * 64 + 64) free &= (std::uint64_t{1} << (end - word * 64)) - 1;
      if (!free) continue;
      bits_[word] |= free & (~free + 1);
      met_.push_back(b[at]);
      break;
    }
  }
  forget(a);
  if (met_.empty()) return 0.0;
  std::size_t place = 0, turned = 0;
  for (std::size_t word = 0; word < bits_.size(); ++word) {
    for (std::uint64_t rest = bits_[word]; rest; rest &= rest - 1) {
      const auto bit = static_cast<std::size_t>(__builtin_ctzll(rest));
      turned += a[word * 64 + bit] != met_[place++];
    }
  }
  const auto found = static_cast<double>(met_.size());
  double sum = 0.0;
  sum += found / static_cast<double>(a.size());
  sum += found / static_cast<double>(b.size());
  sum += (found - static_cast<double>(turned / 2)) / found;
  return sum / 3.0;
}

double TextComparer::jaro_winkler(Text a, Text b) {
  double found = jaro(a, b);
  if (found > 0.7) {
    std::size_t prefix = 0;
    const std::size_t most = std::min({a.size(), b.size(), std::size_t{4}});
    while (prefix < most && a[prefix] == b[prefix]) ++prefix;
    found += static_cast<double>(prefix) * 0.1 * (1.0 - found);
  }
  return static_cast<float>(found);
}

double TextComparer::set_ratio(Text a, Text b) {
  const Text both[2] = {a, b};
  for (int side = 0; side < 2; ++side) {
    std::vector<Text>& words = words_[side];
    split_words(both[side], words);
    if (words.empty()) return 0.0;
    // they are sorted but for one that was cut off
    if (!std::is_sorted(words.begin(), words.end())) std::sort(words.begin(), words.end());
    words.erase(std::unique(words.begin(), words.end()), words.end());
    joined_[side].clear();
  }
  std::size_t shared = 0;  // letters of the words of both, joined
  auto x = words_[0].begin(), y = words_[1].begin();
  while (x != words_[0].end() || y != words_[1].end()) {
    const bool only_y = x == words_[0].end(), only_x = y == words_[1].end();
    const int order = only_y ? 1 : only_x ? -1 : x->compare(*y);
    if (order == 0) {
      shared += x->size() + (shared ? 1 : 0);
      ++x, ++y;
    } else if (order < 0) {
      append(*x++, joined_[0]);
    } else {
      append(*y++, joined_[1]);
    }
  }
  const Text rest[2] = {{joined_[0].data(), joined_[0].size()},
                        {joined_[1].data(), joined_[1].size()}};
  if (shared && (rest[0].empty() || rest[1].empty())) return 100.0;
  const std::size_t gap = shared ? 1 : 0;
  const std::size_t whole[2] = {shared + gap + rest[0].size(), shared + gap + rest[1].size()};
  const std::size_t distance = rest[0].size() + rest[1].size() - 2 * common(rest[0], rest[1]);
  double found = percent(distance, whole[0] + whole[1]);
  if (shared) {
    for (const int side : {0, 1}) {
      found = std::max(found, percent(gap + rest[side].size(), shared + whole[side]));
    }
  }
  return static_cast<float>(found);
}

}  // namespace kbforge
