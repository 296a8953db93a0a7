#include "rows.hpp"

#include <algorithm>

// The structures of Arrow's C data interface, as its specification lays them out.
struct ArrowSchema {
  const char *format, *name, *metadata;
  std::int64_t flags, n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length, null_count, offset, n_buffers, n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

namespace kbforge {

namespace {

constexpr std::ptrdiff_t kMostOfCell = 1 << 16;  // bytes; csv.reader has a limit for longer ones
constexpr std::size_t kMostValues = 64;          // of an attribute, if they have to be compared

// What str.strip takes off, if it is ASCII.
bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 0x1C && c <= 0x1F); }

// Whether a character of UTF-8 is white space, given its bytes.
bool is_wide_space(const char* at, std::size_t size) {
  const auto byte = [at](std::size_t k) { return static_cast<std::uint8_t>(at[k]); };
  if (size == 2) return byte(0) == 0xC2 && (byte(1) == 0x85 || byte(1) == 0xA0);
  if (size != 3) return false;
  const unsigned code = (byte(0) & 0xFu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
  return code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

// Whether bytes are UTF-8 without NUL.
bool is_text(const Text& text) {
  const char *at = text.at, *const end = at + text.size;
  while (at < end) {
    std::uint64_t word;
    constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
    if (end - at >= 8) {
      std::memcpy(&word, at, 8);
      if (!((word | (word - kOnes)) & kHigh)) {  // eight characters, and none is NUL
        at += 8;
        continue;
      }
    }
    if (!*at) return false;
    if (!(static_cast<std::uint8_t>(*at) & 0x80)) {
      ++at;
      continue;
    }
    char last[4] = {};
    const std::size_t left = static_cast<std::size_t>(end - at);
    std::memcpy(last, at, std::min<std::size_t>(left, 4));
    const int length = length_of(last);
    if (!length) return false;
    at += length;
  }
  return true;
}

// Take white space off a text; false: there may be some that is not ASCII.
bool strip(Text& text) {
  while (text.size && is_space(*text.at)) {
    ++text.at;
    --text.size;
  }
  while (text.size && is_space(text.at[text.size - 1])) --text.size;
  if (!text.size) return true;
  if (*text.at & 0x80) {
    const std::size_t length = (*text.at & 0xE0) == 0xC0 ? 2 : (*text.at & 0xF0) == 0xE0 ? 3 : 4;
    if (is_wide_space(text.at, length)) return false;
  }
  std::size_t first = text.size - 1;
  while (first && (text.at[first] & 0xC0) == 0x80) --first;
  return !is_wide_space(text.at + first, text.size - first);
}

bool equal(const Text& a, const Text& b) {
  return a.size == b.size && std::memcmp(a.at, b.at, a.size) == 0;
}

// Whether a text looks like a date of a spreadsheet.
bool is_serial(const Text& text) {
  if (text.size < 5 || text.at[0] < '1') return false;
  for (int k = 0; k < 5; ++k) {
    if (text.at[k] < '0' || text.at[k] > '9') return false;
  }
  return text.size == 5 || text.at[5] == '.';
}

// Makes fragments of rows.
class Row {
 public:
  Row(Chunk& chunk, const Plan& plan, const LineLimits& limits, std::uint64_t seed)
      : cells(plan.columns.size()), chunk_(chunk), plan_(plan), limits_(limits), seed_(seed) {
    chunk.names = plan.attributes;
    for (const Text& null : plan.nulls) most_of_null_ = std::max(most_of_null_, null.size);
  }

  std::vector<Text> cells;

  // Whether the cells are a fragment; then it has been added.
  bool read(std::size_t line) {
    stated_ = chunk_.values.size();
    const std::size_t nulls = chunk_.nulls.size();
    id_ = label_ = Text{};
    if (!(strip_all() && state_all() && take_id() && take_label())) {
      chunk_.attributes.resize(stated_);
      chunk_.values.resize(stated_);
      chunk_.nulls.resize(nulls);
      return false;
    }
    chunk_.ids.push_back(id_);
    chunk_.labels.push_back(label_);
    chunk_.sources.push_back(plan_.source);
    chunk_.rests.emplace_back();
    chunk_.ends.push_back(chunk_.values.size());
    chunk_.lines.push_back(static_cast<std::uint32_t>(line));
    return true;
  }

 private:
  // Check and strip all cells. A blank row, and one that may be the header, are left.
  bool strip_all() {
    bool is_there = false;
    for (Text& cell : cells) {
      if (!cell.at) continue;
      if (cell.size > limits_.text || !is_text(cell) || !strip(cell)) return false;
      is_there = is_there || cell.size;
    }
    return is_there && !(plan_.header.at && equal(cells[0], plan_.header));
  }

  bool state_all() {
    for (std::size_t k = 0; k < cells.size(); ++k) {
      const Plan::Column& column = plan_.columns[k];
      if (column.attribute < 0 || !cells[k].size) continue;
      if (!(plan_.separator.size ? state_parts(cells[k], column) : state(cells[k], column))) {
        return false;
      }
    }
    return chunk_.values.size() > stated_;
  }

  bool state_parts(const Text& cell, const Plan::Column& column) {
    const char *const end = cell.at + cell.size, *at = cell.at;
    const Text& mark = plan_.separator;
    for (;;) {
      const char* const found = std::search(at, end, mark.at, mark.at + mark.size);
      Text part{at, static_cast<std::uint32_t>(found - at), 0};
      if (!strip(part) || (part.size && !state(part, column))) return false;
      if (found == end) return true;
      at = found + mark.size;
    }
  }

  // State a value, unless it means that there is none; false: leave the row.
  bool state(Text text, const Plan::Column& column) {
    if (is_null(text)) return true;
    if (column.is_dated && is_serial(text)) return false;
    text.hash = hash_of(text.at, text.size, seed_);
    const auto attribute = static_cast<std::uint32_t>(column.attribute);
    std::size_t at = chunk_.values.size();
    if (plan_.repeats) {
      std::size_t first = stated_, end;
      while (first < at && chunk_.attributes[first] != attribute) ++first;
      for (end = first; end < at && chunk_.attributes[end] == attribute; ++end) {
        if (equal(chunk_.values[end], text)) return true;
      }
      if (end - first >= kMostValues) return false;
      at = end;
    }
    const auto place = static_cast<std::ptrdiff_t>(at);
    chunk_.attributes.insert(chunk_.attributes.begin() + place, attribute);
    chunk_.values.insert(chunk_.values.begin() + place, text);
    return true;
  }

  bool is_null(const Text& text) {
    if (text.size > most_of_null_) return false;
    for (std::size_t k = 0; k < plan_.nulls.size(); ++k) {
      if (!equal(plan_.nulls[k], text)) continue;
      chunk_.nulls.emplace_back(chunk_.rows(), k);
      return true;
    }
    return false;
  }

  bool take_id() {
    if (plan_.id < 0) return true;
    id_ = cells[plan_.id];
    if (!id_.size || id_.size + plan_.prefix.size > limits_.id) return false;
    id_.hash = hash_of(id_.at, id_.size, seed_);
    return true;
  }

  bool take_label() {
    if (plan_.label < 0 || !cells[plan_.label].size || is_null(cells[plan_.label])) return true;
    label_ = cells[plan_.label];
    label_.hash = hash_of(label_.at, label_.size, seed_);
    return true;
  }

  Chunk& chunk_;
  const Plan& plan_;
  const LineLimits& limits_;
  const std::uint64_t seed_;
  std::size_t stated_ = 0;  // statements before the row's
  std::uint32_t most_of_null_ = 0;
  Text id_, label_;
};

// Reads the cells of records, as csv.reader does where it is strict, of lines without what is at
// their end.
class Record {
 public:
  Record(const char* begin, const char* stop, char delimiter)
      : begin_(begin), stop_(stop), delimiter_(delimiter), at_(begin) {}

  const char* at() const { return at_; }
  std::size_t lines() const { return lines_; }  // of the last record

  // Whether the next record has as many cells as there is room for, and perhaps blank ones.
  bool read(std::vector<Text>& cells) {
    std::size_t n = 0;
    lines_ = 1;
    for (;; ++at_) {
      Text cell;
      if (*at_ != '"') {
        cell.at = at_;
        while (*at_ != delimiter_ && *at_ != '\n' && *at_ != '\r') ++at_;
        cell.size = static_cast<std::uint32_t>(at_ - cell.at);
      } else if (!quoted(cell)) {
        return false;
      }
      if (cell.size > kMostOfCell) return false;
      if (n < cells.size()) {
        cells[n++] = cell;
      } else if (!std::all_of(cell.at, cell.at + cell.size, is_space)) {
        return false;
      }
      if (*at_ != delimiter_) break;
    }
    while (*at_ == '\r') ++at_;
    return *at_++ == '\n' && n == cells.size();
  }

  // What has been written of cells.
  std::unique_ptr<char[]>& written() { return written_; }

 private:
  // A cell in quotes. Its lines lose carriage returns at their end, and what is blank of a line that
  // has nothing else, as in kbforge/files/io.py.
  bool quoted(Text& cell) {
    const char *const begin = ++at_, *from = begin;
    bool is_line = false;  // whether it is the beginning of a line from where there is more to copy
    for (;; ++at_) {
      while (at_ < stop_ && *at_ != '"' && *at_ != '\n') ++at_;
      if (at_ == stop_ || at_ - begin > kMostOfCell) return false;
      if (*at_ == '"') {
        if (at_[1] != '"') break;
        copy(from, ++at_, cell);
        is_line = false;
      } else {
        const char* end = at_;
        while (end > from && end[-1] == '\r') --end;
        const bool is_blank = is_line && std::all_of(from, end, [](char c) {
                                return c == ' ' || (c >= '\t' && c <= '\r');
                              });
        copy(from, is_blank ? from : end, cell);
        *to_++ = '\n';
        ++lines_;
        is_line = true;
      }
      from = at_ + 1;
    }
    if (cell.at) {
      copy(from, at_, cell);
      cell.size = static_cast<std::uint32_t>(to_ - cell.at);
    } else {
      cell.at = begin;
      cell.size = static_cast<std::uint32_t>(at_ - begin);
    }
    ++at_;
    return *at_ == delimiter_ || *at_ == '\n' || *at_ == '\r';
  }

  // Write a part of a cell, which is no longer than what it is written of.
  void copy(const char* from, const char* end, Text& cell) {
    if (!written_) {
      written_.reset(new char[static_cast<std::size_t>(stop_ - begin_)]);
      to_ = written_.get();
    }
    if (!cell.at) cell.at = to_;
    to_ = std::copy(from, end, to_);
  }

  const char *const begin_, *const stop_;
  const char delimiter_;
  const char* at_;
  std::size_t lines_ = 0;
  std::unique_ptr<char[]> written_;
  char* to_ = nullptr;
};

bool is_set(const std::uint8_t* bits, std::int64_t k) { return bits[k >> 3] >> (k & 7) & 1; }

}  // namespace

void read_records(Chunk& chunk, const char* stop, const Plan& plan, const LineLimits& limits,
                  std::uint64_t seed) {
  Row row(chunk, plan, limits, seed);
  Record record(chunk.begin, stop, plan.delimiter);
  const char* at = chunk.begin;
  while (at < chunk.end && record.read(row.cells) && row.read(chunk.n_lines)) {
    chunk.n_lines += record.lines();
    at = record.at();
  }
  if (at < chunk.end) {
    const std::size_t before = static_cast<std::size_t>(at - chunk.begin);
    chunk.doubts.push_back(Doubt{chunk.rows(), chunk.n_lines, before, 0, false});
  }
  chunk.end = at;
  chunk.written = std::move(record.written());
}

bool ArrowTexts::open(const ArrowSchema& schema, const ArrowArray& array) {
  const ArrowSchema* type = &schema;
  const ArrowArray* texts = &array;
  offset_ = array.offset;
  valid_ = static_cast<const std::uint8_t*>(array.buffers[0]);
  if (schema.dictionary) {
    if (std::strcmp(schema.format, "i") != 0) return false;
    index_ = static_cast<const std::int32_t*>(array.buffers[1]);
    type = schema.dictionary;
    texts = array.dictionary;
    valid_texts_ = static_cast<const std::uint8_t*>(texts->buffers[0]);
    offset_of_texts_ = texts->offset;
  }
  const bool is_short = std::strcmp(type->format, "u") == 0;
  if (!is_short && std::strcmp(type->format, "U") != 0) return false;
  if (is_short) {
    short_ = static_cast<const std::int32_t*>(texts->buffers[1]);
  } else {
    long_ = static_cast<const std::int64_t*>(texts->buffers[1]);
  }
  bytes_ = static_cast<const char*>(texts->buffers[2]);
  if (!bytes_) bytes_ = "";
  return true;
}

Text ArrowTexts::at(std::int64_t row) const {
  row += offset_;
  if (valid_ && !is_set(valid_, row)) return Text{};
  if (index_) {
    row = index_[row] + offset_of_texts_;
    if (valid_texts_ && !is_set(valid_texts_, row)) return Text{};
  }
  const std::int64_t begin = short_ ? short_[row] : long_[row];
  const std::int64_t size = (short_ ? short_[row + 1] : long_[row + 1]) - begin;
  // a longer one is left for its size
  return Text{bytes_ + begin, static_cast<std::uint32_t>(std::min<std::int64_t>(size, 1u << 31)), 0};
}

bool open_batch(const ArrowSchema& schema, const ArrowArray& batch, const Plan& plan,
                std::vector<ArrowTexts>& out) {
  const std::size_t n = plan.columns.size();
  if (static_cast<std::size_t>(batch.n_children) != n || batch.offset) return false;
  out.assign(n, ArrowTexts{});
  for (std::size_t k = 0; k < n; ++k) {
    if (!out[k].open(*schema.children[k], *batch.children[k])) return false;
  }
  return true;
}

void read_batch(Chunk& chunk, const std::vector<ArrowTexts>& columns, std::int64_t begin,
                std::int64_t end, const Plan& plan, const LineLimits& limits, std::uint64_t seed) {
  Row row(chunk, plan, limits, seed);
  for (std::int64_t at = begin; at < end; ++at, ++chunk.n_lines) {
    for (std::size_t k = 0; k < columns.size(); ++k) row.cells[k] = columns[k].at(at);
    if (row.read(chunk.n_lines)) continue;
    chunk.doubts.push_back(Doubt{chunk.rows(), chunk.n_lines, 0, 0, false});
    return;
  }
}

}  // namespace kbforge
