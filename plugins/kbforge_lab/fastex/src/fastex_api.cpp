#include "fastex_api.hpp"

#include <algorithm>

#include "documents.hpp"
#include "fastex.hpp"
#include "normals.hpp"

using kbforge::Family;
using kbforge::FastEx;

Family* kb_documents_new(std::int64_t n, std::int64_t n_lengths, const double* norms,
                         const double* lengths, const double* alone, const std::int64_t* starts,
                         const std::int32_t* rows, const std::int32_t* counts,
                         std::int64_t n_rows, const double* pseudo_counts, const double* signs,
                         const double* half, std::int32_t tangent, double unit) {
  const kbforge::Statistics told{static_cast<std::size_t>(n), static_cast<std::size_t>(n_lengths),
                                 norms, lengths, alone};
  return new kbforge::Documents(
      told, kbforge::SparseCounts{starts, rows, counts, static_cast<std::size_t>(n_rows),
                                  pseudo_counts, signs, half, tangent != 0, unit});
}

Family* kb_normals_new(std::int64_t n, const double* norms, const double* lengths,
                       const double* alone, std::int64_t dimensions, const double* points,
                       const double* a, const double* b, const double* lam,
                       const double* centre) {
  const kbforge::Statistics told{static_cast<std::size_t>(n), 1, norms, lengths, alone};
  return new kbforge::Normals(told, kbforge::PointsTold{static_cast<std::size_t>(dimensions),
                                                        points, a, b, lam, centre});
}

void kb_family_free(Family* family) { delete family; }

FastEx* kb_fastex_new(Family* family, double alpha, std::int64_t components, double delta,
                      std::int32_t tries, std::int32_t workers) {
  const kbforge::FastExRules rules{{alpha, components},
                                   delta,
                                   static_cast<std::size_t>(tries),
                                   static_cast<std::size_t>(workers)};
  return new FastEx(*family, rules);
}

void kb_fastex_free(FastEx* sampler) { delete sampler; }

void kb_fastex_redirect(FastEx* sampler, std::int64_t bits, std::int64_t length,
                        const std::int8_t* table, std::int64_t multiplier, std::int64_t offset) {
  sampler->redirect(
      kbforge::Directions{table, length, multiplier, offset, static_cast<std::size_t>(bits)});
}

void kb_fastex_begin(FastEx* sampler, const std::int64_t* labels) { sampler->begin(labels); }

double kb_fastex_place(FastEx* sampler, std::int64_t n, const std::int64_t* fragments,
                       std::uint64_t stream) {
  return sampler->place(fragments, static_cast<std::size_t>(n), stream);
}

void kb_fastex_exclude(FastEx* sampler, std::int64_t n, const std::int64_t* fragments) {
  sampler->exclude(fragments, static_cast<std::size_t>(n));
}

double kb_fastex_block(FastEx* sampler, std::int64_t n, const std::int64_t* fragments,
                       std::uint64_t stream) {
  return sampler->block(fragments, static_cast<std::size_t>(n), stream);
}

void kb_fastex_fit(FastEx* sampler, std::int64_t n, const std::int64_t* fragments, double* out) {
  sampler->fit(fragments, static_cast<std::size_t>(n), out);
}

void kb_fastex_temperature(FastEx* sampler, double temperature) {
  sampler->temperature = temperature;
}

void kb_fastex_slots(FastEx* sampler, std::int64_t* out) {
  std::copy(sampler->slot_of.begin(), sampler->slot_of.end(), out);
}

void kb_fastex_tell(FastEx* sampler, kb_fastex_told* told) {
  const kbforge::FastExTold& has = sampler->told;
  *told = kb_fastex_told{has.proposed,        has.moved,     has.fragments_hashed, has.statistics,
                         has.clusters_hashed, has.proposals, has.steps};
}
