// Similarity of short texts: longest common subsequences, Jaro-Winkler, sets of words.
//
// The numbers are those of RapidFuzz: ratio, token_set_ratio and JaroWinkler.similarity, of texts in
// ASCII, as its functions for many pairs give them, which is rounded to single precision.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace kbforge {

using Text = std::string_view;

// Many texts, one after another; the arrays belong to the caller.
struct Texts {
  const std::int64_t* starts;  // shape [texts + 1]
  const char* letters;

  Text operator[](std::int64_t at) const {
    return {letters + starts[at], static_cast<std::size_t>(starts[at + 1] - starts[at])};
  }
};

// The words of a text, between gaps.
void split_words(Text text, std::vector<Text>& out);

// Compares texts; one for each thread, because it keeps room for its work.
class TextComparer {
 public:
  // 1 less the share of letters that are inserted or deleted, from 0 to 1.
  double similarity(Text a, Text b);
  // The same in percent, in single precision.
  double ratio(Text a, Text b) { return static_cast<float>(similarity(a, b) * 100.0); }
  double jaro_winkler(Text a, Text b);
  // The ratio of what two sets of words have alone, beside what they share, in percent.
  double set_ratio(Text a, Text b);

 private:
  std::size_t common(Text a, Text b);
  void remember(Text text);
  void forget(Text text);
  double jaro(Text a, Text b);

  static constexpr std::size_t kBytes = 256;
  std::vector<std::uint64_t> places_;  // of each byte in a text, as bits, word by word
  std::vector<std::uint64_t> bits_;
  std::vector<char> met_, joined_[2];
  std::vector<Text> words_[2];
};

}  // namespace kbforge
