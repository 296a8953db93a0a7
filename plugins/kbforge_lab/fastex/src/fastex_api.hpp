// The interface of FastEx: plain C, for ctypes (compiled.py).
//
// All arrays that a function is given stay the caller's: those of a family as long as it lives, the
// table of directions until others are told. A family must outlive the sampler that it is given to.
#pragma once

#include "api.hpp"

namespace kbforge {
class Family;
class FastEx;
}  // namespace kbforge

// What has been done: places proposed, moves, and the processor's seconds by phase.
struct kb_fastex_told {
  std::int64_t proposed, moved;
  double fragments_hashed, statistics, clusters_hashed, proposals, steps;
};

// Of n fragments: |phi(x)|, what g is multiplied by [n, n_lengths], L({x}).
// Bags of words: entries of fragments, rows, half the mean lengths; which theta*.
KB_API kbforge::Family* kb_documents_new(std::int64_t n, std::int64_t n_lengths,
                                         const double* norms, const double* lengths,
                                         const double* alone, const std::int64_t* starts,
                                         const std::int32_t* rows, const std::int32_t* counts,
                                         std::int64_t n_rows, const double* pseudo_counts,
                                         const double* signs, const double* half,
                                         std::int32_t tangent, double unit);
// Points, standardised, shape [n, dimensions], and their prior by dimension.
KB_API kbforge::Family* kb_normals_new(std::int64_t n, const double* norms,
                                       const double* lengths, const double* alone,
                                       std::int64_t dimensions, const double* points,
                                       const double* a, const double* b, const double* lam,
                                       const double* centre);
KB_API void kb_family_free(kbforge::Family* family);

// No components: a Dirichlet process. A delta of 0: no error term.
KB_API kbforge::FastEx* kb_fastex_new(kbforge::Family* family, double alpha,
                                      std::int64_t components, double delta, std::int32_t tries,
                                      std::int32_t workers);
KB_API void kb_fastex_free(kbforge::FastEx* sampler);
KB_API void kb_fastex_redirect(kbforge::FastEx* sampler, std::int64_t bits, std::int64_t length,
                               const std::int8_t* table, std::int64_t multiplier, std::int64_t offset);
KB_API void kb_fastex_begin(kbforge::FastEx* sampler, const std::int64_t* labels);
// Both return what is gained, nats.
KB_API double kb_fastex_place(kbforge::FastEx* sampler, std::int64_t n,
                              const std::int64_t* fragments, std::uint64_t stream);
KB_API void kb_fastex_exclude(kbforge::FastEx* sampler, std::int64_t n,
                              const std::int64_t* fragments);
KB_API double kb_fastex_block(kbforge::FastEx* sampler, std::int64_t n,
                              const std::int64_t* fragments, std::uint64_t stream);
KB_API void kb_fastex_fit(kbforge::FastEx* sampler, std::int64_t n, const std::int64_t* fragments,
                          double* out);
KB_API void kb_fastex_temperature(kbforge::FastEx* sampler, double temperature);
// The slot of each fragment, shape [n].
KB_API void kb_fastex_slots(kbforge::FastEx* sampler, std::int64_t* out);
KB_API void kb_fastex_tell(kbforge::FastEx* sampler, kb_fastex_told* told);
