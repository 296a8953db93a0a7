#include "columns.hpp"

#include <algorithm>
#include <charconv>

#include "api.hpp"
#include "memory.hpp"

namespace kbforge {

namespace {

constexpr std::size_t kChunk = 1 << 18;
constexpr std::size_t kAhead = 8;             // texts that memory is asked for before their turn
constexpr std::size_t kFew = 64;              // fragments that are not worth waking other threads
constexpr std::int64_t kRows = 4096;           // of a batch that are read at a time
constexpr std::size_t kMostTexts = 1u << 30;  // numbers have 31 bits, and a call reads fewer texts

const char* newline_after(const char* at, const char* end) {
  return static_cast<const char*>(std::memchr(at, '\n', static_cast<std::size_t>(end - at)));
}

// Lines in parts of about `kChunk` bytes.
std::vector<Chunk> chunks_of(const char* begin, std::size_t size) {
  std::vector<Chunk> out;
  for (const char *at = begin, *const end = begin + size; at < end; at = out.back().end) {
    const bool last = static_cast<std::size_t>(end - at) <= kChunk;
    out.emplace_back();
    out.back().begin = at;
    out.back().end = last ? end : newline_after(at + kChunk, end) + 1;
  }
  return out;
}

void expect(const std::vector<Text>& texts, std::size_t k, std::size_t end, const Interner& known) {
  if (k + kAhead < end && texts[k + kAhead].at) known.expect(texts[k + kAhead]);
}

}  // namespace

void Columns::parse(const char* begin, std::size_t size) {
  begin_parts(chunks_of(begin, size));
  crew_.share(chunks_.size(), 1, [this](std::size_t, std::size_t k) {
    read_lines(chunks_[k], limits_, seed_, false);
  });
}

void Columns::begin_parts(std::vector<Chunk> chunks) {
  full_ = std::max({ids.size(), names.size(), lines_of_table_, rows_of_table_}) > kMostTexts;
  for (const Interner& texts : values) full_ = full_ || texts.size() > kMostTexts;
  chunks_ = std::move(chunks);
  chunk_ = row_ = doubt_ = 0;
}

void Columns::plan(Plan plan) {
  plan_ = std::make_unique<Plan>(std::move(plan));
  nulls.assign(plan_->nulls.size(), 0);
}

// Every chunk is read as if a record began there. Where that is not so, it is read again from the end
// of the one before.
void Columns::parse_text(const char* begin, std::size_t size, std::size_t lines,
                         std::size_t rows) {
  const char* const stop = begin + size;
  lines_of_table_ = lines;
  rows_of_table_ = rows;
  lines_ = rows_ = 0;
  begin_parts(chunks_of(begin, size));
  std::vector<const char*> ends;
  for (const Chunk& chunk : chunks_) ends.push_back(chunk.end);
  crew_.share(chunks_.size(), 1, [this, stop](std::size_t, std::size_t k) {
    read_records(chunks_[k], stop, *plan_, limits_, seed_);
  });
  for (std::size_t k = 0; k < chunks_.size(); ++k) {
    if (!chunks_[k].doubts.empty()) chunks_.resize(k + 1);
    if (k + 1 >= chunks_.size() || chunks_[k + 1].begin == chunks_[k].end) continue;
    Chunk again;
    again.begin = chunks_[k].end;
    again.end = std::max(again.begin, ends[k + 1]);
    read_records(again, stop, *plan_, limits_, seed_);
    chunks_[k + 1] = std::move(again);
  }
}

bool Columns::parse_batch(const ArrowSchema& schema, const ArrowArray& batch, std::int64_t begin,
                          std::int64_t end, std::size_t rows) {
  std::vector<ArrowTexts> columns;
  if (!open_batch(schema, batch, *plan_, columns)) return false;
  lines_of_table_ = rows_of_table_ = rows;
  lines_ = rows_ = 0;
  begin_parts(std::vector<Chunk>(static_cast<std::size_t>((end - begin + kRows - 1) / kRows)));
  crew_.share(chunks_.size(), 1, [&](std::size_t, std::size_t k) {
    const std::int64_t first = begin + static_cast<std::int64_t>(k) * kRows;
    read_batch(chunks_[k], columns, first, std::min(end, first + kRows), *plan_, limits_, seed_);
  });
  return true;
}

// Fragments of a table have the numbers of their rows, and their ids may be made of them.
void Columns::number_rows(Chunk& chunk, std::size_t begin, std::size_t end) const {
  const Text& prefix = plan_->prefix;
  const std::size_t first_line = lines_of_table_ + chunk.lines_before + 1;
  if (prefix.size) {
    std::size_t size = 0;
    for (std::size_t row = begin; row < end; ++row) size += prefix.size + chunk.ids[row].size + 20;
    chunk.made_ids.reset(new char[size]);
  }
  char* to = chunk.made_ids.get();
  for (std::size_t row = begin; row < end; ++row) {
    const std::size_t line = first_line + chunk.lines[row];
    chunk.rests[row] = Text{nullptr, static_cast<std::uint32_t>(line), 0};
    if (!prefix.size) continue;
    Text& id = chunk.ids[row];
    char* const at = to;
    to = std::copy(prefix.at, prefix.at + prefix.size, to);
    to = id.at ? std::copy(id.at, id.at + id.size, to)
               : std::to_chars(to, to + 20, rows_of_table_ + rows_ + row + 1).ptr;
    id = Text{at, static_cast<std::uint32_t>(to - at), 0};
    id.hash = hash_of(id.at, id.size, seed_);
  }
}

Reached Columns::take(Place& place) {
  if (full_) return Reached::kFull;
  std::vector<Part> parts;
  std::size_t wanted = most_ - (starts.size() - 1);
  Reached reached = Reached::kEnd;
  for (; chunk_ < chunks_.size(); ++chunk_) {
    Chunk& chunk = chunks_[chunk_];
    const bool doubtful = doubt_ < chunk.doubts.size();
    const std::size_t end = doubtful ? chunk.doubts[doubt_].row : chunk.ids.size();
    const std::size_t n = std::min(wanted, end - row_);
    chunk.lines_before = lines_;
    if (plan_) number_rows(chunk, row_, row_ + n);
    for (const auto& [row, which] : chunk.nulls) nulls[which] += row >= row_ && row < row_ + n;
    parts.push_back(Part{&chunk, row_, row_ + n});
    row_ += n;
    wanted -= n;
    if (!wanted) {
      reached = Reached::kLimit;
      break;
    }
    if (doubtful) {
      const Doubt& met = chunk.doubts[doubt_++];
      reached = met.blank ? Reached::kBlank : Reached::kDoubt;
      place = Place{lines_ + met.line, met.line ? 0 : blank_, met.size, chunk.begin + met.at,
                    rows_ + met.row};
      break;
    }
    lines_ += chunk.n_lines;
    rows_ += chunk.rows();
    blank_ = chunk.all_blank ? blank_ + chunk.blank : chunk.blank;
    row_ = doubt_ = 0;
  }
  if (reached == Reached::kEnd) {
    place = Place{lines_, blank_, 0, chunks_.empty() ? nullptr : chunks_.back().end, rows_};
  }
  if (merge(parts, place)) return reached;
  return plan_ ? Reached::kRepeated : Reached::kDoubt;
}

// Add fragments to all columns. False: one of them repeats an id, and is at the place.
bool Columns::merge(const std::vector<Part>& parts, Place& place) {
  std::size_t n = 0;
  for (const Part& part : parts) n += part.end - part.begin;
  bool distinct = true;
  const auto task = [&](std::size_t, std::size_t which) {
    for (const Part& part : parts) {
      if (which == 0) {
        state(part);
      } else if (which == 1) {
        distinct = distinct && add_ids(part, place);
      } else if (which == 2) {
        add(kSource, part.chunk->sources, part);
      } else {
        add(kLabel, part.chunk->labels, part);
        add(kRest, part.chunk->rests, part);
      }
    }
  };
  if (n < kFew) {
    for (std::size_t which = 0; which < 4; ++which) task(0, which);
  } else {
    crew_.share(4, 1, task);
  }
  return distinct;
}

bool Columns::add_ids(const Part& part, Place& place) {
  const Chunk& chunk = *part.chunk;
  for (std::size_t row = part.begin; row < part.end; ++row) {
    expect(chunk.ids, row, part.end, ids);
    const std::size_t known = ids.size();
    if (ids.number(chunk.ids[row]) == known) continue;
    if (plan_) return false;
    const char* at = chunk.begin;
    for (std::uint32_t line = 0; line < chunk.lines[row]; ++line) {
      at = newline_after(at, chunk.end) + 1;
    }
    const std::ptrdiff_t size = newline_after(at, chunk.end) - at;
    place = Place{chunk.lines_before + chunk.lines[row], 0, static_cast<std::size_t>(size), at};
    return false;
  }
  return true;
}

void Columns::add(Optional which, const std::vector<Text>& texts, const Part& part) {
  Interner& known = optional[which];
  std::vector<std::int32_t>& out = numbers[which];
  make_room(out, part.end - part.begin);
  for (std::size_t row = part.begin; row < part.end; ++row) {
    expect(texts, row, part.end, known);
    const Text& text = texts[row];
    out.push_back(text.at ? static_cast<std::int32_t>(known.number(text))
                          : -1 - static_cast<std::int32_t>(text.size));
  }
}

// Add what fragments state.
void Columns::state(const Part& part) {
  if (part.begin == part.end) return;
  Chunk& chunk = *part.chunk;
  const std::size_t begin = part.begin ? chunk.ends[part.begin - 1] : 0;
  const std::size_t end = chunk.ends[part.end - 1];
  make_room(starts, part.end - part.begin);
  const std::int64_t shift = starts.back() - static_cast<std::int64_t>(begin);
  for (std::size_t row = part.begin; row < part.end; ++row) {
    starts.push_back(shift + static_cast<std::int64_t>(chunk.ends[row]));
  }
  make_room(attribute, end - begin);
  make_room(value, end - begin);
  chunk.numbers.resize(chunk.names.size(), -1);
  for (std::size_t k = begin; k < end; ++k) {
    if (k + kAhead < end) {
      const std::int32_t soon = chunk.numbers[chunk.attributes[k + kAhead]];
      if (soon >= 0) values[soon].expect(chunk.values[k + kAhead]);
    }
    std::int32_t& number = chunk.numbers[chunk.attributes[k]];
    if (number < 0) {
      number = static_cast<std::int32_t>(names.number(chunk.names[chunk.attributes[k]]));
      values.resize(names.size());
    }
    attribute.push_back(number);
    value.push_back(static_cast<std::int32_t>(values[number].number(chunk.values[k])));
  }
}

Put Columns::put(const char* line, std::size_t size, const char* rest, std::size_t rest_size) {
  Chunk chunk;
  chunk.begin = line;
  chunk.end = line + size;
  read_lines(chunk, limits_, seed_, true);
  if (chunk.ids.size() != 1) return Put::kNotRead;
  if (rest_size) {
    const std::uint32_t hash = hash_of(rest, rest_size, seed_);
    chunk.rests[0] = Text{rest, static_cast<std::uint32_t>(rest_size), hash};
  }
  Place any;
  if (!merge({Part{&chunk, 0, 1}}, any)) return Put::kRepeated;
  return starts.size() - 1 < most_ ? Put::kAdded : Put::kLast;
}

void Columns::finish() {
  chunks_.clear();
  ids.forget();
  for (Interner& texts : values) texts.forget();
  for (Interner& texts : optional) texts.forget();
  give_back_memory();
}

// Columns, and what was last told of them, which is no longer theirs.
class ColumnReader {
 public:
  ColumnReader(std::size_t workers, std::uint64_t seed, const LineLimits& limits, std::size_t most)
      : columns(workers, seed, limits, most) {}

  Columns columns;
  Interner texts;
  std::vector<std::int32_t> numbers;
};

}  // namespace kbforge

using kbforge::ColumnReader;
using kbforge::Columns;

ColumnReader* kb_columns_new(std::int32_t workers, std::int64_t seed, const std::int64_t* limits,
                             std::int64_t most) {
  std::size_t n[5];
  std::copy(limits, limits + 5, n);
  return new ColumnReader(static_cast<std::size_t>(workers), static_cast<std::uint64_t>(seed),
                          kbforge::LineLimits{n[0], n[1], n[2], n[3], n[4]},
                          static_cast<std::size_t>(most));
}

void kb_columns_free(ColumnReader* reader) {
  delete reader;
  kbforge::give_back_memory();
}

void kb_columns_parse(ColumnReader* reader, const char* lines, std::int64_t size) {
  reader->columns.parse(lines, static_cast<std::size_t>(size));
}

std::int32_t kb_columns_take(ColumnReader* reader, kb_place* out) {
  kbforge::Place place;
  const kbforge::Reached reached = reader->columns.take(place);
  *out = kb_place{static_cast<std::int64_t>(place.lines), static_cast<std::int64_t>(place.blank),
                  place.at, static_cast<std::int64_t>(place.size),
                  static_cast<std::int64_t>(place.rows)};
  return static_cast<std::int32_t>(reached);
}

std::int32_t kb_columns_put(ColumnReader* reader, const char* line, std::int64_t size,
                            const char* rest, std::int64_t rest_size) {
  return static_cast<std::int32_t>(reader->columns.put(line, static_cast<std::size_t>(size), rest,
                                                       static_cast<std::size_t>(rest_size)));
}

void kb_columns_plan(ColumnReader* reader, const std::int64_t* numbers, const std::int64_t* starts,
                     const char* bytes) {
  kbforge::Plan plan;
  const std::int64_t n_columns = numbers[0], n_attributes = numbers[1], n_nulls = numbers[2];
  const std::int64_t n = n_attributes + n_nulls + 4;
  plan.bytes.assign(bytes, bytes + starts[n]);
  const auto text = [&](std::int64_t k) {
    const auto size = static_cast<std::uint32_t>(starts[k + 1] - starts[k]);
    kbforge::Text out{plan.bytes.data() + starts[k], size, 0};
    out.hash = kbforge::hash_of(out.at, out.size, reader->columns.seed());
    return out;
  };
  for (std::int64_t k = 0; k < n_attributes; ++k) plan.attributes.push_back(text(k));
  for (std::int64_t k = 0; k < n_nulls; ++k) plan.nulls.push_back(text(n_attributes + k));
  plan.prefix = text(n - 4);
  plan.separator = text(n - 3);
  if (numbers[6]) plan.source = text(n - 2);
  if (numbers[7]) plan.header = text(n - 1);
  plan.id = static_cast<std::int32_t>(numbers[3]);
  plan.label = static_cast<std::int32_t>(numbers[4]);
  plan.delimiter = static_cast<char>(numbers[5]);
  plan.repeats = plan.separator.size;
  std::vector<bool> is_stated(static_cast<std::size_t>(n_attributes));
  for (const std::int64_t* at = numbers + 8; at < numbers + 8 + 2 * n_columns; at += 2) {
    plan.columns.push_back({static_cast<std::int32_t>(at[0]), at[1] != 0});
    if (at[0] < 0) continue;
    plan.repeats = plan.repeats || is_stated[at[0]];
    is_stated[at[0]] = true;
  }
  reader->columns.plan(std::move(plan));
}

void kb_columns_text(ColumnReader* reader, const char* text, std::int64_t size, std::int64_t lines,
                     std::int64_t rows) {
  reader->columns.parse_text(text, static_cast<std::size_t>(size), static_cast<std::size_t>(lines),
                             static_cast<std::size_t>(rows));
}

std::int32_t kb_columns_batch(ColumnReader* reader, const ArrowSchema* schema,
                              const ArrowArray* batch, std::int64_t begin, std::int64_t end,
                              std::int64_t rows) {
  return reader->columns.parse_batch(*schema, *batch, begin, end, static_cast<std::size_t>(rows));
}

std::int64_t kb_columns_nulls(ColumnReader* reader, const std::int64_t** out) {
  *out = reader->columns.nulls.data();
  return static_cast<std::int64_t>(reader->columns.nulls.size());
}

void kb_columns_texts(ColumnReader* reader, std::int32_t which, std::int64_t attribute,
                      kb_texts* out) {
  Columns& columns = reader->columns;
  kbforge::Interner& told = which < 3    ? columns.optional[which]
                            : which == 3 ? columns.ids
                            : which == 4 ? columns.names
                                         : columns.values[attribute];
  reader->texts = std::move(told);
  *out = kb_texts{static_cast<std::int64_t>(reader->texts.size()), reader->texts.starts().data(),
                  reader->texts.bytes().data()};
}

std::int64_t kb_columns_numbers(ColumnReader* reader, std::int32_t which,
                                const std::int32_t** out) {
  Columns& columns = reader->columns;
  reader->numbers = std::move(which < 3    ? columns.numbers[which]
                              : which == 3 ? columns.attribute
                                           : columns.value);
  *out = reader->numbers.data();
  return static_cast<std::int64_t>(reader->numbers.size());
}

std::int64_t kb_columns_starts(ColumnReader* reader, const std::int64_t** out) {
  reader->columns.finish();
  *out = reader->columns.starts.data();
  return static_cast<std::int64_t>(reader->columns.starts.size());
}
