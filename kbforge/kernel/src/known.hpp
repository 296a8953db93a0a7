// Lexical knowledge about names: nicknames, legal forms, abbreviations, acronyms, numbers.
//
// kbforge_plugins/likelihoods/pairs/file.py says what a name is read into and has the tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "similarity.hpp"

namespace kbforge {

class Knowledge {
 public:
  // Legal forms, words that no core has, and the long forms of each given name, as its number among
  // all given names.
  Knowledge(std::int64_t forms, Texts form, std::int64_t silent, Texts silent_word,
            std::int64_t names, Texts name, const std::int64_t* long_start,
            const std::int32_t* long_name);

  bool is_form(const std::string& words) const { return forms_.count(words) != 0; }
  bool is_silent(const std::string& word) const { return silent_.count(word) != 0; }
  // The number of a given name, or -1.
  std::int32_t given(const std::string& word) const;
  // Whether two given names may be short for the same.
  bool nicknames(std::int32_t one, std::int32_t other) const;

 private:
  std::unordered_set<std::string> forms_, silent_;
  std::unordered_map<std::string, std::int32_t> names_;
  std::vector<std::vector<std::int32_t>> long_;  // by name, ascending
};

// Names as they are compared, numbered in the order they were read. Texts are told apart by hashes of
// 64 bits.
class Readings {
 public:
  explicit Readings(const Knowledge& known) : known_(known) {}

  void read(Text name);
  // All names were read: have no more room than they take.
  void shrink();
  std::int64_t size() const { return static_cast<std::int64_t>(names_.size()); }

  struct Word {
    std::uint64_t hash;
    std::uint32_t begin, length;  // in `letters`
    std::int32_t given;           // number of the given name, or -1
  };
  struct Part {  // a core of a part, or a legal form or number
    std::uint64_t hash;
    std::uint32_t length;
  };
  template <typename Entry>
  struct Run {
    const Entry *first, *last;
    const Entry* begin() const { return first; }
    const Entry* end() const { return last; }
    std::size_t size() const { return static_cast<std::size_t>(last - first); }
  };
  struct Name {
    Part core;
    std::uint32_t initials, initials_end;  // of the words of the core, in `letters`
    std::uint32_t words, acronyms, heads, tails, legal, numbers;  // where those of the name begin
  };

  Run<Word> words(std::int64_t name) const { return run(words_, name, &Name::words); }
  Run<std::uint64_t> acronyms(std::int64_t name) const {
    return run(acronyms_, name, &Name::acronyms);
  }
  Run<Part> heads(std::int64_t name) const { return run(heads_, name, &Name::heads); }
  Run<Part> tails(std::int64_t name) const { return run(tails_, name, &Name::tails); }
  Run<Part> legal(std::int64_t name) const { return run(legal_, name, &Name::legal); }
  Run<Part> numbers(std::int64_t name) const { return run(numbers_, name, &Name::numbers); }
  const Part& core(std::int64_t name) const { return names_[name].core; }
  Text text(const Word& word) const { return {letters_.data() + word.begin, word.length}; }
  // First letters of the words of the core, in order.
  Text initials(std::int64_t name) const {
    const Name& one = names_[name];
    return {letters_.data() + one.initials, one.initials_end - one.initials};
  }
  const Knowledge& known() const { return known_; }

 private:
  template <typename Entry>
  Run<Entry> run(const std::vector<Entry>& all, std::int64_t name,
                 std::uint32_t Name::*begin) const {
    const bool last = name + 1 == size();
    const Entry* const first = all.data();
    return {first + names_[name].*begin, first + (last ? all.size() : names_[name + 1].*begin)};
  }
  std::uint32_t keep(Text text);

  const Knowledge& known_;
  std::vector<Name> names_;
  std::vector<Word> words_;
  std::vector<std::uint64_t> acronyms_;
  std::vector<Part> heads_, tails_, legal_, numbers_;
  std::vector<char> letters_;
};

// Compares names that were read; one for each thread.
class KnownComparer {
 public:
  static constexpr int kFeatures = 11;
  // KNOWN_FEATURES of file.py: NaN where one of the names lacks the property.
  void compare(const Readings& a, std::int64_t x, const Readings& b, std::int64_t y,
               TextComparer& texts, double* out);

 private:
  struct Alone {  // a word that only one name has
    const Readings::Word* word;
    int made;  // whether the other's words make it up as an acronym, 2 of a whole part
    bool met;
  };
  std::vector<Alone> alone_[2];
};

}  // namespace kbforge
