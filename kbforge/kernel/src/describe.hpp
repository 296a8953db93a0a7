// The features of pairs of rows (kbforge_plugins/likelihoods/pairs/file.py names them).
#pragma once

#include <cstdint>
#include <memory>

#include "bags.hpp"
#include "differences.hpp"
#include "known.hpp"
#include "similarity.hpp"
#include "table.hpp"

namespace kbforge {

constexpr std::int64_t kNearest = 24;  // greatest cosines that are kept of each row
constexpr int kForms = 8;              // of names, in the order of FORMS in table.py
constexpr int kCodeBags = 4;
constexpr int kRowNumbers = 5;
constexpr int kBins = 4;  // of nearness

// One attribute of a table: by row its value among the different ones, and these.
struct Column {
  const std::int64_t *which, *numbers;
  Texts text;
  Bags words;
  const double* amounts;  // of magnitudes, otherwise null
  const double* rarity;   // in nats; null while the file is not fitted

  std::int64_t number(std::int64_t row) const { return numbers[which[row]]; }
};

// Rows of statements in comparable forms; the arrays belong to the caller.
struct RowArrays {
  std::int64_t rows, names, columns;
  // distinct names
  Texts text, bare, sorted;
  const std::int64_t *forms, *letters, *count;  // shapes [forms, names], [2, names], [names]
  Bags trigrams, words, digits, sounds;
  // rows
  const std::int64_t *called, *which;  // where a row's names begin, and their places
  Bags row_trigrams, consonants, all_text, codes[kCodeBags];
  Texts coded, spelt;
  const std::int64_t *script, *stated;
  const double* nearest[2];  // by letters and by words, each [rows, kNearest], descending
  const double* best_odds;   // with candidates, by the fitted likelihood; as `nearest`
  const double* numbers;     // [kRowNumbers, rows]
  const std::int64_t* slots;  // of the clusters of one row each in the fitted likelihood's table
  const double* measures;     // [rows, attributes of the file's differences]
  const Column* column;
};

class DescribedRows {
 public:
  DescribedRows(const RowArrays& given, const Knowledge& known);

  const RowArrays arrays;
  const std::vector<Column> columns;
  Readings readings;
};

// What agreement is worth, by attribute, the likelihood that was fitted to the file, and the file's
// own features.
struct Worths {
  const double* log_ratio;   // [attributes, kBins]
  const double* functional;  // [attributes]
  const double* facts;       // [facts]
  std::int64_t n_facts;
  const Differences* differences;
  Table* fitted;               // null: the likelihood reads nothing
  const std::uint8_t* naming;  // [parts of the table] whether a part is a name
  double log_alpha;            // of the likelihood
};

// The bin of a nearness.
int bin_of(double near);

struct Agreement {
  double near, rarity, evidence, conflict;
};

// Describes pairs of rows; one for each thread, whose number it has.
class Describer {
 public:
  explicit Describer(std::size_t worker = 0) : worker_(worker) {}
  // Features of row i of the one and j of the other, one after another; returns the end.
  double* describe(const DescribedRows& a, std::int64_t i, const DescribedRows& b, std::int64_t j,
                   const Worths& worths, double* out);
  // The nearness of the values of an attribute, from 0 to 1, which only equal ones reach.
  double nearness(const Column& a, std::int64_t i, const Column& b, std::int64_t j);
  // The nearness and what it says.
  Agreement agreement(const Column& a, std::int64_t i, const Column& b, std::int64_t j,
                      const Worths& worths, std::int64_t attribute);

 private:
  struct Names {
    std::int64_t x, y;
    double cosine;
  };

  Names nearest_names(const RowArrays& a, std::int64_t i, const RowArrays& b, std::int64_t j);
  double* names(const DescribedRows& a, std::int64_t x, const DescribedRows& b, std::int64_t y,
                double cosine, double* out);
  double* codes(const RowArrays& a, std::int64_t i, const RowArrays& b, std::int64_t j, double* out);
  double contained(const RowArrays& one, std::int64_t x, const RowArrays& other, std::int64_t y);
  double* agreements(const DescribedRows& a, std::int64_t i, const DescribedRows& b,
                     std::int64_t j, const Worths& worths, double* out);

  double* odds(const RowArrays& a, std::int64_t i, const RowArrays& b, std::int64_t j,
               const Worths& worths, double* out);

  std::size_t worker_;
  std::vector<double> parts_;  // of the odds of the fitted likelihood
  TextComparer texts_;
  BagComparer bags_;
  KnownComparer known_;
  std::vector<Text> my_codes_, their_codes_;
};

}  // namespace kbforge
