// Rows of tables (plugins/kbforge_plugins/sources/rows.py): without any doubt, or not at all.
//
// As for lines.hpp: a row that is taken is one that the Python reader takes, and means the same.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lines.hpp"

struct ArrowArray;
struct ArrowSchema;

namespace kbforge {

// What the rows of a table mean: RowReader, for one table.
struct Plan {
  struct Column {
    std::int32_t attribute = -1;  // -1: none
    bool is_dated = false;        // a number in it may be a spreadsheet's date
  };

  std::vector<char> bytes;  // of all texts
  std::vector<Column> columns;
  std::vector<Text> attributes, nulls;
  Text source;     // of each fragment
  Text prefix;     // of each id
  Text header;     // the first cell of the row with the columns' names, if that is a row
  Text separator;  // of the values of a cell
  std::int32_t id = -1, label = -1;  // their columns; without ids the rows are numbered
  char delimiter = ',';
  bool repeats = false;  // whether a row may state values of an attribute in several places
};

// Read the records of a delimited text that begin before the chunk's end, up to the first doubt. The
// text ends with a newline at `stop`. The chunk then ends where the last record does.
void read_records(Chunk& chunk, const char* stop, const Plan& plan, const LineLimits& limits,
                  std::uint64_t seed);

// The texts of a column of a record batch, in the layout of Arrow's C data interface.
class ArrowTexts {
 public:
  // Whether the column is one of texts, plain or by a dictionary.
  bool open(const ArrowSchema& schema, const ArrowArray& array);
  // A text that is not there lies nowhere.
  Text at(std::int64_t row) const;

 private:
  const std::uint8_t* valid_ = nullptr;   // a bit a row
  const std::int32_t* index_ = nullptr;   // into the dictionary
  const std::int32_t* short_ = nullptr;   // where texts begin
  const std::int64_t* long_ = nullptr;
  const char* bytes_ = nullptr;
  const std::uint8_t* valid_texts_ = nullptr;  // of a dictionary
  std::int64_t offset_ = 0, offset_of_texts_ = 0;
};

// Read rows of a batch, up to the first doubt.
void read_batch(Chunk& chunk, const std::vector<ArrowTexts>& columns, std::int64_t begin,
                std::int64_t end, const Plan& plan, const LineLimits& limits, std::uint64_t seed);

// The columns of a batch; false: there are others than the plan's, or other types.
bool open_batch(const ArrowSchema& schema, const ArrowArray& batch, const Plan& plan,
                std::vector<ArrowTexts>& out);

}  // namespace kbforge
