#include "known.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "api.hpp"
#include "numbers.hpp"

namespace kbforge {

namespace {

constexpr std::size_t kMostParts = 5, kMostWords = 12, kLongestAcronym = 8, kWordsOfForm = 3;
constexpr std::size_t kMostCompared = 36;  // pairs of words; names that differ in more are long titles
constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

using Words = std::vector<std::string>;

bool is_gap(char c) { return c == ' ' || (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x1F); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_of_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}
bool separates(char c) { return c && std::strchr(",;:|()[]", c); }

bool is_small(Text word) {
  static const Text kSmall[] = {"of", "at", "in", "de", "des", "du", "di",  "del", "della",
                                "do", "da", "der", "fur", "for", "van", "von", "zu"};
  return std::find(std::begin(kSmall), std::end(kSmall), word) != std::end(kSmall);
}

std::size_t skip_gaps(Text text, std::size_t at) {
  while (at < text.size() && is_gap(text[at])) ++at;
  return at;
}

// Where a separator that begins here ends; the same place: there is none.
std::size_t end_of_separator(Text text, std::size_t begin) {
  const std::size_t at = skip_gaps(text, begin);
  std::size_t end = at;
  while (end < text.size() && separates(text[end])) ++end;
  if (end > at) return skip_gaps(text, end);
  if (at == begin || at == text.size()) return begin;
  // between gaps: a dash or a slash, or a small word
  end = at + 1;
  if (text[at] != '-' && text[at] != '/') {
    while (end < text.size() && !is_gap(text[end])) ++end;
    if (!is_small(text.substr(at, end - at))) return begin;
  }
  const std::size_t next = skip_gaps(text, end);
  return next > end ? next : begin;
}

// The words of a part; words with dots or slashes, such as "s.a." and "a/s", stay whole.
Words words_of(Text part) {
  Words words;
  bool within = false;
  for (std::size_t at = 0; at < part.size(); ++at) {
    const char c = part[at];
    const bool slash = c == '/' && at > 0 && is_of_word(part[at - 1]) &&
                       (at == 1 || !is_of_word(part[at - 2])) && at + 1 < part.size() &&
                       is_of_word(part[at + 1]) &&
                       (at + 2 == part.size() || !is_of_word(part[at + 2]));
    if (c == '.' || slash) continue;
    if (!is_of_word(c)) {
      within = false;
      continue;
    }
    if (!within) words.emplace_back();
    words.back().push_back(c);
    within = true;
  }
  return words;
}

std::string joined(const Words& words, std::size_t first, const char* gap) {
  std::string out;
  for (std::size_t at = first; at < words.size(); ++at) {
    if (at > first) out += gap;
    out += words[at];
  }
  return out;
}

std::uint64_t hash_of(Text text) {
  std::uint64_t hash = 0xCBF29CE484222325ull;  // FNV-1a, mixed
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3ull;
  return mixed(hash);
}

Readings::Part part_of(Text text) {
  return {hash_of(text), static_cast<std::uint32_t>(text.size())};
}

bool before(const Readings::Part& one, const Readings::Part& other) {
  return one.hash < other.hash;
}
bool same(const Readings::Part& one, const Readings::Part& other) {
  return one.hash == other.hash;
}

// Sort the entries from a place on, and have each once.
template <typename Entry, typename Before, typename Same>
void have_once(std::vector<Entry>& all, std::size_t first, Before less, Same equal) {
  const auto begin = all.begin() + static_cast<std::ptrdiff_t>(first);
  std::sort(begin, all.end(), less);
  all.erase(std::unique(begin, all.end(), equal), all.end());
}

// A short text as a number; letters are not 0.
std::uint64_t packed(Text text) {
  std::uint64_t number = 0;
  for (const char c : text) number = number << 8 | static_cast<unsigned char>(c);
  return number;
}

std::uint64_t acronym_of(const Words& words) {
  std::uint64_t number = 0;
  for (const std::string& word : words) number = number << 8 | static_cast<unsigned char>(word[0]);
  return number;
}

std::string spelled(const std::string& form) {
  static const char* const kSame[][2] = {{"company", "co"},
                                         {"corporation", "corp"},
                                         {"incorporated", "inc"},
                                         {"limited", "ltd"},
                                         {"unlimited", "unltd"}};
  for (const auto& pair : kSame) {
    if (form == pair[0]) return pair[1];
  }
  return form;
}

struct Stripped {
  Words core, legal;
};

// The words of a core, and the legal forms that were taken from its ends.
Stripped stripped(Words words, const Knowledge& known) {
  Stripped out;
  for (bool found = true; found;) {
    found = false;
    for (std::size_t n = std::min(kWordsOfForm, words.size() - 1); n > 0 && !found; --n) {
      const std::string ending = joined(words, words.size() - n, " ");
      if (!known.is_form(ending)) continue;
      out.legal.push_back(spelled(ending));
      words.resize(words.size() - n);
      found = true;
    }
  }
  // in front only what is no common short word
  std::size_t first = 0;
  while (words.size() - first > 1 && words[first].size() > 2 && known.is_form(words[first])) {
    out.legal.push_back(spelled(words[first++]));
  }
  words.erase(words.begin(), words.begin() + static_cast<std::ptrdiff_t>(first));
  for (const std::string& word : words) {
    if (!known.is_silent(word)) out.core.push_back(word);
  }
  if (out.core.empty()) out.core = words;
  if (out.core.size() > kMostWords) out.core.resize(kMostWords);
  return out;
}

// The number that digits state, with or without "st", "nd", "rd", "th"; "" if there is none.
Text digits_of(Text word) {
  std::size_t end = 0;
  while (end < word.size() && is_digit(word[end])) ++end;
  const Text rest = word.substr(end);
  if (!rest.empty() && rest != "st" && rest != "nd" && rest != "rd" && rest != "th") return {};
  Text digits = word.substr(0, end);
  while (digits.size() > 1 && digits[0] == '0') digits.remove_prefix(1);
  return digits.size() > 9 ? Text{} : digits;
}

// The value of a Roman number below 40; -1 of other words.
int roman(Text word) {
  int tens = 0;
  while (tens < 3 && !word.empty() && word[0] == 'x') {
    word.remove_prefix(1);
    ++tens;
  }
  static const Text kUnits[] = {"", "i", "ii", "iii", "iv", "v", "vi", "vii", "viii", "ix"};
  const auto* const found = std::find(std::begin(kUnits), std::end(kUnits), word);
  return found == std::end(kUnits) ? -1 : 10 * tens + static_cast<int>(found - kUnits);
}

// The number that a word of a core states; a Roman one of one letter counts only at the end.
std::string number_of(const Words& words, std::size_t at) {
  static const Text kOrdinals[] = {"first", "second",  "third",  "fourth", "fifth",
                                   "sixth", "seventh", "eighth", "ninth",  "tenth"};
  const std::string& word = words[at];
  const Text digits = digits_of(word);
  if (!digits.empty()) return std::string(digits);
  const auto* const ordinal = std::find(std::begin(kOrdinals), std::end(kOrdinals), word);
  if (ordinal != std::end(kOrdinals)) return std::to_string(ordinal - kOrdinals + 1);
  if (word.size() == 1 && (at == 0 || at + 1 < words.size())) return {};
  const int value = roman(word);
  return value < 0 ? std::string() : std::to_string(value);
}

// Whether a word abbreviates another: as its beginning, or as some of its letters in order with the
// last one.
bool abbreviates(Text brief, Text full) {
  if (full.substr(0, brief.size()) == brief) return true;
  if (brief.back() != full.back()) return false;
  std::size_t at = 0;
  for (const char c : full) at += at < brief.size() && c == brief[at];
  return at == brief.size();
}

bool shortens(Text one, Text other) {
  const Text brief = one.size() <= other.size() ? one : other;
  const Text full = one.size() <= other.size() ? other : one;
  return brief[0] == full[0] && brief.size() > 1 && brief.size() + 1 < full.size() &&
         abbreviates(brief, full);
}

bool alike(Text one, Text other, TextComparer& texts) {
  const std::size_t less = std::min(one.size(), other.size()), both = one.size() + other.size();
  return 200 * less >= 79 * both && texts.similarity(one, other) >= 0.8;
}

// 1 for equal sets, 0 for disjoint ones, NaN if one is empty.
double agreement(Readings::Run<Readings::Part> a, Readings::Run<Readings::Part> b) {
  if (!a.size() || !b.size()) return kMissing;
  std::size_t shared = 0;
  for (const auto &x : a) {
    shared += std::binary_search(b.begin(), b.end(), x, before);
  }
  return static_cast<double>(shared) / static_cast<double>(a.size() + b.size() - shared);
}

bool has(Readings::Run<Readings::Part> parts, const Readings::Part& wanted) {
  return std::any_of(parts.begin(), parts.end(),
                     [&](const Readings::Part& part) { return same(part, wanted); });
}

// Whether a word is an acronym of the words of a name (1), and of a whole part (2).
int acronym_in(const Readings& names, std::int64_t name, Text word) {
  if (word.size() < 2 || word.size() > kLongestAcronym) return 0;
  const auto whole = names.acronyms(name);
  if (std::find(whole.begin(), whole.end(), packed(word)) != whole.end()) return 2;
  return names.initials(name).find(word) != Text::npos;
}

}  // namespace

Knowledge::Knowledge(std::int64_t forms, Texts form, std::int64_t silent, Texts silent_word,
                     std::int64_t names, Texts name, const std::int64_t* long_start,
                     const std::int32_t* long_name) {
  for (std::int64_t k = 0; k < forms; ++k) forms_.emplace(form[k]);
  for (std::int64_t k = 0; k < silent; ++k) silent_.emplace(silent_word[k]);
  for (std::int64_t k = 0; k < names; ++k) {
    names_.emplace(name[k], static_cast<std::int32_t>(k));
    long_.emplace_back(long_name + long_start[k], long_name + long_start[k + 1]);
    std::sort(long_.back().begin(), long_.back().end());
  }
}

std::int32_t Knowledge::given(const std::string& word) const {
  const auto found = names_.find(word);
  return found == names_.end() ? -1 : found->second;
}

bool Knowledge::nicknames(std::int32_t one, std::int32_t other) const {
  const auto &a = long_[one], &b = long_[other];
  auto x = a.begin(), y = b.begin();
  while (x != a.end() && y != b.end()) {
    if (*x == *y) return true;
    *x < *y ? ++x : ++y;
  }
  return false;
}

std::uint32_t Readings::keep(Text text) {
  const auto begin = static_cast<std::uint32_t>(letters_.size());
  letters_.insert(letters_.end(), text.begin(), text.end());
  return begin;
}

void Readings::read(Text name) {
  std::vector<Words> between;
  for (std::size_t begin = 0, at = 0; at <= name.size() && between.size() < kMostParts;) {
    const std::size_t end = at < name.size() ? end_of_separator(name, at) : at + 1;
    if (end == at) {
      ++at;
      continue;
    }
    Words words = words_of(name.substr(begin, at - begin));
    if (!words.empty()) between.push_back(std::move(words));
    begin = at = end;
  }
  const auto place = [](const auto& all) { return static_cast<std::uint32_t>(all.size()); };
  Name read{{}, 0, 0, place(words_), place(acronyms_), place(heads_), place(tails_),
            place(legal_), place(numbers_)};
  const std::size_t n = between.size();
  Stripped whole;
  for (std::size_t first = 0; first < n; ++first) {
    Words words;
    for (std::size_t last = first; last < n; ++last) {
      words.insert(words.end(), between[last].begin(), between[last].end());
      Stripped part = stripped(words, known_);
      if (part.core.size() >= 2 && part.core.size() <= kLongestAcronym) {
        acronyms_.push_back(acronym_of(part.core));
      }
      if (first) tails_.push_back(part_of(joined(part.core, 0, "")));
      if (!first && last + 1 < n) heads_.push_back(part_of(joined(part.core, 0, "")));
      if (!first && last + 1 == n) whole = std::move(part);
    }
  }
  read.core = part_of(joined(whole.core, 0, ""));
  read.initials = place(letters_);
  for (const std::string& word : whole.core) letters_.push_back(word[0]);
  read.initials_end = place(letters_);
  for (const std::string& form : whole.legal) legal_.push_back(part_of(form));
  for (std::size_t at = 0; at < whole.core.size(); ++at) {
    const std::string& word = whole.core[at];
    words_.push_back({hash_of(word), keep(word), static_cast<std::uint32_t>(word.size()),
                      known_.given(word)});
    const std::string number = number_of(whole.core, at);
    if (!number.empty()) numbers_.push_back(part_of(number));
  }
  have_once(
      words_, read.words, [](const Word& a, const Word& b) { return a.hash < b.hash; },
      [](const Word& a, const Word& b) { return a.hash == b.hash; });
  have_once(legal_, read.legal, before, same);
  have_once(numbers_, read.numbers, before, same);
  names_.push_back(read);
}

void Readings::shrink() {
  for (auto* const some : {&heads_, &tails_, &legal_, &numbers_}) some->shrink_to_fit();
  names_.shrink_to_fit();
  words_.shrink_to_fit();
  acronyms_.shrink_to_fit();
  letters_.shrink_to_fit();
}

void KnownComparer::compare(const Readings& a, std::int64_t x, const Readings& b, std::int64_t y,
                            TextComparer& texts, double* out) {
  const auto of_a = a.words(x), of_b = b.words(y);
  for (auto& some : alone_) some.clear();
  const Readings::Word *one = of_a.first, *other = of_b.first;
  while (one != of_a.last || other != of_b.last) {
    if (other == of_b.last || (one != of_a.last && one->hash < other->hash)) {
      alone_[0].push_back({one, acronym_in(b, y, a.text(*one)), false});
      ++one;
    } else if (one == of_a.last || other->hash < one->hash) {
      alone_[1].push_back({other, acronym_in(a, x, b.text(*other)), false});
      ++other;
    } else {
      ++one, ++other;
    }
  }
  double agree = kMissing, shortened = 0.0;
  if (alone_[0].size() * alone_[1].size() <= kMostCompared) {
    for (Alone& mine : alone_[0]) {
      const Text my_word = a.text(*mine.word);
      for (Alone& theirs : alone_[1]) {
        const Text their_word = b.text(*theirs.word);
        const bool given = mine.word->given >= 0 && theirs.word->given >= 0;
        const bool nickname = given && a.known().nicknames(mine.word->given, theirs.word->given);
        const bool brief = shortens(my_word, their_word);
        if (given && !(agree == 1.0)) agree = nickname ? 1.0 : 0.0;
        shortened += brief;
        if (nickname || brief || (!(mine.met && theirs.met) && alike(my_word, their_word, texts))) {
          mine.met = theirs.met = true;
        }
      }
    }
  }
  double left[2] = {0.0, 0.0};
  int acronym = 0;
  for (const int side : {0, 1}) {
    for (const Alone& word : alone_[side]) {
      left[side] += !word.made && !word.met;
      acronym = std::max(acronym, word.made);
    }
  }
  const auto &core_a = a.core(x), &core_b = b.core(y);
  *out++ = agree;
  *out++ = shortened;
  *out++ = std::min(left[0], left[1]);
  *out++ = std::max(left[0], left[1]);
  *out++ = core_a.length && core_b.length ? same(core_a, core_b) : kMissing;
  *out++ = agreement(a.legal(x), b.legal(y));
  *out++ = acronym;
  const auto heads_a = a.heads(x), heads_b = b.heads(y), tails_a = a.tails(x), tails_b = b.tails(y);
  double head = 0.0, tail = 0.0, share = kMissing;
  if (heads_a.size() || heads_b.size()) {
    head = has(heads_b, core_a) || has(heads_a, core_b);
    tail = has(tails_b, core_a) || has(tails_a, core_b);
    std::uint32_t longest = 0;
    const auto look = [&](const Readings::Part& part) {
      if (same(part, core_b) || has(heads_b, part) || has(tails_b, part)) {
        longest = std::max(longest, part.length);
      }
    };
    look(core_a);
    std::for_each(heads_a.begin(), heads_a.end(), look);
    std::for_each(tails_a.begin(), tails_a.end(), look);
    share = static_cast<double>(longest) / std::max({core_a.length, core_b.length, 1u});
  }
  *out++ = head;
  *out++ = tail;
  *out++ = share;
  *out++ = agreement(a.numbers(x), b.numbers(y));
}

}  // namespace kbforge

using kbforge::Knowledge;

// Tables of lexical knowledge (kbforge_plugins/likelihoods/pairs/file.py), which are copied.
KB_API Knowledge* kb_known_new(std::int64_t forms, const std::int64_t* form_start, const char* form,
                               std::int64_t silent, const std::int64_t* silent_start,
                               const char* silent_word, std::int64_t names,
                               const std::int64_t* name_start, const char* name,
                               const std::int64_t* long_start, const std::int32_t* long_name) {
  return new Knowledge(forms, {form_start, form}, silent, {silent_start, silent_word}, names,
                       {name_start, name}, long_start, long_name);
}
