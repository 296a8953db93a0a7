// Digests of texts, features of values and how they are spelled: what is asked for every value of a
// file (kbforge/texts/features.py).
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "api.hpp"
#include "crew.hpp"
#include "numbers.hpp"

namespace {

constexpr std::size_t kBlock = 128;

// BLAKE2b of eight bytes without a key (RFC 7693), of which a digest is the upper 63 bits.
class Blake {
 public:
  Blake() {
    std::copy(kInitial, kInitial + 8, state_);
    state_[0] ^= 0x01010000u ^ 8u;  // one leaf, no key, eight bytes
  }

  void add(const char* bytes, std::size_t n) {
    while (n) {
      if (held_ == kBlock) {  // the last block is told apart, so a full one waits for more
        compress(false);
        held_ = 0;
      }
      const std::size_t some = std::min(n, kBlock - held_);
      std::memcpy(block_ + held_, bytes, some);
      held_ += some, passed_ += some, bytes += some, n -= some;
    }
  }

  std::int64_t digest() {
    std::memset(block_ + held_, 0, kBlock - held_);
    compress(true);
    std::uint64_t turned = 0;  // its bytes stand in the order of their memory
    for (int byte = 0; byte < 8; ++byte) turned = turned << 8 | (state_[0] >> (8 * byte) & 0xff);
    return static_cast<std::int64_t>(turned >> 1);
  }

 private:
  static constexpr std::uint64_t kInitial[8] = {
      0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
      0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};
  // the order of words in the first ten rounds; two more begin again
  static constexpr std::uint8_t kOrder[10][16] = {
      {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
      {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
      {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
      {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
      {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
      {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
      {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
      {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
      {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
      {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0}};

  static std::uint64_t turned(std::uint64_t x, int by) { return x >> by | x << (64 - by); }

  static std::uint64_t word_at(const std::uint8_t* b) {  // whatever the order of the machine's bytes
    const auto half = [](const std::uint8_t* h) {
      return h[0] | static_cast<std::uint32_t>(h[1]) << 8 | static_cast<std::uint32_t>(h[2]) << 16 |
             static_cast<std::uint32_t>(h[3]) << 24;
    };
    return half(b) | static_cast<std::uint64_t>(half(b + 4)) << 32;
  }

  static void mix(std::uint64_t& a, std::uint64_t& b, std::uint64_t& c, std::uint64_t& d,
                  std::uint64_t x, std::uint64_t y) {
    a += b + x;
    d = turned(d ^ a, 32);
    c += d;
    b = turned(b ^ c, 24);
    a += b + y;
    d = turned(d ^ a, 16);
    c += d;
    b = turned(b ^ c, 63);
  }

  void compress(bool last) {
    std::uint64_t m[16], v[16];
    for (int word = 0; word < 16; ++word) m[word] = word_at(block_ + 8 * word);
    std::copy(state_, state_ + 8, v);
    std::copy(kInitial, kInitial + 8, v + 8);
    v[12] ^= passed_;
    if (last) v[14] = ~v[14];
    for (int round = 0; round < 12; ++round) {
      const std::uint8_t* o = kOrder[round % 10];
      mix(v[0], v[4], v[8], v[12], m[o[0]], m[o[1]]);
      mix(v[1], v[5], v[9], v[13], m[o[2]], m[o[3]]);
      mix(v[2], v[6], v[10], v[14], m[o[4]], m[o[5]]);
      mix(v[3], v[7], v[11], v[15], m[o[6]], m[o[7]]);
      mix(v[0], v[5], v[10], v[15], m[o[8]], m[o[9]]);
      mix(v[1], v[6], v[11], v[12], m[o[10]], m[o[11]]);
      mix(v[2], v[7], v[8], v[13], m[o[12]], m[o[13]]);
      mix(v[3], v[4], v[9], v[14], m[o[14]], m[o[15]]);
    }
    for (int word = 0; word < 8; ++word) state_[word] ^= v[word] ^ v[word + 8];
  }

  std::uint64_t state_[8];
  std::uint8_t block_[kBlock] = {};
  std::size_t held_ = 0;
  std::uint64_t passed_ = 0;
};

constexpr std::uint64_t Blake::kInitial[8];
constexpr std::uint8_t Blake::kOrder[10][16];

// As UTF-8 with what are no characters, such as half of a pair, like any other.
void write(std::uint32_t c, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) return put(c);
  if (c < 0x800) return put(0xc0 | c >> 6), put(0x80 | (c & 0x3f));
  if (c < 0x10000) {
    return put(0xe0 | c >> 12), put(0x80 | (c >> 6 & 0x3f)), put(0x80 | (c & 0x3f));
  }
  put(0xf0 | c >> 18), put(0x80 | (c >> 12 & 0x3f)), put(0x80 | (c >> 6 & 0x3f));
  put(0x80 | (c & 0x3f));
}

constexpr std::int64_t kMostOfText = 47, kPart = 512;
constexpr std::size_t kMostWords = 32, kWordsWithInitials = 4, kPrefix = 3;

using Text = std::basic_string<char32_t>;

// The features of values of the kind "text", as `texts.kinds` has them.
class TextFeatures {
 public:
  TextFeatures(std::int64_t n, const std::uint32_t* of_words, const std::int64_t* begin_start,
               const char* beginnings)
      : of_words_(of_words), end_(of_words + n) {
    for (int name = 0; name < 5; ++name) {
      begun_[name].add(beginnings + begin_start[name],
                       static_cast<std::size_t>(begin_start[name + 1] - begin_start[name]));
    }
  }

  // Write the names and digests of a value's features; returns how many there are.
  std::int64_t of(const std::uint32_t* value, std::size_t n, std::int32_t* names,
                  std::int64_t* digests) {
    names_ = names, digests_ = digests, n_ = 0;
    if (!n) return 0;
    text_.assign(value, value + n);
    put(0, text_.substr(0, 1));
    if (n > kPrefix) put(1, text_.substr(0, kPrefix));
    find_words();
    for (const Text& word : words_) put(2, word);
    const std::size_t few = std::min(words_.size(), kWordsWithInitials);
    with_initial_.clear();
    for (std::size_t i = 0; i < few; ++i) {
      for (std::size_t j = 0; j < few; ++j) {
        if (i != j) with_initial_.push_back(words_[i] + U' ' + words_[j][0]);
      }
    }
    if (words_.size() > 1) {
      std::sort(words_.begin(), words_.end());
      Text all = words_[0];
      for (std::size_t i = 1; i < words_.size(); ++i) all += U' ' + words_[i];
      put(3, all);
    }
    std::sort(with_initial_.begin(), with_initial_.end());
    const auto last = std::unique(with_initial_.begin(), with_initial_.end());
    for (auto one = with_initial_.begin(); one != last; ++one) put(4, *one);
    return n_;
  }

 private:
  bool is_of_word(char32_t c) const {
    if (c < 0x80) {
      return (c >= U'a' && c <= U'z') || (c >= U'A' && c <= U'Z') || (c >= U'0' && c <= U'9') ||
             c == U'_';
    }
    return std::binary_search(of_words_, end_, static_cast<std::uint32_t>(c));
  }

  // The first distinct words.
  void find_words() {
    words_.clear();
    std::size_t at = 0;
    while (at < text_.size() && words_.size() < kMostWords) {
      const std::size_t begin = at;
      while (at < text_.size() && is_of_word(text_[at])) ++at;
      if (at > begin) {
        Text word = text_.substr(begin, at - begin);
        if (std::find(words_.begin(), words_.end(), word) == words_.end()) {
          words_.push_back(std::move(word));
        }
      } else {
        ++at;
      }
    }
  }

  void put(int name, const Text& feature) {
    bytes_.clear();
    for (char32_t c : feature) write(c, bytes_);
    Blake hash = begun_[name];
    hash.add(bytes_.data(), bytes_.size());
    names_[n_] = name;
    digests_[n_++] = hash.digest();
  }

  const std::uint32_t *of_words_, *end_;
  Blake begun_[5];
  std::int32_t* names_ = nullptr;
  std::int64_t* digests_ = nullptr;
  std::int64_t n_ = 0;
  Text text_;
  std::vector<Text> words_, with_initial_;
  std::string bytes_;
};

}  // namespace

void kb_digests(std::int64_t n, const std::int64_t* starts, const char* texts, std::int64_t* out) {
  for (std::int64_t k = 0; k < n; ++k) {
    Blake hash;
    hash.add(texts + starts[k], static_cast<std::size_t>(starts[k + 1] - starts[k]));
    out[k] = hash.digest();
  }
}

std::int64_t kb_text_features(std::int64_t n, const std::int64_t* starts,
                              const std::uint32_t* characters, std::int64_t n_of_words,
                              const std::uint32_t* of_words, const std::int64_t* begin_start,
                              const char* beginnings, std::int64_t workers,
                              std::int64_t* out_starts, std::int32_t* names,
                              std::int64_t* digests) {
  const auto count = static_cast<std::size_t>(std::max<std::int64_t>(workers, 1));
  std::vector<TextFeatures> makers(count,
                                   TextFeatures(n_of_words, of_words, begin_start, beginnings));
  out_starts[0] = 0;
  kbforge::share_parts(n, kPart, workers,
                       [&](std::size_t worker, std::int64_t first, std::int64_t end) {
    std::int64_t at = kMostOfText * first;
    for (std::int64_t k = first; k < end; ++k) {
      out_starts[k + 1] = makers[worker].of(
          characters + starts[k], static_cast<std::size_t>(starts[k + 1] - starts[k]), names + at,
          digests + at);
      at += out_starts[k + 1];
    }
  });
  // each part wrote where there is room for the most: now they are put end to end
  for (std::int64_t first = 0; first < n; first += kPart) {
    const std::int64_t end = std::min(n, first + kPart), begin = out_starts[first];
    for (std::int64_t k = first; k < end; ++k) out_starts[k + 1] += out_starts[k];
    const auto size = static_cast<std::size_t>(out_starts[end] - begin);
    std::memmove(names + begin, names + kMostOfText * first, size * sizeof *names);
    std::memmove(digests + begin, digests + kMostOfText * first, size * sizeof *digests);
  }
  return out_starts[n];
}

void kb_spelled(std::int64_t n, const std::int64_t* starts, const std::uint32_t* characters,
                std::int64_t n_letters, const std::uint32_t* letters, const double* logs,
                double other, double end, double least, double* out) {
  double ascii[128];
  std::fill(ascii, ascii + 128, other);
  for (std::int64_t k = 0; k < n_letters; ++k) {
    if (letters[k] < 128) ascii[letters[k]] = logs[k];
  }
  for (std::int64_t k = 0; k < n; ++k) {
    double sum = 0.0;
    for (std::int64_t at = starts[k]; at < starts[k + 1]; ++at) {
      const std::uint32_t c = characters[at];
      if (c < 128) {
        sum += ascii[c];
        continue;
      }
      const std::uint32_t* place = std::lower_bound(letters, letters + n_letters, c);
      sum += place < letters + n_letters && *place == c ? logs[place - letters] : other;
    }
    out[k] = kbforge::libm.exp(std::max(sum + end, least));
  }
}

void kb_first_rows(std::int64_t n, const std::int64_t* starts, const std::int32_t* numbers,
                   std::uint8_t* out) {
  std::vector<std::int32_t> sorted(numbers, numbers + starts[n]);
  std::size_t room = 64;
  while (room < 2 * static_cast<std::size_t>(n)) room *= 2;
  std::vector<std::int32_t> slots(room, -1);
  for (std::int64_t row = 0; row < n; ++row) {
    const auto begin = sorted.begin() + starts[row], end = sorted.begin() + starts[row + 1];
    std::sort(begin, end);
    std::uint64_t hash = 0;
    for (auto at = begin; at < end; ++at) {
      hash = kbforge::mixed(hash ^ static_cast<std::uint32_t>(*at));
    }
    std::size_t at = hash & (room - 1);
    while (slots[at] >= 0) {
      const std::int64_t other = slots[at];
      if (std::equal(begin, end, sorted.begin() + starts[other], sorted.begin() + starts[other + 1])) {
        break;
      }
      at = (at + 1) & (room - 1);
    }
    out[row] = slots[at] < 0;
    if (out[row]) slots[at] = static_cast<std::int32_t>(row);
  }
}

std::int64_t kb_numbered(std::int64_t n, const std::int64_t* digests, std::int32_t* numbers,
                         std::int64_t* first) {
  std::size_t room = 64;
  std::vector<std::int32_t> slots(room, -1);
  std::int64_t found = 0;
  const auto slot_of = [&](std::int64_t digest) {
    std::size_t at = kbforge::mixed(static_cast<std::uint64_t>(digest)) & (room - 1);
    while (slots[at] >= 0 && first[slots[at]] != digest) at = (at + 1) & (room - 1);
    return at;
  };
  for (std::int64_t k = 0; k < n; ++k) {
    const std::size_t at = slot_of(digests[k]);
    numbers[k] = slots[at];
    if (slots[at] >= 0) continue;
    numbers[k] = slots[at] = static_cast<std::int32_t>(found);
    first[found++] = digests[k];
    if (2 * static_cast<std::size_t>(found) < room) continue;
    room *= 2;
    slots.assign(room, -1);
    for (std::int64_t one = 0; one < found; ++one) {
      slots[slot_of(first[one])] = static_cast<std::int32_t>(one);
    }
  }
  return found;
}
