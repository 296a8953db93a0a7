// What fragments state, as columns of numbers and the texts that they number.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "crew.hpp"
#include "rows.hpp"

namespace kbforge {

// How far lines have been taken over.
enum class Reached {
  kEnd = 0,    // all are
  kDoubt = 1,  // up to a line that the Python reader has to read
  kBlank = 2,  // up to a run of blank lines, from which on it has to read all
  kLimit = 3,  // there are as many fragments as are wanted
  kFull = 4,   // there are more texts than numbers
  kRepeated = 5  // a row has the id of another one
};

// What became of a fragment; the last one is the last that is wanted.
enum class Put { kRepeated = 0, kAdded = 1, kLast = 2, kNotRead = 3 };

// Where that is: the lines before, the weight of the blank ones just before, and its own bytes. For a
// table, the lines and the rows before that were read at once, or the rows of a batch.
struct Place {
  std::size_t lines = 0, blank = 0, size = 0;
  const char* at = nullptr;
  std::size_t rows = 0;
};

// A text that a fragment may have. What it has beside texts is one, too.
enum Optional { kLabel = 0, kSource = 1, kRest = 2 };
constexpr std::size_t kOptional = 3;

class Columns {
 public:
  Columns(std::size_t workers, std::uint64_t seed, const LineLimits& limits, std::size_t most)
      : crew_(workers), seed_(seed), limits_(limits), most_(most) {}

  // Read lines, each with its newline; they are used until all have been taken over.
  void parse(const char* begin, std::size_t size);
  // What the rows of a table mean, before any are read.
  void plan(Plan plan);
  std::uint64_t seed() const { return seed_; }
  // Read records of a delimited text, or rows of a batch from `begin` on, up to a doubt; so many lines
  // and rows of the table come before them. False: the batch is not one that can be read.
  void parse_text(const char* begin, std::size_t size, std::size_t lines, std::size_t rows);
  bool parse_batch(const ArrowSchema& schema, const ArrowArray& batch, std::int64_t begin,
                   std::int64_t end, std::size_t rows);
  // Take over fragments, in order. After a doubt the next call goes on behind it.
  Reached take(Place& place);
  // Add the fragment of a checked line, and `[vector, metadata]` as JSON if it has either.
  Put put(const char* line, std::size_t size, const char* rest, std::size_t rest_size);

  // Nothing follows: free what only reading needs.
  void finish();

  // A fragment has the number of its id.
  Interner ids, names;
  std::vector<Interner> values;  // by attribute
  std::array<Interner, kOptional> optional;
  std::array<std::vector<std::int32_t>, kOptional> numbers;  // of each fragment's, or -1
  std::vector<std::int64_t> starts{0};                       // of each fragment's statements
  std::vector<std::int32_t> attribute, value;                // of each statement
  std::vector<std::int64_t> nulls;                           // values of each text that means none

 private:
  // Some fragments of a chunk.
  struct Part {
    Chunk* chunk;
    std::size_t begin, end;
  };

  bool merge(const std::vector<Part>& parts, Place& place);
  bool add_ids(const Part& part, Place& place);
  void add(Optional which, const std::vector<Text>& texts, const Part& part);
  void begin_parts(std::vector<Chunk> chunks);
  void state(const Part& part);
  void number_rows(Chunk& chunk, std::size_t begin, std::size_t end) const;

  Crew crew_;
  const std::uint64_t seed_;
  const LineLimits limits_;
  const std::size_t most_;
  std::vector<Chunk> chunks_;
  std::size_t chunk_ = 0, row_ = 0, doubt_ = 0;  // what is taken over next
  std::size_t lines_ = 0, blank_ = 0;            // before the chunk
  bool full_ = false;
  std::unique_ptr<Plan> plan_;
  std::size_t lines_of_table_ = 0, rows_of_table_ = 0;  // before what is parsed
  std::size_t rows_ = 0;                                // parsed, before the chunk
};

}  // namespace kbforge
