#include "names.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>

namespace kbforge {

namespace {

constexpr std::size_t kCharacters = 3;  // of a part that is no word
constexpr char kWord[] = "w ";          // before a part that is a word

std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t k = 0; k < 256; ++k) {
    std::uint32_t value = k;
    for (int bit = 0; bit < 8; ++bit) value = value & 1 ? (value >> 1) ^ 0xEDB88320u : value >> 1;
    table[k] = value;
  }
  return table;
}

// As zlib's, which a store's counts are kept by.
std::uint32_t crc32(const std::string& text) {
  static const std::array<std::uint32_t, 256> table = crc_table();
  std::uint32_t value = 0xFFFFFFFFu;
  for (const char c : text) value = (value >> 8) ^ table[(value ^ static_cast<std::uint8_t>(c)) & 255];
  return ~value;
}

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

struct Lead {
  std::int32_t part;
  double weight;
};

// The leads of a name, by ascending part.
void lead_from(const Weighted& names, const Leads& leads, std::int64_t name,
               std::vector<Lead>& out) {
  out.clear();
  for (std::int64_t at = names.starts[name]; at < names.starts[name + 1]; ++at) {
    const std::int64_t often = leads.often[names.parts[at]];
    if (often > 1 && often <= leads.sharing) out.push_back(Lead{names.parts[at], names.weights[at]});
  }
  if (out.size() > static_cast<std::size_t>(leads.keys)) {
    std::sort(out.begin(), out.end(), [&](const Lead& a, const Lead& b) {
      const std::int64_t one = leads.often[a.part], other = leads.often[b.part];
      return one != other ? one < other : a.part < b.part;
    });
    out.resize(static_cast<std::size_t>(leads.keys));
  }
  std::sort(out.begin(), out.end(), [](const Lead& a, const Lead& b) { return a.part < b.part; });
}

}  // namespace

std::int64_t nearest_names(const Weighted& names, const Leads& leads, std::int64_t* pairs) {
  // the leads of all names, and by part the names that it leads to, ascending
  std::vector<Lead> own, all;
  std::vector<std::int64_t> starts{0};
  std::int32_t parts = 0;
  for (std::int64_t name = 0; name < names.n; ++name) {
    lead_from(names, leads, name, own);
    all.insert(all.end(), own.begin(), own.end());
    starts.push_back(static_cast<std::int64_t>(all.size()));
    if (!own.empty()) parts = std::max(parts, own.back().part + 1);
  }
  std::vector<std::int64_t> begins(static_cast<std::size_t>(parts) + 1, 0);
  for (const Lead& lead : all) ++begins[lead.part + 1];
  for (std::int32_t k = 0; k < parts; ++k) begins[k + 1] += begins[k];
  struct Other {
    std::int64_t name;
    double weight;
  };
  std::vector<Other> others(all.size());
  std::vector<std::int64_t> next(begins.begin(), begins.end() - 1);
  for (std::int64_t name = 0; name < names.n; ++name) {
    for (std::int64_t at = starts[name]; at < starts[name + 1]; ++at) {
      others[next[all[at].part]++] = Other{name, all[at].weight};
    }
  }
  std::vector<double> score(static_cast<std::size_t>(names.n), 0.0);
  std::vector<std::int64_t> near;
  std::int64_t count = 0;
  for (std::int64_t name = 0; name < names.n; ++name) {
    near.clear();
    for (std::int64_t at = starts[name]; at < starts[name + 1]; ++at) {
      const Lead& lead = all[at];
      for (std::int64_t k = begins[lead.part]; k < begins[lead.part + 1]; ++k) {
        if (others[k].name == name) continue;
        if (score[others[k].name] == 0.0) near.push_back(others[k].name);
        score[others[k].name] += lead.weight * others[k].weight;
      }
    }
    const std::size_t kept = std::min(near.size(), static_cast<std::size_t>(leads.alike));
    std::partial_sort(near.begin(), near.begin() + kept, near.end(),
                      [&](std::int64_t a, std::int64_t b) {
                        return score[a] != score[b] ? score[a] > score[b] : a < b;
                      });
    for (std::size_t k = 0; k < kept; ++k) {
      pairs[count++] = std::min(name, near[k]) * names.n + std::max(name, near[k]);
    }
    for (const std::int64_t other : near) score[other] = 0.0;
  }
  return count;
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
        products[n++] = names.weights[a++] * names.weights[b++];
      }
    }
  }
  starts[pairs] = n;
}

}  // namespace kbforge
