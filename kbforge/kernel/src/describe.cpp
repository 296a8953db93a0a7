#include "describe.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "api.hpp"
#include "crew.hpp"
#include "numbers.hpp"
#include "trees.hpp"

namespace kbforge {

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();
constexpr double kBounds[kBins - 1] = {0.5, 0.8, 1.0};  // of the bins of nearness
constexpr double kMostEvidence = 12.0;
constexpr double kSharpness = 4.0;  // power of a ratio of magnitudes
constexpr double kSame = 1e-9;
constexpr double kCloseCosine = 0.08, kNoCosine = 0.0;
constexpr double kCloseOdds = 1.0, kNoOdds = -30.0, kClearOdds = 0.5;  // nats
constexpr std::size_t kLeastContained = 5;  // letters of a code that is looked for in another record
enum Form { kName, kSorted, kCompact, kBare, kFirst, kLast, kAcronym, kShortAcronym };
enum Code { kCodes, kUnits, kMeasures, kFigures };

double* put_ordered(double x, double y, double* out) {
  *out++ = std::min(x, y);
  *out++ = std::max(x, y);
  return out;
}

// How much of the lighter and the heavier is covered, what is shared, and what is unmatched.
double* put_masses(double mass_a, double mass_b, const Overlap& found, double* out) {
  out = put_ordered(mass_a > 0 ? found.shared / mass_a : 0.0,
                    mass_b > 0 ? found.shared / mass_b : 0.0, out);
  *out++ = found.shared;
  return put_ordered(found.only_a, found.only_b, out);
}

// How many rows are nearer, the gap to the best other row, and how many are about as near.
struct Standing {
  double better, gap, near;
};

Standing standing(const double* tops, double value, double close, double none) {
  const double above = value + kSame;
  std::int64_t better = 0, near = 0;
  for (std::int64_t k = 0; k < kNearest; ++k) {
    better += tops[k] > above;
    near += std::fabs(tops[k] - value) <= close;
  }
  const double others = value >= tops[0] - kSame ? tops[1] : tops[0];
  return {static_cast<double>(better), value - std::max(others, none), static_cast<double>(near)};
}

double* put_standings(const double* tops_a, const double* tops_b, double value, double close,
                      double none, double* out) {
  const Standing one = standing(tops_a, value, close, none);
  const Standing other = standing(tops_b, value, close, none);
  out = put_ordered(one.better, other.better, out);
  out = put_ordered(one.gap, other.gap, out);
  return put_ordered(one.near, other.near, out);
}

double equal(std::int64_t x, std::int64_t y) { return x && y ? double(x == y) : kMissing; }

double count_bits(std::int64_t bits) {
  return __builtin_popcountll(static_cast<std::uint64_t>(bits));
}

}  // namespace

int bin_of(double near) {
  int bin = 0;
  while (bin < kBins - 1 && kBounds[bin] <= near) ++bin;
  return bin;
}

DescribedRows::DescribedRows(const RowArrays& given, const Knowledge& known)
    : arrays(given), columns(given.column, given.column + given.columns), readings(known) {
  for (std::int64_t name = 0; name < arrays.names; ++name) readings.read(arrays.text[name]);
  readings.shrink();
}

// Of all names of two rows the nearest two: equal ones, then those with the greatest cosine.
Describer::Names Describer::nearest_names(const RowArrays& a, std::int64_t i, const RowArrays& b,
                                          std::int64_t j) {
  const auto cosine = [&](std::int64_t x, std::int64_t y) {
    return bags_.cosine(a.trigrams, x, b.trigrams, y);
  };
  const std::int64_t x = a.which[a.called[i]], y = b.which[b.called[j]];
  Names best{x, y, cosine(x, y)};
  if (a.called[i + 1] - a.called[i] == 1 && b.called[j + 1] - b.called[j] == 1) return best;
  double most = -1.0;
  std::int64_t low = 0, high = 0;
  for (std::int64_t p = a.called[i]; p < a.called[i + 1]; ++p) {
    for (std::int64_t q = b.called[j]; q < b.called[j + 1]; ++q) {
      const Names here{a.which[p], b.which[q], cosine(a.which[p], b.which[q])};
      const std::int64_t one = a.forms[here.x], other = b.forms[here.y];
      const double score = (one && one == other ? 2.0 : 0.0) + here.cosine;
      // among equally near names, the choice does not depend on which row is first
      const auto [least, largest] = std::minmax(one, other);
      if (score < most || (score == most && std::make_pair(least, largest) >= std::make_pair(low, high))) {
        continue;
      }
      best = here;
      most = score;
      low = least;
      high = largest;
    }
  }
  return best;
}

double* Describer::names(const DescribedRows& rows_a, std::int64_t x, const DescribedRows& rows_b,
                         std::int64_t y, double cosine, double* out) {
  const RowArrays &a = rows_a.arrays, &b = rows_b.arrays;
  const auto form_a = [&](Form form) { return a.forms[form * a.names + x]; };
  const auto form_b = [&](Form form) { return b.forms[form * b.names + y]; };
  const Overlap words = bags_.overlap(a.words, x, b.words, y);
  const Text text_a = a.text[x], text_b = b.text[y];
  for (const Form form : {kName, kSorted, kCompact, kBare}) *out++ = equal(form_a(form), form_b(form));
  *out++ = cosine;
  *out++ = words.cosine;
  *out++ = bags_.cosine(a.sounds, x, b.sounds, y);
  *out++ = texts_.ratio(text_a, text_b) / 100;
  // a measure that has a direction gets the two names in an order of their own
  *out++ = form_a(kName) > form_b(kName) ? texts_.jaro_winkler(text_b, text_a)
                                         : texts_.jaro_winkler(text_a, text_b);
  *out++ = texts_.ratio(a.sorted[x], b.sorted[y]) / 100;
  *out++ = texts_.ratio(a.bare[x], b.bare[y]) / 100;
  *out++ = texts_.set_ratio(a.sorted[x], b.sorted[y]) / 100;
  out = put_masses(a.words.mass[x], b.words.mass[y], words, out);
  *out++ = equal(form_a(kFirst), form_b(kFirst));
  *out++ = equal(form_a(kLast), form_b(kLast));
  const std::int64_t first_a = a.letters[x], first_b = b.letters[y];
  const std::int64_t single_a = a.letters[a.names + x], single_b = b.letters[b.names + y];
  *out++ = count_bits(single_a & first_b) + count_bits(single_b & first_a);
  *out++ = count_bits(single_a & ~first_b & ~single_b) + count_bits(single_b & ~first_a & ~single_a);
  bool acronym = false;
  for (const Form form : {kAcronym, kShortAcronym}) {
    acronym |= form_a(form) && form_a(form) == form_b(kCompact);
    acronym |= form_b(form) && form_b(form) == form_a(kCompact);
  }
  *out++ = acronym;
  *out++ = !text_a.empty() && !text_b.empty() &&
           (text_a.find(text_b) != Text::npos || text_b.find(text_a) != Text::npos);
  out = put_ordered(static_cast<double>(text_a.size()), static_cast<double>(text_b.size()), out);
  out = put_ordered(static_cast<double>(a.count[x]), static_cast<double>(b.count[y]), out);
  *out = out[-1] - out[-2];
  ++out;
  const Overlap digits = bags_.overlap(a.digits, x, b.digits, y);
  *out++ = digits.shared;
  out = put_ordered(digits.only_a, digits.only_b, out);
  known_.compare(rows_a.readings, x, rows_b.readings, y, texts_, out);
  return out + KnownComparer::kFeatures;
}

// How many codes of a record are spelled somewhere in the other, but are no code of it.
double Describer::contained(const RowArrays& one, std::int64_t x, const RowArrays& other,
                            std::int64_t y) {
  const Text text = other.spelt[y];
  split_words(one.coded[x], my_codes_);
  split_words(other.coded[y], their_codes_);
  return static_cast<double>(std::count_if(my_codes_.begin(), my_codes_.end(), [&](Text code) {
    return code.size() >= kLeastContained && text.find(code) != Text::npos &&
           std::find(their_codes_.begin(), their_codes_.end(), code) == their_codes_.end();
  }));
}

double* Describer::codes(const RowArrays& a, std::int64_t i, const RowArrays& b, std::int64_t j,
                         double* out) {
  const auto stated = [](const Bags& bags, std::int64_t row) {
    return bags.starts[row + 1] > bags.starts[row];
  };
  const Overlap codes = bags_.overlap(a.codes[kCodes], i, b.codes[kCodes], j);
  *out++ = stated(a.codes[kCodes], i) + stated(b.codes[kCodes], j);
  *out++ = codes.shared;
  out = put_ordered(codes.only_a, codes.only_b, out);
  double found = 0.0;
  if (codes.only_a > 0) found += contained(a, i, b, j);
  if (codes.only_b > 0) found += contained(b, j, a, i);
  *out++ = found;
  const double units = BagComparer::shared(a.codes[kUnits], i, b.codes[kUnits], j);
  const double measures = BagComparer::shared(a.codes[kMeasures], i, b.codes[kMeasures], j);
  *out++ = units;
  *out++ = std::max(measures - units, 0.0);
  const Overlap figures = bags_.overlap(a.codes[kFigures], i, b.codes[kFigures], j);
  *out++ = figures.shared;
  return put_ordered(figures.only_a, figures.only_b, out);
}

double Describer::nearness(const Column& a, std::int64_t i, const Column& b, std::int64_t j) {
  const std::int64_t x = a.which[i], y = b.which[j];
  if (a.numbers[x] == b.numbers[y]) return 1.0;
  double least = -1.0, most = -1.0;
  if (a.amounts && b.amounts) {
    least = std::min(a.amounts[x], b.amounts[y]);
    most = std::max(a.amounts[x], b.amounts[y]);
  }
  double near;
  if (least >= 0) {
    near = libm.pow(most > 0 ? least / most : 1.0, kSharpness);
  } else {
    near = std::max(texts_.ratio(a.text[x], b.text[y]) / 100, bags_.cosine(a.words, x, b.words, y));
  }
  return std::min(near, 0.99);
}

Agreement Describer::agreement(const Column& a, std::int64_t i, const Column& b, std::int64_t j,
                               const Worths& worths, std::int64_t attribute) {
  const double near = nearness(a, i, b, j);
  double evidence = worths.log_ratio[attribute * kBins + bin_of(near)], rarity = 0.0;
  if (near >= 1.0) {
    rarity = a.rarity[a.which[i]];
    // an agreement tells at most how rare the value is
    evidence = std::min(rarity, std::max(evidence, 0.0) + 2.0);
  }
  evidence = std::min(std::max(evidence, -kMostEvidence), kMostEvidence);
  return {near, rarity, evidence, worths.functional[attribute] * (1.0 - near)};
}

double* Describer::agreements(const DescribedRows& a, std::int64_t i, const DescribedRows& b,
                              std::int64_t j, const Worths& worths, double* out) {
  double both = 0, one = 0, equal_values = 0, different = 0, evidence = 0, good = 0, bad = 0;
  double best = 0, worst = 0, rarity = 0, rarest = 0, mean = 0, least = 2, most = 0, conflict = 0;
  for (std::int64_t at = 0; at < a.arrays.columns; ++at) {
    const Column &x = a.columns[at], &y = b.columns[at];
    const bool in_a = x.number(i) != 0, in_b = y.number(j) != 0;
    one += in_a != in_b;
    if (!in_a || !in_b) continue;
    const Agreement found = agreement(x, i, y, j, worths, at);
    both += 1.0;
    equal_values += found.near >= 1.0;
    different += found.near < kBounds[0];
    evidence += found.evidence;
    good += std::max(found.evidence, 0.0);
    bad += std::min(found.evidence, 0.0);
    best = std::max(best, found.evidence);
    worst = std::min(worst, found.evidence);
    rarity += found.rarity;
    rarest = std::max(rarest, found.rarity);
    mean += found.near;
    least = std::min(least, found.near);
    most = std::max(most, found.near);
    conflict += found.conflict;
  }
  mean /= both;  // 0 / 0 is NaN
  if (both == 0) mean = least = most = kMissing;
  for (const double value : {both, one, equal_values, different, evidence, good, bad, best, worst,
                             rarity, rarest, mean, least, most, conflict}) {
    *out++ = value;
  }
  return out;
}

double* Describer::describe(const DescribedRows& rows_a, std::int64_t i, const DescribedRows& rows_b,
                            std::int64_t j, const Worths& worths, double* out) {
  const RowArrays &a = rows_a.arrays, &b = rows_b.arrays;
  const Names nearest = nearest_names(a, i, b, j);
  out = names(rows_a, nearest.x, rows_b, nearest.y, nearest.cosine, out);
  out = codes(a, i, b, j, out);
  const Overlap words = bags_.overlap(a.all_text, i, b.all_text, j);
  *out++ = words.cosine;
  out = put_masses(a.all_text.mass[i], b.all_text.mass[j], words, out);
  out = agreements(rows_a, i, rows_b, j, worths, out);
  const bool several = a.called[i + 1] - a.called[i] > 1 || b.called[j + 1] - b.called[j] > 1;
  const double letters =
      several ? bags_.cosine(a.row_trigrams, i, b.row_trigrams, j) : nearest.cosine;
  for (const int way : {0, 1}) {
    const double value = way ? words.cosine : letters;
    out = put_standings(a.nearest[way] + i * kNearest, b.nearest[way] + j * kNearest, value,
                        kCloseCosine, kNoCosine, out);
  }
  *out++ = a.script[i] != b.script[j];
  *out++ = bags_.cosine(a.consonants, i, b.consonants, j);
  for (int k = 0; k < kRowNumbers; ++k) {
    out = put_ordered(a.numbers[k * a.rows + i], b.numbers[k * b.rows + j], out);
  }
  out = put_differences(*worths.differences, a.measures, i, b.measures, j, out);
  out = odds(a, i, b, j, worths, out);
  return std::copy(worths.facts, worths.facts + worths.n_facts, out);
}

// The log odds of the fitted likelihood, in total and by attribute, and how they stand among others.
double* Describer::odds(const RowArrays& a, std::int64_t i, const RowArrays& b, std::int64_t j,
                        const Worths& worths, double* out) {
  double total = kMissing, good = 0, bad = 0, best = kMissing, worst = kMissing, names = kMissing;
  double n_good = 0, n_bad = 0;
  if (worths.fitted) {
    parts_.resize(static_cast<std::size_t>(worths.fitted->parts()));
    worths.fitted->log_merge_parts(worker_, static_cast<Slot>(a.slots[i]),
                                   static_cast<Slot>(b.slots[j]), parts_.data());
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      const double part = parts_[k];
      if (std::isnan(part)) continue;
      total = std::isnan(total) ? part : total + part;
      if (worths.naming[k]) names = std::isnan(names) ? part : names + part;
      (part > 0 ? good : bad) += part;
      n_good += part > kClearOdds;
      n_bad += part < -kClearOdds;
      best = std::fmax(best, part);
      worst = std::fmin(worst, part);
    }
  }
  for (const double value : {total, good, bad, total - worths.log_alpha, best, worst, n_good, n_bad,
                             names}) {
    *out++ = value;
  }
  if (std::isnan(total)) return std::fill_n(out, 6, kMissing);
  return put_standings(a.best_odds + i * kNearest, b.best_odds + j * kNearest, total, kCloseOdds,
                       kNoOdds, out);
}

}  // namespace kbforge

using kbforge::DescribedRows;
using kbforge::Describer;
using kbforge::Worths;

namespace {

// Pairs that one thread describes at once: as many rows as the trees compare at once, several times.
constexpr std::int64_t kPairs = 256;

}  // namespace

// Rows in comparable forms: the structure is copied, its arrays stay the caller's, as do the tables.
// The columns are copied, too.
KB_API DescribedRows* kb_rows_new(const kbforge::RowArrays* rows, const kbforge::Knowledge* known) {
  return new DescribedRows(*rows, *known);
}

KB_API void kb_rows_free(DescribedRows* rows) { delete rows; }

// The features of pairs of rows of the one and the other, shape [n, 2]: out has shape [n, features].
KB_API void kb_rows_describe(const DescribedRows* a, const DescribedRows* b, const Worths* worths,
                             std::int64_t n, const std::int32_t* pairs, std::int64_t features,
                             std::int32_t workers, double* out) {
  std::vector<Describer> describers;
  for (std::int32_t k = 0; k < std::max(workers, 1); ++k) describers.emplace_back(k);
  if (worths->fitted) worths->fitted->set_workers(describers.size());
  kbforge::share_parts(n, kPairs, workers, [&](std::size_t who, std::int64_t k, std::int64_t end) {
    for (; k < end; ++k) {
      describers[who].describe(*a, pairs[2 * k], *b, pairs[2 * k + 1], *worths, out + k * features);
    }
  });
}

// The sums of trees over these features, shape [n]; `apart` of two rows that state nothing.
KB_API void kb_rows_odds(const DescribedRows* a, const DescribedRows* b, const Worths* worths,
                         const kbforge::Trees* trees, std::int64_t n, const std::int32_t* pairs,
                         double apart, std::int32_t workers, double* out) {
  struct Room {
    explicit Room(std::size_t worker) : describer(worker) {}
    Describer describer;
    std::vector<double> features;
  };
  const std::int64_t width = trees->features();
  std::vector<Room> rooms;
  for (std::int32_t k = 0; k < std::max(workers, 1); ++k) rooms.emplace_back(k);
  if (worths->fitted) worths->fitted->set_workers(rooms.size());
  kbforge::share_parts(n, kPairs, workers, [&](std::size_t who, std::int64_t k, std::int64_t end) {
    Room& room = rooms[who];
    room.features.resize(static_cast<std::size_t>((end - k) * width));
    double* const features = room.features.data();
    for (std::int64_t at = k; at < end; ++at) {
      room.describer.describe(*a, pairs[2 * at], *b, pairs[2 * at + 1], *worths,
                              features + (at - k) * width);
    }
    trees->sums(end - k, features, out + k);
    for (; k < end; ++k) {
      if (!a->arrays.stated[pairs[2 * k]] && !b->arrays.stated[pairs[2 * k + 1]]) out[k] = apart;
    }
  });
}

// What the nearness of the values of each attribute says, 0 where a row lacks it, shape
// [attributes, n].
KB_API void kb_rows_evidence(const DescribedRows* a, const DescribedRows* b, const Worths* worths,
                             std::int64_t n, const std::int32_t* pairs, double* out) {
  Describer describer;
  for (std::int64_t attribute = 0; attribute < a->arrays.columns; ++attribute) {
    const kbforge::Column &x = a->columns[attribute], &y = b->columns[attribute];
    for (std::int64_t k = 0; k < n; ++k) {
      const std::int64_t i = pairs[2 * k], j = pairs[2 * k + 1];
      const bool both = x.number(i) != 0 && y.number(j) != 0;
      *out++ = both ? describer.agreement(x, i, y, j, *worths, attribute).evidence : 0.0;
    }
  }
}

// How many pairs of rows that both state an attribute are in each bin of nearness; added to `seen`.
KB_API void kb_column_bins(const kbforge::Column* column, std::int64_t n, const std::int32_t* pairs,
                           std::int64_t* seen) {
  Describer describer;
  for (std::int64_t k = 0; k < n; ++k) {
    const std::int64_t i = pairs[2 * k], j = pairs[2 * k + 1];
    if (!column->number(i) || !column->number(j)) continue;
    ++seen[kbforge::bin_of(describer.nearness(*column, i, *column, j))];
  }
}

// The cosines of pairs of rows of bags, shape [n].
KB_API void kb_bags_cosines(const kbforge::Bags* bags, std::int64_t n, const std::int32_t* pairs,
                            double* out) {
  kbforge::BagComparer comparer;
  for (std::int64_t k = 0; k < n; ++k) {
    out[k] = comparer.cosine(*bags, pairs[2 * k], *bags, pairs[2 * k + 1]);
  }
}

// L of two rows together less L of each, nats, of pairs of slots that ascend by their first, shape
// [n, 2].
KB_API void kb_table_odds(kbforge::Table* table, std::int64_t n, const std::int32_t* pairs,
                          std::int32_t workers, double* out) {
  table->set_workers(static_cast<std::size_t>(std::max(workers, 1)));
  kbforge::share_parts(n, kPairs, workers, [&](std::size_t who, std::int64_t k, std::int64_t end) {
    std::vector<std::int64_t> others;
    for (; k < end; k += static_cast<std::int64_t>(others.size())) {
      others.clear();
      for (std::int64_t at = k; at < end && pairs[2 * at] == pairs[2 * k]; ++at) {
        others.push_back(pairs[2 * at + 1]);
      }
      table->log_merge_ratios(who, pairs[2 * k], static_cast<std::int64_t>(others.size()),
                              others.data(), out + k);
    }
  });
}

// Of each row the greatest values of its pairs, descending, shape [rows, kNearest]; `out` comes full of
// what stands for none.
KB_API void kb_tops_of_pairs(std::int64_t n, const std::int32_t* pairs, const double* values,
                             double* out) {
  for (std::int64_t k = 0; k < n; ++k) {
    for (const int end : {0, 1}) {
      double* const tops = out + pairs[2 * k + end] * kbforge::kNearest;
      std::int64_t at = kbforge::kNearest - 1;
      if (values[k] <= tops[at]) continue;
      for (; at > 0 && tops[at - 1] < values[k]; --at) tops[at] = tops[at - 1];
      tops[at] = values[k];
    }
  }
}
