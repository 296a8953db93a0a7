#include "names.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "crc.hpp"
#include "crew.hpp"
#include "interner.hpp"

namespace kbforge {

namespace {

constexpr std::size_t kCharacters = 3;  // of a part that is no word
constexpr char kWord[] = "w ";          // before a part that is a word

// Numbers of distinct texts, in the order in which they come.
class Numbers {
 public:
  std::int32_t of(const std::string& text, std::int64_t* hashes) {
    if (2 * (ends_.size() + 1) > places_.size()) grow();
    const std::uint64_t hash = hashed(text);
    const std::size_t mask = places_.size() - 1;
    std::size_t place = static_cast<std::size_t>(hash) & mask;
    for (; places_[place].number >= 0; place = (place + 1) & mask) {
      if (places_[place].hash == hash && same(places_[place].number, text)) {
        return places_[place].number;
      }
    }
    const std::int32_t number = static_cast<std::int32_t>(ends_.size());
    places_[place] = Place{hash, number};
    texts_ += text;
    ends_.push_back(texts_.size());
    hashes[number] = crc32(text);
    return number;
  }

  std::int64_t size() const { return static_cast<std::int64_t>(ends_.size()); }

 private:
  struct Place {
    std::uint64_t hash = 0;
    std::int32_t number = -1;
  };

  static std::uint64_t hashed(const std::string& text) {
    std::uint64_t value = 0xCBF29CE484222325u;  // FNV-1a, whose low bits are then mixed
    for (const char c : text) value = (value ^ static_cast<std::uint8_t>(c)) * 0x100000001B3u;
    return value ^ (value >> 29);
  }

  bool same(std::int32_t number, const std::string& text) const {
    const std::size_t begin = number ? ends_[number - 1] : 0;
    return ends_[number] - begin == text.size() &&
           std::memcmp(texts_.data() + begin, text.data(), text.size()) == 0;
  }

  void grow() {
    std::vector<Place> before(2 * places_.size());
    before.swap(places_);
    const std::size_t mask = places_.size() - 1;
    for (const Place& one : before) {
      if (one.number < 0) continue;
      std::size_t place = static_cast<std::size_t>(one.hash) & mask;
      while (places_[place].number >= 0) place = (place + 1) & mask;
      places_[place] = one;
    }
  }

  std::vector<Place> places_ = std::vector<Place>(1 << 10);
  std::vector<std::size_t> ends_;
  std::string texts_;
};

bool begins_character(std::uint8_t byte) { return (byte & 0xC0) != 0x80; }

}  // namespace

std::int64_t number_parts(const Names& names, std::int32_t* sizes, std::int32_t* parts,
                          std::int64_t* hashes) {
  Numbers numbers;
  std::string padded, part;
  std::vector<std::size_t> characters;  // where each begins
  for (std::int64_t k = 0; k < names.n; ++k) {
    const char* text = reinterpret_cast<const char*>(names.text);
    padded.assign(1, ' ').append(text + names.starts[k], text + names.starts[k + 1]).append(1, ' ');
    std::int32_t* end = parts;
    for (std::size_t begin = 1; begin < padded.size();) {
      const std::size_t stop = padded.find(' ', begin);
      *end++ = numbers.of(part.assign(kWord).append(padded, begin, stop - begin), hashes);
      begin = stop + 1;
    }
    characters.clear();
    for (std::size_t at = 0; at < padded.size(); ++at) {
      if (begins_character(static_cast<std::uint8_t>(padded[at]))) characters.push_back(at);
    }
    characters.push_back(padded.size());
    for (std::size_t at = 0; at + kCharacters < characters.size(); ++at) {
      const std::size_t begin = characters[at];
      *end++ = numbers.of(part.assign(padded, begin, characters[at + kCharacters] - begin), hashes);
    }
    std::sort(parts, end);
    end = std::unique(parts, end);
    sizes[k] = static_cast<std::int32_t>(end - parts);
    parts = end;
  }
  return numbers.size();
}

namespace {

// The parts that lead from a name to others, ascending.
void lead_from(const Weighted& names, const Leads& leads, std::int64_t name,
               std::vector<std::int32_t>& out) {
  out.clear();
  for (std::int64_t at = names.starts[name]; at < names.starts[name + 1]; ++at) {
    const std::int64_t often = leads.often[names.parts[at]];
    if (often > 1 && often <= leads.sharing) out.push_back(names.parts[at]);
  }
  if (out.size() > static_cast<std::size_t>(leads.keys)) {
    std::sort(out.begin(), out.end(), [&](std::int32_t a, std::int32_t b) {
      const std::int64_t one = leads.often[a], other = leads.often[b];
      return one != other ? one < other : a < b;
    });
    out.resize(static_cast<std::size_t>(leads.keys));
  }
  std::sort(out.begin(), out.end());
}

constexpr std::int64_t kNames = 1024;  // whose nearest ones a thread looks for at one time

}  // namespace

void nearest_names(const Weighted& names, const Leads& leads, std::int64_t workers,
                   std::int64_t* pairs) {
  // the leads of all names, and by part the names that it leads to, ascending
  std::vector<std::int32_t> own, all;
  std::vector<std::int64_t> starts{0};
  std::int32_t parts = 0;
  for (std::int64_t name = 0; name < names.n; ++name) {
    lead_from(names, leads, name, own);
    make_room(all, own.size());
    all.insert(all.end(), own.begin(), own.end());
    starts.push_back(static_cast<std::int64_t>(all.size()));
    if (!own.empty()) parts = std::max(parts, own.back() + 1);
  }
  std::vector<std::int64_t> begins(static_cast<std::size_t>(parts) + 1, 0);
  for (const std::int32_t part : all) ++begins[part + 1];
  for (std::int32_t k = 0; k < parts; ++k) begins[k + 1] += begins[k];
  std::vector<std::int32_t> others(all.size());
  std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
  for (std::int64_t name = 0; name < names.n; ++name) {
    for (std::int64_t at = starts[name]; at < starts[name + 1]; ++at) {
      others[next[all[at]]++] = static_cast<std::int32_t>(name);
    }
  }
  struct Room {
    std::vector<double> score;
    std::vector<std::int32_t> near;
  };
  std::vector<Room> rooms(static_cast<std::size_t>(std::max<std::int64_t>(workers, 1)));
  const auto look = [&](std::size_t worker, std::int64_t first, std::int64_t end) {
    auto& [score, near] = rooms[worker];
    score.resize(static_cast<std::size_t>(names.n), 0.0);
    for (std::int64_t name = first; name < end; ++name) {
      near.clear();
      for (std::int64_t at = starts[name]; at < starts[name + 1]; ++at) {
        const std::int32_t part = all[at];
        const double weight = names.weight(name, part);
        for (std::int64_t k = begins[part]; k < begins[part + 1]; ++k) {
          if (others[k] == name) continue;
          if (score[others[k]] == 0.0) near.push_back(others[k]);
          score[others[k]] += weight * names.weight(others[k], part);
        }
      }
      const std::size_t kept = std::min(near.size(), static_cast<std::size_t>(leads.alike));
      std::partial_sort(near.begin(), near.begin() + static_cast<std::ptrdiff_t>(kept), near.end(),
                        [&](std::int32_t a, std::int32_t b) {
                          return score[a] != score[b] ? score[a] > score[b] : a < b;
                        });
      std::int64_t* const out = pairs + name * leads.alike;
      std::fill(out, out + leads.alike, -1);
      for (std::size_t k = 0; k < kept; ++k) {
        out[k] = std::min<std::int64_t>(name, near[k]) * names.n + std::max<std::int64_t>(name, near[k]);
      }
      for (const std::int32_t other : near) score[other] = 0.0;
    }
  };
  share_parts(names.n, kNames, workers, look);
}

void shared_products(const Weighted& names, std::int64_t pairs, const std::int64_t* firsts,
                     const std::int64_t* seconds, std::int64_t* starts, double* products) {
  std::int64_t n = 0;
  for (std::int64_t pair = 0; pair < pairs; ++pair) {
    starts[pair] = n;
    std::int64_t a = names.starts[firsts[pair]], b = names.starts[seconds[pair]];
    const std::int64_t a_end = names.starts[firsts[pair] + 1];
    const std::int64_t b_end = names.starts[seconds[pair] + 1];
    while (a < a_end && b < b_end) {
      if (names.parts[a] < names.parts[b]) {
        ++a;
      } else if (names.parts[b] < names.parts[a]) {
        ++b;
      } else {
        const std::int32_t part = names.parts[a++];
        ++b;
        products[n++] = names.weight(firsts[pair], part) * names.weight(seconds[pair], part);
      }
    }
  }
  starts[pairs] = n;
}

}  // namespace kbforge
