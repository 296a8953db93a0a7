#include "lines.hpp"

#include <array>

namespace kbforge {

namespace {

constexpr std::size_t kMostBlank = 64;  // so heavy a run of blank lines is left to the Python reader
// Metadata that are deeper or have more keys, and longer numbers, are left to it, too.
constexpr int kMostDepth = 16;
constexpr std::size_t kMostKeys = 32;
constexpr int kMostDigits = 18;  // of a whole number, which then has 64 bits
constexpr int kMostDigitsOfReal = 64, kMostDigitsOfExponent = 2;  // so it is finite

// The bytes that stand for themselves in a JSON string.
constexpr std::array<bool, 256> plain_bytes() {
  std::array<bool, 256> plain{};
  for (int c = 0x20; c < 0x80; ++c) plain[c] = c != '"' && c != '\\';
  return plain;
}
constexpr std::array<bool, 256> kPlain = plain_bytes();

bool is_blank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::uint8_t byte_at(const char* at) { return static_cast<std::uint8_t>(*at); }

bool continues(const char* at) { return (byte_at(at) & 0xC0) == 0x80; }

// Reads one line. Its newline is in no token, so nothing is read beyond it.
class Line {
 public:
  Line(Chunk& chunk, const LineLimits& limits, std::uint64_t seed, bool trusted)
      : chunk_(chunk), limits_(limits), seed_(seed), trusted_(trusted) {}

  // Whether a line is a fragment; then it has been added.
  bool read(const char* at, std::size_t line) {
    at_ = at;
    id_ = label_ = source_ = vector_ = metadata_ = Text{};
    line_ = static_cast<std::uint32_t>(line + 1);
    const std::size_t stated = chunk_.values.size();
    const bool whole = object() && id_.at;
    if (!whole || !(trusted_ || vector_.at || chunk_.values.size() > stated)) {
      chunk_.attributes.resize(stated);
      chunk_.values.resize(stated);
      return false;
    }
    chunk_.ids.push_back(id_);
    chunk_.labels.push_back(label_);
    chunk_.sources.push_back(source_);
    chunk_.rests.push_back(rest());
    chunk_.ends.push_back(chunk_.values.size());
    chunk_.lines.push_back(static_cast<std::uint32_t>(line));
    return true;
  }

 private:
  void skip() {
    while (*at_ == ' ' || *at_ == '\t' || *at_ == '\r') ++at_;
  }

  bool take(char c) {
    skip();
    if (*at_ != c) return false;
    ++at_;
    return true;
  }

  bool take(const char* word, std::size_t size) {
    for (std::size_t k = 0; k < size; ++k) {
      if (at_[k] != word[k]) return false;
    }
    at_ += size;
    return true;
  }

  bool is_null() {
    skip();
    return take("null", 4);
  }

  // The whole line.
  bool object() {
    if (!take('{')) return false;
    unsigned seen = 0;
    do {
      Text key;
      skip();
      if (!raw_string(key) || !take(':')) return false;
      const unsigned before = seen;
      if (!member(key, seen) || seen == before) return false;
    } while (take(','));
    if (!take('}')) return false;
    skip();
    return *at_ == '\n';
  }

  static bool is(const Text& key, const char* name, std::size_t size) {
    return key.size == size && std::memcmp(key.at, name, size) == 0;
  }

  // One member; `seen` has a bit more if its key is new.
  bool member(const Text& key, unsigned& seen) {
    if (is(key, "id", 2)) {
      seen |= 1;
      skip();
      return text(id_, limits_.id);
    }
    if (is(key, "properties", 10)) {
      seen |= 2;
      return is_null() || properties();
    }
    if (is(key, "label", 5)) {
      seen |= 4;
      return is_null() || text(label_, limits_.text);
    }
    if (is(key, "source", 6)) {
      seen |= 8;
      return is_null() || text(source_, limits_.text);
    }
    if (is(key, "metadata", 8)) {
      seen |= 16;
      if (is_null()) return true;
      metadata_.at = at_;
      if (*at_ != '{' || !value(0)) return false;
      metadata_.size = static_cast<std::uint32_t>(at_ - metadata_.at);
      return true;
    }
    if (is(key, "vector", 6)) {
      seen |= 32;
      return is_null() || vector();
    }
    return false;
  }

  bool properties() {
    if (!take('{')) return false;
    if (take('}')) return true;
    std::size_t n = 0;
    do {
      Text name;
      skip();
      if (!text(name, limits_.id) || !take(':') || !take('[')) return false;
      if (++n > limits_.attributes && !trusted_) return false;
      const std::uint32_t attribute = attribute_of(name);
      if (last_line_[attribute] == line_) return false;  // a repeated key
      last_line_[attribute] = line_;
      std::size_t n_values = 0;
      do {
        Text value;
        skip();
        if (!text(value, limits_.text)) return false;
        if (++n_values > limits_.values && !trusted_) return false;
        chunk_.attributes.push_back(attribute);
        chunk_.values.push_back(value);
      } while (take(','));
      if (!take(']')) return false;
    } while (take(','));
    return take('}');
  }

  bool vector() {
    vector_.at = at_;
    std::size_t n = 0;
    if (!take('[')) return false;
    do {
      skip();
      if (!number()) return false;
      if (++n > limits_.dimensions && !trusted_) return false;
    } while (take(','));
    if (!take(']')) return false;
    vector_.size = static_cast<std::uint32_t>(at_ - vector_.at);
    return true;
  }

  // An attribute's number within the chunk.
  std::uint32_t attribute_of(const Text& name) {
    const std::uint32_t found = names_.number(name);
    if (found == chunk_.names.size()) {
      chunk_.names.push_back(name);
      last_line_.push_back(0);
    }
    return found;
  }

  // A string that says something, with its hash.
  bool text(Text& out, std::size_t most) {
    if (*at_ != '"') return false;
    const char* const begin = ++at_;
    while (kPlain[byte_at(at_)]) ++at_;
    if (*at_ == '"') {
      out.at = begin;
      out.size = static_cast<std::uint32_t>(at_++ - begin);
    } else if (!written_string(begin, out)) {
      return false;
    }
    if (!out.size || (out.size > most && !trusted_)) return false;
    out.hash = hash_of(out.at, out.size, seed_);
    return true;
  }

  // The rest of a string that is not plain. It is copied if anything in it is escaped.
  bool written_string(const char* begin, Text& out) {
    char* to = nullptr;
    for (const char* from = begin;;) {
      const std::uint8_t c = byte_at(at_);
      if (kPlain[c]) {
        ++at_;
      } else if (c >= 0x80) {
        const int length = length_of(at_);
        if (!length) return false;
        at_ += length;
      } else if (c == '\\') {
        if (!to) out.at = to = room();
        to = copied(from, to);
        to = escape(to);
        if (!to) return false;
        from = at_;
      } else if (c == '"') {
        if (to) {
          to = copied(from, to);
          room_ = to;
        } else {
          out.at = begin;
          to = const_cast<char*>(at_);
        }
        out.size = static_cast<std::uint32_t>(to - out.at);
        ++at_;
        return true;
      } else {
        return false;
      }
    }
  }

  // Where texts are written. What they are written of is longer, so the chunk's size suffices.
  char* room() {
    if (!chunk_.written) {
      chunk_.written.reset(new char[static_cast<std::size_t>(chunk_.end - chunk_.begin)]);
      room_ = chunk_.written.get();
    }
    return room_;
  }

  char* copied(const char* from, char* to) const {
    std::memcpy(to, from, static_cast<std::size_t>(at_ - from));
    return to + (at_ - from);
  }

  // Write the character of an escape, in at most the bytes of the escape; null: it is none.
  char* escape(char* to) {
    static constexpr char kNames[] = "\"\\/bfnrt", kMeant[] = "\"\\/\b\f\n\r\t";
    ++at_;
    if (*at_ != 'u') {
      for (std::size_t k = 0; kNames[k]; ++k) {
        if (*at_ != kNames[k]) continue;
        *to = kMeant[k];
        ++at_;
        return to + 1;
      }
      return nullptr;
    }
    std::uint32_t code = 0, low = 0;
    if (!hexadecimal(code) || code == 0) return nullptr;
    if (code >= 0xD800 && code < 0xE000) {
      if (code >= 0xDC00 || *at_ != '\\' || *++at_ != 'u' || !hexadecimal(low)) return nullptr;
      if (low < 0xDC00 || low >= 0xE000) return nullptr;
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    }
    return encoded(code, to);
  }

  // The four digits after \u.
  bool hexadecimal(std::uint32_t& code) {
    code = 0;
    for (int k = 0; k < 4; ++k) {
      const char c = *++at_;
      std::uint32_t digit;
      if (is_digit(c)) {
        digit = static_cast<std::uint32_t>(c - '0');
      } else if (c >= 'a' && c <= 'f') {
        digit = static_cast<std::uint32_t>(c - 'a') + 10;
      } else if (c >= 'A' && c <= 'F') {
        digit = static_cast<std::uint32_t>(c - 'A') + 10;
      } else {
        return false;
      }
      code = 16 * code + digit;
    }
    ++at_;
    return true;
  }

  static char* encoded(std::uint32_t code, char* to) {
    if (code < 0x80) {
      *to++ = static_cast<char>(code);
      return to;
    }
    int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
    static constexpr std::uint32_t kFirst[] = {0, 0xC0, 0xE0, 0xF0};
    *to++ = static_cast<char>(kFirst[more] | (code >> (6 * more)));
    while (more--) *to++ = static_cast<char>(0x80 | ((code >> (6 * more)) & 0x3F));
    return to;
  }

  // A string that is not decoded; one with an escape is no key that is compared.
  bool raw_string(Text& out) {
    if (*at_ != '"') return false;
    out.at = ++at_;
    for (;;) {
      while (kPlain[byte_at(at_)]) ++at_;
      if (*at_ == '"') break;
      const int length = length_of(at_);
      if (!length) return false;
      at_ += length;
    }
    out.size = static_cast<std::uint32_t>(at_++ - out.at);
    return true;
  }

  // Any JSON value of the metadata.
  bool value(int depth) {
    skip();
    switch (*at_) {
      case '"': {
        char any[4];
        for (++at_; *at_ != '"';) {
          const std::uint8_t c = byte_at(at_);
          const int length = kPlain[c] ? 1 : c >= 0x80 ? length_of(at_) : 0;
          if (!length && (c != '\\' || !escape(any))) return false;
          at_ += length;
        }
        ++at_;
        return true;
      }
      case '{':
        return depth < kMostDepth && members(depth + 1);
      case '[':
        return depth < kMostDepth && items(depth + 1);
      case 't':
        return take("true", 4);
      case 'f':
        return take("false", 5);
      case 'n':
        return take("null", 4);
      default:
        return number();
    }
  }

  bool items(int depth) {
    ++at_;
    if (take(']')) return true;
    do {
      if (!value(depth)) return false;
    } while (take(','));
    return take(']');
  }

  bool members(int depth) {
    ++at_;
    if (take('}')) return true;
    Text keys[kMostKeys];
    std::size_t n = 0;
    do {
      if (n == kMostKeys) return false;
      skip();
      if (!raw_string(keys[n])) return false;
      for (std::size_t k = 0; k < n; ++k) {
        if (is(keys[k], keys[n].at, keys[n].size)) return false;
      }
      ++n;
      if (!take(':') || !value(depth)) return false;
    } while (take(','));
    return take('}');
  }

  int digits() {
    const char* const begin = at_;
    while (is_digit(*at_)) ++at_;
    const std::ptrdiff_t n = at_ - begin;
    return n > kMostDigitsOfReal ? kMostDigitsOfReal + 1 : static_cast<int>(n);
  }

  bool number() {
    if (*at_ == '-') ++at_;
    const bool zero = *at_ == '0';
    int n = digits();
    bool real = false;
    if (!n || (zero && n > 1)) return false;
    if (*at_ == '.') {
      ++at_;
      const int more = digits();
      if (!more) return false;
      n += more;
      real = true;
    }
    if (*at_ == 'e' || *at_ == 'E') {
      ++at_;
      if (*at_ == '+' || *at_ == '-') ++at_;
      const int more = digits();
      if (!more || more > kMostDigitsOfExponent) return false;
      real = true;
    }
    return n <= (real ? kMostDigitsOfReal : kMostDigits);
  }

  // The row, if the metadata have only that; else `[vector, metadata]` as JSON, which is shorter than
  // its line; nothing if there is neither.
  Text rest() {
    if (!vector_.at) {
      const std::uint32_t row = metadata_.at ? row_of(metadata_) : 0;
      if (row || !metadata_.at) return Text{nullptr, row, 0};
    }
    Text out;
    char* to = room();
    out.at = to;
    *to++ = '[';
    to = appended(vector_, to);
    *to++ = ',';
    to = appended(metadata_, to);
    *to++ = ']';
    room_ = to;
    out.size = static_cast<std::uint32_t>(to - out.at);
    out.hash = hash_of(out.at, out.size, seed_);
    return out;
  }

  // The number of `{"row": number}`, which is above 0 and has 31 bits; 0: it is something else.
  static std::uint32_t row_of(const Text& json) {
    static constexpr char kBegin[] = "{\"row\":";
    constexpr std::uint32_t kSize = sizeof kBegin - 1, kMostOfRow = 9;
    if (json.size < kSize + 2 || std::memcmp(json.at, kBegin, kSize) != 0) return 0;
    const char *at = json.at + kSize, *const end = json.at + json.size - 1;
    if (*at == ' ') ++at;
    if (at == end || end - at > kMostOfRow || *at == '0') return 0;
    std::uint32_t row = 0;
    for (; at < end && is_digit(*at); ++at) row = 10 * row + static_cast<std::uint32_t>(*at - '0');
    return at == end ? row : 0;
  }

  static char* appended(const Text& json, char* to) {
    const Text one = json.at ? json : Text{"null", 4, 0};
    std::memcpy(to, one.at, one.size);
    return to + one.size;
  }

  Chunk& chunk_;
  const LineLimits& limits_;
  const std::uint64_t seed_;
  const bool trusted_;
  const char* at_ = nullptr;
  char* room_ = nullptr;
  Text id_, label_, source_, vector_, metadata_;
  Interner names_;
  std::uint32_t line_ = 0;                // the lines of the chunk so far
  std::vector<std::uint32_t> last_line_;  // that has each attribute
};

}  // namespace

int length_of(const char* at) {
  const std::uint8_t first = byte_at(at);
  if (first < 0xC2 || first > 0xF4 || !continues(at + 1)) return 0;
  if (first < 0xE0) return 2;
  const std::uint8_t second = byte_at(at + 1);
  if (!continues(at + 2)) return 0;
  if (first < 0xF0) {
    const bool overlong = first == 0xE0 && second < 0xA0, surrogate = first == 0xED && second > 0x9F;
    return overlong || surrogate ? 0 : 3;
  }
  const bool overlong = first == 0xF0 && second < 0x90, beyond = first == 0xF4 && second > 0x8F;
  return overlong || beyond || !continues(at + 3) ? 0 : 4;
}

void read_lines(Chunk& chunk, const LineLimits& limits, std::uint64_t seed, bool trusted) {
  Line line(chunk, limits, seed, trusted);
  Doubt run{};  // of blank lines
  for (const char* at = chunk.begin; at < chunk.end; ++chunk.n_lines) {
    const char* const newline =
        static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(chunk.end - at)));
    const char* text = at;
    while (text < newline && is_blank(*text)) ++text;
    const Doubt here{chunk.rows(), chunk.n_lines, static_cast<std::size_t>(at - chunk.begin),
                     static_cast<std::size_t>(newline - at), text == newline};
    if (!here.blank) {
      chunk.all_blank = false;
      chunk.blank = 0;
      if (!line.read(at, chunk.n_lines)) chunk.doubts.push_back(here);
    } else {
      if (!chunk.blank) run = here;
      const char* end = newline;
      while (end > at && end[-1] == '\r') --end;
      chunk.blank += 1 + (static_cast<std::size_t>(end - at) >> 10);
      if (chunk.blank > kMostBlank) {
        chunk.doubts.push_back(run);
        return;
      }
    }
    at = newline + 1;
  }
}

}  // namespace kbforge
