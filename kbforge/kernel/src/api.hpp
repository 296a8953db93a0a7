// The kernel's interface: plain C, for ctypes (kbforge/kernel/binding.py).
//
// Pointers that a function gives back are to memory of the kernel, and are valid until the next call
// on the same run. A likelihood's table belongs to the caller and must outlive the runs it is given to.
#pragma once

#include <cstdint>

#if defined(_WIN32)
#define KB_API extern "C" __declspec(dllexport)
#else
#define KB_API extern "C" __attribute__((visibility("default")))
#endif

struct ArrowArray;
struct ArrowSchema;

namespace kbforge {
struct Run;
class Table;
class KeyMaker;
class ColumnReader;
class Entities;
}  // namespace kbforge

// What taking in fragments did: arrays of each, with where each fragment's begin.
struct kb_done {
  std::int64_t taken;  // fragments taken in; where there is an error, those before it
  std::int32_t outcome;  // as Outcome in step.hpp
  std::int64_t evaluations;
  std::int64_t subproblems;
  double log10_effective;
  const std::int64_t *parents, *children, *dropped;  // of the last fragment
  std::int64_t n_children, n_dropped;
  const std::int64_t *before, *after;  // names of subproblems
  const std::int64_t *before_start, *after_start;  // shape [taken + 1]
  const std::int64_t *subproblems_after, *evaluations_after;  // shape [taken]
  const double* log10_after;                                  // shape [taken]
};

// Some subproblems as kbforge.contracts.Page has them, one after another.
struct kb_pages {
  const std::int64_t *clusters, *particles;  // of each page
  const std::int64_t *slots, *lengths, *members, *rows, *cells;
  const double *scores, *weights;
  std::int64_t n_slots, n_members, n_rows, n_cells;
};

struct kb_totals {
  std::int64_t fragments, slots, subproblems, evaluations, n_free;
  const std::int64_t* free;
  double log10_effective;
};

// A place among the lines of a file: the lines before it, how much the blank ones just before it
// weigh, and its bytes; for a table, the lines and rows before it that were read at once.
struct kb_place {
  std::int64_t lines, blank;
  const char* at;
  std::int64_t size, rows;
};

// Texts, one after another: where each begins, shape [n + 1], and their bytes.
struct kb_texts {
  std::int64_t n;
  const std::int64_t* starts;
  const char* bytes;
};

// Subproblems as kbforge.contracts.Subproblems has them, each part with where it begins; their point
// estimates like particles, null if these are the first ones; and their numbers, null if these are
// their places.
struct kb_groupings {
  const std::int64_t *clusters, *lengths;
  const std::int32_t* members;
  const std::int64_t* particles;
  const double* weights;
  const std::int64_t* rows;
  const std::int32_t* cells;
  const std::int64_t* estimates;
  const std::int32_t* estimate;
  const std::int64_t* numbers;
};

// What the fragments of a file state: by statement its attribute and value, by attribute its place in
// the order of the file, its rank among those that name an entity and the texts of its values. The
// best ranks name an entity by the first such attribute, the last but one by all, the last none. Words
// are bits, how many bytes.
struct kb_said {
  const std::int64_t* starts;
  const std::int32_t *attribute, *value, *place, *naming;
  std::int32_t unnaming;
  const kb_texts* texts;
  kb_texts names, ids;
  const std::uint8_t* words;
  std::int64_t n_words;
  const std::uint8_t* asserted;  // whether a person asserts what a fragment states; null if nobody does
};

// Entities: how many they are, what they state (attributes, values of each, fragments that state it,
// and the place of the best value of an attribute), those whose names and best values are for the
// caller to choose, how probable they are, and how probable their alternatives.
struct kb_entities {
  std::int64_t n, n_cells, n_rivals, n_undecided;
  const std::int64_t *member_start, *cell_start, *value_start, *holder_start;
  const std::int32_t *members, *attribute, *value, *holder;
  std::int32_t* best;
  const std::int64_t* undecided;
  const double *reported, *probability;
};

// What their lines have besides: ids, names of the undecided ones, more of JSON; and lists of numbers
// in JSON, the second one unless the first is what is reported.
struct kb_stated_entities {
  kb_texts ids, names, more, of_values;  // more members of entities, and of values; none without texts
  const char *confidence, *reported, *rivals;
};

struct kb_led {
  std::int64_t n_keys, n_families;
  const std::int64_t *keys, *counts, *families;
  const std::uint8_t* closed;
};

// Clusters that a fragment could belong to instead of its own.
struct kb_rival {
  const std::int64_t* slots;
  const double* weights;  // log|C| + L(C + x) - L(C); without a table, log|C|
  double alone;           // L({x}); without a table, 0
};

// What keeps fragments apart: each one's component, or -1, its values of the linking attribute, and
// its sets of values of attributes that must not differ; by component, those that it is apart from;
// by set, its attribute and its values.
struct kb_apart {
  const std::int64_t *component, *value_start, *values, *set_start, *sets;
  std::int64_t components;
  const std::int64_t *apart_start, *apart;
  std::int64_t n_sets;
  const std::int64_t *attribute, *stated_start, *stated;
};

// Raised whenever something here changes (kbforge/kernel/binding.py).
KB_API std::int32_t kb_version(void);
// exp(-x), log, log10 and the power of .7 of n numbers, for comparison with Python's; shape [4, n].
KB_API void kb_functions(std::int64_t n, const double* x, double* out);

KB_API kbforge::Run* kb_run_new(std::int32_t particles, double log_floor, std::int32_t splits,
                                std::int32_t marginal, double log_alpha,
                                std::int64_t (*draw)(std::int64_t, const double*, std::int64_t*,
                                                     double*),
                                std::int64_t (*sample)(std::int64_t, const double*, std::int64_t,
                                                       std::int64_t*),
                                std::int32_t indexed, std::int32_t most, std::int32_t shared,
                                std::int32_t compared);
KB_API void kb_run_free(kbforge::Run* run);
// How many fragments the largest cluster so far has held.
KB_API std::int64_t kb_run_largest(const kbforge::Run* run);

// The prior's terms of cluster sizes below n: of one more fragment, and of the cluster.
KB_API void kb_run_sizes(kbforge::Run* run, std::int64_t n, const double* log_size,
                         const double* log_cluster);
// Have constraints in force, or, if `components` is negative, none: by component of decisions, those
// that it is apart from. No fragment has a tag yet.
KB_API void kb_bind(kbforge::Run* run, std::int64_t components, const std::int64_t* apart_start,
                    const std::int64_t* apart);
// Further sets of values, each of an attribute that must not differ, numbered on.
KB_API void kb_put_sets(kbforge::Run* run, std::int64_t n, const std::int64_t* attribute,
                        const std::int64_t* start, const std::int64_t* values);
// Fragments, which may be yet to come, are in components, or -1, and have values of the linking
// attribute, and sets.
KB_API void kb_tag(kbforge::Run* run, std::int64_t n, const std::int64_t* fragments,
                   const std::int64_t* components, const std::int64_t* value_start,
                   const std::int64_t* values, const std::int64_t* set_start,
                   const std::int64_t* sets);
// Have all clusters that are held the tags of their fragments.
KB_API void kb_tag_clusters(kbforge::Run* run);
// The clusters to compare a fragment, the next one or one after it, with: those that its keys lead to,
// or all, within bounds; how many. -1: they lead to subproblems that lie elsewhere.
KB_API std::int64_t kb_look_up(kbforge::Run* run, std::int64_t fragment, const std::int64_t* keys,
                               std::int64_t n, const std::int64_t** slots);
// The keys of the fragment looked up that are not closed; how many.
KB_API std::int64_t kb_open_keys(kbforge::Run* run, const std::int64_t** keys);
// The clusters of the heaviest joins of the fragment looked up, at most `limit` joins, by a surrogate's
// L(C + x) - L(C), and the subproblem of the heaviest, or -1; how many. -1: a number is NaN or +inf.
KB_API std::int64_t kb_propose(kbforge::Run* run, const double* predictive, std::int64_t limit,
                               const std::int64_t** slots, std::int64_t* heaviest);
// Take in the fragment that was looked up. If `joined` is not null, it is L(C + x). If `proposed` is 1,
// the scores are of the clusters proposed, otherwise of those looked up; if 2, the fragment gets a
// subproblem of its own. `evaluations`: sets scored then, if not negative.
KB_API void kb_take_in(kbforge::Run* run, const double* predictive, const double* joined,
                       double alone, std::int32_t proposed, std::int64_t evaluations,
                       kb_done* done);
// The subproblems that hold clusters, and the clusters' lengths and members and L.
KB_API void kb_owners(const kbforge::Run* run, std::int64_t n, const std::int64_t* slots,
                      std::int64_t* owners);
KB_API void kb_members(kbforge::Run* run, std::int64_t n, const std::int64_t* slots,
                       kb_pages* pages);
// L(C + x) - L(C) of clusters by a table, of no clusters L({x}); 0: it was not told of the record.
KB_API std::int32_t kb_log_predictive(kbforge::Table* table, const std::int64_t* record_start,
                                      const std::int32_t* attributes, const std::int32_t* values,
                                      std::int64_t n, const std::int64_t* slots, double* out);
// children[k] := parents[k] + x; a parent of -1 is the empty cluster. `last`: see Table::forget.
KB_API void kb_extend(kbforge::Table* table, const std::int64_t* record_start,
                      const std::int32_t* attributes, const std::int32_t* values, std::int64_t n,
                      const std::int64_t* parents, const std::int64_t* children,
                      std::int32_t last);
// Hold n records as clusters of one each, in slots from the first on.
KB_API void kb_hold_each(kbforge::Table* table, std::int64_t first, std::int64_t n,
                         const std::int64_t* record_start, const std::int32_t* attributes,
                         const std::int32_t* values);
// L of the cluster of a slot, nats: of attributes one term each (NaN where it states nothing there),
// of pairs one number.
KB_API void kb_log_marginals(kbforge::Table* table, std::int64_t slot, double* out);
// L(C + D) - L(C) - L(D) of the cluster of a slot and n others, nats; of attributes where the numbers
// of the values ascend as those of Python do. Gaussian clusters do not merge.
KB_API void kb_merge_ratios(kbforge::Table* table, std::int64_t slot, std::int64_t n,
                            const std::int64_t* others, double* out);
// The cluster of a slot goes into another; the slot is free.
KB_API void kb_merge(kbforge::Table* table, std::int64_t slot, std::int64_t into);
// Take in fragments, one after another, by a likelihood of the kernel's own.
KB_API void kb_add(kbforge::Run* run, kbforge::Table* table, std::int64_t n,
                   const std::int64_t* record_start, const std::int32_t* attributes,
                   const std::int32_t* values, const std::int64_t* key_start,
                   const std::int64_t* keys, kb_done* done);

// The names of all subproblems, ascending; how many.
KB_API std::int64_t kb_names(kbforge::Run* run, const std::int64_t** names);
KB_API void kb_export_pages(kbforge::Run* run, std::int64_t n, const std::int64_t* names,
                            kb_pages* pages);
KB_API void kb_export_totals(kbforge::Run* run, kb_totals* totals);
// The heaviest particle's clusters of one subproblem, in its order: n_slots lengths, members. 0: there
// is no such subproblem here.
KB_API std::int32_t kb_export_heaviest(kbforge::Run* run, std::int64_t name, kb_pages* pages);

// Where all keys lead that lead anywhere; those that may lead elsewhere than when this was last asked
// (at first, all); these. By ascending key, or as given.
KB_API void kb_export_led(kbforge::Run* run, kb_led* led);
KB_API void kb_changed_led(kbforge::Run* run, kb_led* led);
KB_API void kb_led_of(kbforge::Run* run, std::int64_t n, const std::int64_t* keys, kb_led* led);
// Keys are never closed, however many families they lead to.
KB_API void kb_keep_open(kbforge::Run* run, std::int64_t n, const std::int64_t* keys);
// Keys lead there from now on; `changes`: whether kb_changed_led is to tell.
KB_API void kb_put_led(kbforge::Run* run, std::int64_t n, const std::int64_t* keys,
                       const std::int64_t* counts, const std::int64_t* families,
                       const std::uint8_t* closed, std::int32_t changes);

// Be as a run that knew this beside its subproblems. `elsewhere`: those of all fragments lie
// elsewhere until they are held.
KB_API void kb_resume(kbforge::Run* run, const kb_totals* totals, std::int32_t elsewhere);
// So many more sets have been scored.
KB_API void kb_count(kbforge::Run* run, std::int64_t evaluations);
// Hold more subproblems; totals stay.
KB_API void kb_hold(kbforge::Run* run, std::int64_t n, const std::int64_t* names,
                    const kb_pages* pages);
// Hold some subproblems no longer; totals and free slots are to be told.
KB_API void kb_drop(kbforge::Run* run, std::int64_t n, const std::int64_t* names);
// Have a table hold clusters by their lengths and members, grown as they grew; fragments, ascending, by
// their records. If `scores` is not null, it takes L of the clusters.
KB_API void kb_replay(const kbforge::Run* run, kbforge::Table* table, std::int64_t n_slots,
                      const std::int64_t* slots, const std::int64_t* lengths,
                      const std::int64_t* members, std::int64_t n, const std::int64_t* fragments,
                      const std::int64_t* record_start, const std::int32_t* attributes,
                      const std::int32_t* values, double* scores);
KB_API void kb_release(kbforge::Table* table, std::int64_t n, const std::int64_t* slots);
// There are no such fragments, neither here nor elsewhere.
KB_API void kb_absent(kbforge::Run* run, std::int64_t n, const std::int64_t* fragments);
// The subproblems that hold fragments; -1: none that is here.
KB_API void kb_homes(kbforge::Run* run, std::int64_t n, const std::int64_t* fragments,
                     std::int64_t* homes);
// The cluster of a fragment that is here, in the heaviest particle.
KB_API std::int64_t kb_own_slot(const kbforge::Run* run, std::int64_t fragment);
// The families that keys lead to and that lie elsewhere; how many.
KB_API std::int64_t kb_elsewhere(kbforge::Run* run, const std::int64_t* keys, std::int64_t n,
                                 const std::int64_t** families);
// The families that lie elsewhere and are wanted first to look up fragments by their keys; how many.
// Once they are held, others may be wanted, unless there were none.
KB_API std::int64_t kb_missing(kbforge::Run* run, std::int64_t n, const std::int64_t* key_start,
                               const std::int64_t* keys, const std::int64_t** families);
// The clusters of heaviest particles that a fragment, which has been taken in, could belong to
// instead of its own (none unless `lone` if it has a cluster to itself); how many. -1: its keys lead to
// subproblems that lie elsewhere.
KB_API std::int64_t kb_rivals(kbforge::Run* run, kbforge::Table* table, std::int64_t fragment,
                              std::int32_t lone, const std::int64_t* record_start, const std::int32_t* attributes,
                              const std::int32_t* values, const std::int64_t* key_start,
                              const std::int64_t* keys, kb_rival* out);

// Keys of fragments, made of those of their values; `most` is how many a fragment has at most.
KB_API kbforge::KeyMaker* kb_keys_new(std::int64_t most);
KB_API void kb_keys_free(kbforge::KeyMaker* keys);
// More values, numbered on: the keys of each by itself, and those that are paired with others'.
KB_API void kb_keys_values(kbforge::KeyMaker* keys, std::int64_t n,
                           const std::int64_t* single_start, const std::int64_t* singles,
                           const std::int64_t* paired_start, const std::int64_t* paired);
// The keys of fragments by their values and further keys: how many, where each one's begin, all.
KB_API std::int64_t kb_keys_of(kbforge::KeyMaker* keys, std::int64_t n,
                               const std::int64_t* value_start, const std::int32_t* values,
                               const std::int64_t* more_start, const std::int64_t* more,
                               std::int64_t workers, const std::int64_t** starts,
                               const std::int64_t** out);

// The fragments, fewer than 2^31, that have each of some distinct keys, none where more than `most`
// have it: how many, where those of each key begin, all.
KB_API std::int64_t kb_keys_holders(kbforge::KeyMaker* keys, std::int64_t n,
                                    const std::int64_t* value_start, const std::int32_t* values,
                                    std::int64_t n_wanted, const std::int64_t* wanted,
                                    std::int64_t most, std::int64_t workers,
                                    const std::int64_t** out_starts, const std::int64_t** out);

// The digests of texts in UTF-8, end to end (kbforge/texts/__init__.py); shape [n].
KB_API void kb_digests(std::int64_t n, const std::int64_t* starts, const char* texts,
                       std::int64_t* out);
// The features of values of the kind "text": how many, where each value's begin, the name of each and
// the digest of its name's beginning with it; there is room for 47 a value. Characters of words
// beyond ASCII ascend.
KB_API std::int64_t kb_text_features(std::int64_t n, const std::int64_t* starts,
                                     const std::uint32_t* characters, std::int64_t n_of_words,
                                     const std::uint32_t* of_words, const std::int64_t* begin_start,
                                     const char* beginnings, std::int64_t workers,
                                     std::int64_t* out_starts, std::int32_t* names,
                                     std::int64_t* digests);
// Digests by number in the order of the first of each, less than 2^31: how many there are, and each.
KB_API std::int64_t kb_numbered(std::int64_t n, const std::int64_t* digests, std::int32_t* numbers,
                                std::int64_t* first);
// How probable the spelling of each of n values is, at least exp(`least`): the logs of its letters, or
// `other`, added up from the first one, and that of the end. Letters ascend.
KB_API void kb_spelled(std::int64_t n, const std::int64_t* starts, const std::uint32_t* characters,
                       std::int64_t n_letters, const std::uint32_t* letters, const double* logs,
                       double other, double end, double least, double* out);
// Which of n rows of numbers, less than 2^31, are the first with theirs, in whatever order.
KB_API void kb_first_rows(std::int64_t n, const std::int64_t* starts, const std::int32_t* numbers,
                          std::uint8_t* out);

// A reader of JSON lines of fragments to columns; the limits as LineLimits in lines.hpp, and how many
// fragments are wanted. The seed is secret, and changes nothing.
KB_API kbforge::ColumnReader* kb_columns_new(std::int32_t workers, std::int64_t seed,
                                             const std::int64_t* limits, std::int64_t most);
KB_API void kb_columns_free(kbforge::ColumnReader* reader);
// Read lines, each with its newline; they are used until all have been taken over.
KB_API void kb_columns_parse(kbforge::ColumnReader* reader, const char* lines, std::int64_t size);
// Take over fragments up to a doubt; returns a Reached of columns.hpp.
KB_API std::int32_t kb_columns_take(kbforge::ColumnReader* reader, kb_place* place);
// What the rows of a table mean (Plan in rows.hpp). Numbers: how many columns, attributes and nulls;
// the columns of ids and labels, or -1; the delimiter; whether there are a source and a header; of
// each column its attribute, or -1, and whether it has dates. Texts: attributes, nulls, prefix,
// separator, source, the header's first.
KB_API void kb_columns_plan(kbforge::ColumnReader* reader, const std::int64_t* numbers,
                            const std::int64_t* starts, const char* bytes);
// Read records of lines, each with its newline, or rows of a record batch of texts (Arrow's C data
// interface), up to a doubt. So many lines and rows of the table come before. 0: no such batch.
KB_API void kb_columns_text(kbforge::ColumnReader* reader, const char* text, std::int64_t size,
                            std::int64_t lines, std::int64_t rows);
KB_API std::int32_t kb_columns_batch(kbforge::ColumnReader* reader, const ArrowSchema* schema,
                                     const ArrowArray* batch, std::int64_t begin, std::int64_t end,
                                     std::int64_t rows);
// How many values meant that there is none, by null.
KB_API std::int64_t kb_columns_nulls(kbforge::ColumnReader* reader, const std::int64_t** out);
// Add the fragment of a checked line, and `[vector, metadata]` as JSON if it has either; a Put.
KB_API std::int32_t kb_columns_put(kbforge::ColumnReader* reader, const char* line,
                                   std::int64_t size, const char* rest, std::int64_t rest_size);
// Where each fragment's statements begin, when nothing else will be read; asked for first.
KB_API std::int64_t kb_columns_starts(kbforge::ColumnReader* reader, const std::int64_t** out);
// Give back texts: of labels, sources, rests, ids, attributes' names, or an attribute's values. Each
// is given once.
KB_API void kb_columns_texts(kbforge::ColumnReader* reader, std::int32_t which,
                             std::int64_t attribute, kb_texts* out);
// Give back numbers, how many: of labels, sources and rests by fragment, of attributes and values by
// statement. Each is given once.
KB_API std::int64_t kb_columns_numbers(kbforge::ColumnReader* reader, std::int32_t which,
                                       const std::int32_t** out);

// The entities of some subproblems of a file, whose subproblems and statements outlive them. Of each
// the `most` most probable alternatives above `least` are kept; a negative `most` bounds the characters
// of their ids instead.
KB_API kbforge::Entities* kb_entities_new(const kb_groupings* groupings, const kb_said* said,
                                          std::int64_t most, double least, std::int64_t begin,
                                          std::int64_t end, kb_entities* out);
KB_API void kb_entities_free(kbforge::Entities* entities);
// Their lines, how many bytes.
KB_API std::int64_t kb_entities_lines(kbforge::Entities* entities, const kb_stated_entities* also,
                                      const char** out);

KB_API void kb_table_free(kbforge::Table* table);

// How many frequent or rare words each text has, and their places in the largest table of words, text
// after text; -1: the text is not in ASCII. There is room for half as many as bytes and texts. How many
// places.
KB_API std::int64_t kb_words_places(const kb_texts* texts, std::int32_t* sizes, std::int32_t* out);

// How many fragments have a word, by its place, up to 2. By attribute the number of its first text, by
// text where its places begin.
KB_API void kb_words_count(std::int64_t n, const std::int64_t* starts, const std::int32_t* attribute,
                           const std::int32_t* value, const std::int64_t* first,
                           const std::int64_t* begins, const std::int32_t* places,
                           std::uint8_t* several);

// The parts of names, by which they are like one another; see names.hpp.
KB_API std::int64_t kb_names_parts(std::int64_t n, const std::uint8_t* text,
                                   const std::int64_t* starts, std::int32_t* sizes,
                                   std::int32_t* parts, std::int64_t* hashes);
KB_API void kb_names_nearest(std::int64_t n, const std::int64_t* starts, const std::int32_t* parts,
                             const double* rarity, const double* scale, const std::int64_t* often,
                             std::int64_t keys, std::int64_t sharing, std::int64_t alike,
                             std::int32_t workers, std::int64_t* pairs);
KB_API void kb_names_products(std::int64_t n, const std::int64_t* starts, const std::int32_t* parts,
                              const double* rarity, const double* scale, std::int64_t pairs,
                              const std::int64_t* firsts, const std::int64_t* seconds,
                              std::int64_t* product_starts, double* products);
