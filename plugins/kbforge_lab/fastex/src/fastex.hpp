// FastEx: collapsed sampling of mixtures with proposals from binary hashes.
//
// plugins/kbforge_lab/fastex says what is proposed and why it is exact; reference.py there makes the
// same moves. Proposals of a block are made on several threads, steps one after another.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "bounds.hpp"
#include "crew.hpp"
#include "family.hpp"
#include "signs.hpp"

namespace kbforge {

constexpr std::size_t kTemperatures = 13;  // 1, 1/2, 1/4, ...

// A Dirichlet process, or a mixture of components if there are some.
struct MixturePrior {
  double alpha;
  std::int64_t components;

  double share() const { return components ? alpha / static_cast<double>(components) : 0.0; }
  double log_join(std::int64_t size) const;
  double log_new(std::int64_t clusters) const;
};

struct FastExRules {
  MixturePrior prior;
  double delta;  // of the bound; not above 0: an estimate takes its place
  std::size_t tries, workers;
};

// What has been done, and the processor's seconds for it.
struct FastExTold {
  std::int64_t proposed = 0, moved = 0;
  double fragments_hashed = 0.0, statistics = 0.0, clusters_hashed = 0.0, proposals = 0.0,
         steps = 0.0;
};

class FastEx {
 public:
  FastEx(Family& family, FastExRules rules);

  void redirect(const Directions& directions);
  void begin(const std::int64_t* labels);
  double place(const std::int64_t* fragments, std::size_t n, std::uint64_t stream);
  // Have q of the clusters without these fragments; then `fit` some and `block` all of them.
  void exclude(const std::int64_t* fragments, std::size_t n);
  double block(const std::int64_t* fragments, std::size_t n, std::uint64_t stream);
  // The mean of log q of the places of fragments, by temperature.
  void fit(const std::int64_t* fragments, std::size_t n, double* out);

  double temperature = 1.0;
  FastExTold told;
  std::vector<std::int64_t> slot_of;

 private:
  struct Try {
    std::int64_t slot;
    double log_q;
  };
  // The clusters that q knows, in columns; `row_of` by slot, -1 of those that it does not.
  struct Hashed {
    std::vector<std::int64_t> slots;
    std::vector<std::uint64_t> hashes;
    std::vector<double> norms, g, log_join;
    std::vector<std::int64_t> row_of;
    std::size_t size() const { return slots.size(); }
  };
  // What a thread works with.
  struct Scratch {
    std::vector<std::int32_t> distances, order;
    std::vector<double> bound, by_distance;
    Weights weights;
  };
  struct Elsewhere {
    std::vector<Try> places;
    double log_q_of(std::int64_t slot) const;
  };

  std::int64_t put(std::size_t fragment, std::int64_t slot);
  void take(std::size_t fragment);
  void hash_row(std::size_t row);
  void open_row(std::int64_t slot);
  void bound_of(std::size_t fragment, Scratch& scratch) const;
  void propose(std::size_t fragment, std::uint64_t stream, Scratch& scratch, Try* tries,
               double& here) const;
  double step(std::size_t fragment, const Try* drafts, double here_drafted, std::uint64_t stream);
  void find_elsewhere(std::int64_t own);
  Try opened(std::int64_t here, double u) const;
  std::int64_t by_prior(std::size_t fragment, std::uint64_t stream) const;
  void candidates(std::size_t fragment, Scratch& scratch, std::vector<std::int64_t>& out);
  void set_error();
  double log_prior(std::size_t fragment, std::int64_t place) const;
  double log_pi(std::size_t fragment, std::int64_t place) const;
  bool alone(std::int64_t slot) const { return slot >= 0 && sizes_[slot] == 1; }

  Family& family_;
  FastExRules rules_;
  std::unique_ptr<Crew> crew_;
  std::vector<Scratch> scratch_;
  Directions directions_;
  std::vector<std::uint64_t> hashes_;  // [n, words]
  std::vector<double> cosines_;        // by distance
  Hashed hashed_;
  std::vector<std::int64_t> hashed_at_;  // size, by row
  std::vector<std::int64_t> sizes_, free_, unhashed_;
  std::int64_t clusters_ = 0;
  Elsewhere elsewhere_;
  // of a block
  std::vector<Try> drafts_;
  std::vector<double> here_;
  std::vector<Try> taken_;
  std::vector<double> log_w_, log_pi_;
};

}  // namespace kbforge
