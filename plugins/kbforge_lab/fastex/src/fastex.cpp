#include "fastex.hpp"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <limits>

#include "numbers.hpp"

namespace kbforge {

namespace {

// plugins/kbforge_lab/fastex/proposals.py and reference.py have these numbers, too
constexpr double kElsewhere = 0.1, kExplore = 0.05, kGrowth = 1.5;
constexpr std::size_t kCandidates = 32, kAtOnce = 16;
constexpr std::int64_t kNew = -1, kOpen = -2;
enum Purpose : std::uint64_t { kExploring, kPick, kComponent, kChoice, kAccept, kTry = 8 };
constexpr std::uint64_t kPurposes = 64;
constexpr double kPi = 3.14159265358979323846;
const double kNaN = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

double uniform(std::uint64_t stream, std::size_t fragment, std::uint64_t purpose) {
  return static_cast<double>(mixed(stream + fragment * kPurposes + purpose) >> 11) * 0x1p-53;
}

double log_weight(std::int64_t weight, std::int64_t total) {
  return std::log1p(-kElsewhere) +
         libm.log(static_cast<double>(weight) / static_cast<double>(total));
}

// Adds the processor's seconds of a scope to a number.
class Timed {
 public:
  explicit Timed(double& to) : to_(to), begin_(std::clock()) {}
  ~Timed() { to_ += static_cast<double>(std::clock() - begin_) / CLOCKS_PER_SEC; }

 private:
  double& to_;
  std::clock_t begin_;
};

}  // namespace

double MixturePrior::log_join(std::int64_t size) const {
  return libm.log(static_cast<double>(size) + share());
}

double MixturePrior::log_new(std::int64_t clusters) const {
  if (!components) return libm.log(alpha);
  return clusters < components ? libm.log(static_cast<double>(components - clusters) * share())
                               : kNever;
}

FastEx::FastEx(Family& family, FastExRules rules)
    : slot_of(family.told.n, -1),
      family_(family),
      rules_(rules),
      crew_(new Crew(rules.workers)),
      scratch_(rules.workers) {}

void FastEx::redirect(const Directions& directions) {
  const Timed timed(told.fragments_hashed);
  directions_ = directions;
  const std::size_t words = directions.words(), n = slot_of.size();
  hashes_.resize(n * words);
  crew_->share(n, kAtOnce, [&](std::size_t, std::size_t fragment) {
    family_.hash_fragment(fragment, directions, hashes_.data() + fragment * words);
  });
}

void FastEx::begin(const std::int64_t* labels) {
  for (std::size_t fragment = 0; fragment < slot_of.size(); ++fragment) {
    put(fragment, labels[fragment]);
  }
}

std::int64_t FastEx::put(std::size_t fragment, std::int64_t slot) {
  if (slot == kNew) {
    if (free_.empty()) {
      slot = static_cast<std::int64_t>(sizes_.size());
    } else {
      slot = free_.back();
      free_.pop_back();
    }
  }
  if (static_cast<std::size_t>(slot) >= sizes_.size()) sizes_.resize(slot + 1);
  if (!sizes_[slot]) {
    ++clusters_;
    unhashed_.push_back(slot);
  }
  family_.add(fragment, slot);
  ++sizes_[slot];
  slot_of[fragment] = slot;
  return slot;
}

void FastEx::take(std::size_t fragment) {
  const std::int64_t slot = slot_of[fragment];
  family_.remove(fragment, slot);
  if (--sizes_[slot]) return;
  --clusters_;
  unhashed_.erase(std::find(unhashed_.begin(), unhashed_.end(), slot));
  free_.push_back(slot);
}

// Have a row for the cluster of a slot, still to be hashed.
void FastEx::open_row(std::int64_t slot) {
  hashed_.slots.push_back(slot);
  const std::size_t k = hashed_.size();
  hashed_.hashes.resize(k * directions_.words());
  hashed_.norms.resize(k);
  hashed_.g.resize(k * family_.told.n_lengths);
  hashed_.log_join.resize(k);
  if (hashed_.row_of.size() < sizes_.size()) hashed_.row_of.resize(sizes_.size(), -1);
  hashed_.row_of[slot] = static_cast<std::int64_t>(k) - 1;
}

void FastEx::hash_row(std::size_t row) {
  const std::int64_t slot = hashed_.slots[row];
  hashed_.norms[row] =
      family_.hash_cluster(slot, directions_, hashed_.hashes.data() + row * directions_.words(),
                           hashed_.g.data() + row * family_.told.n_lengths);
  hashed_.log_join[row] = rules_.prior.log_join(sizes_[slot]);
}

void FastEx::set_error() {
  double error = 0.0;
  if (rules_.delta > 0.0 && hashed_.size()) {
    const double log_odds = libm.log(static_cast<double>(hashed_.size()) / rules_.delta);
    error = std::sqrt(std::max(log_odds, 0.0) / (2.0 * static_cast<double>(directions_.bits)));
  }
  cosines_.clear();
  for (std::size_t h = 0; h <= directions_.bits; ++h) {
    const double share = static_cast<double>(h) / static_cast<double>(directions_.bits);
    cosines_.push_back(std::cos(kPi * std::max(share - error, 0.0)));
  }
}

void FastEx::exclude(const std::int64_t* fragments, std::size_t n) {
  {
    const Timed timed(told.statistics);
    for (std::size_t k = 0; k < n; ++k) {
      family_.remove(fragments[k], slot_of[fragments[k]]);
      --sizes_[slot_of[fragments[k]]];
    }
  }
  {
    const Timed timed(told.clusters_hashed);
    hashed_ = Hashed();
    hashed_.row_of.assign(sizes_.size(), -1);
    for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
      if (sizes_[slot]) open_row(static_cast<std::int64_t>(slot));
    }
    crew_->share(hashed_.size(), 1, [&](std::size_t, std::size_t row) { hash_row(row); });
    set_error();
  }
  const Timed timed(told.statistics);
  for (std::size_t k = 0; k < n; ++k) {
    family_.add(fragments[k], slot_of[fragments[k]]);
    ++sizes_[slot_of[fragments[k]]];
  }
  unhashed_.clear();
  for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
    if (sizes_[slot] && hashed_.row_of[slot] < 0) unhashed_.push_back(slot);
  }
}

// s - log(n_y + a) of all clusters that q knows.
void FastEx::bound_of(std::size_t fragment, Scratch& scratch) const {
  const std::size_t k = hashed_.size(), words = directions_.words();
  scratch.distances.resize(k);
  scratch.bound.resize(k);
  distances(hashes_.data() + fragment * words, hashed_.hashes.data(), k, words,
            scratch.distances.data());
  scratch.by_distance.resize(cosines_.size());
  const double norm = family_.told.norms[fragment];
  for (std::size_t h = 0; h < cosines_.size(); ++h) scratch.by_distance[h] = norm * cosines_[h];
  bounds(scratch.by_distance.data(), scratch.distances.data(), hashed_.norms.data(),
         family_.told.lengths + fragment * family_.told.n_lengths, hashed_.g.data(),
         family_.told.n_lengths, k, scratch.bound.data());
}

void FastEx::propose(std::size_t fragment, std::uint64_t stream, Scratch& scratch, Try* tries,
                     double& here) const {
  here = kNaN;
  std::fill(tries, tries + rules_.tries, Try{kOpen, 0.0});
  if (!hashed_.size()) return;
  bound_of(fragment, scratch);
  const Weights& weights = scratch.weights;
  weigh(temperature, hashed_.log_join.data(), hashed_.size(), scratch.bound.data(),
        scratch.weights);
  for (std::size_t j = 0; j < rules_.tries; ++j) {
    const double u = uniform(stream, fragment, kTry + 2 * j);
    if (u < kElsewhere) continue;
    const double v = (u - kElsewhere) / (1.0 - kElsewhere);
    const auto aim = static_cast<std::int64_t>(v * static_cast<double>(weights.total));
    const std::size_t row = weights.row_at(std::min(aim, weights.total - 1));
    tries[j] = Try{hashed_.slots[row], log_weight(weights.of(row), weights.total)};
  }
  const std::int64_t row = hashed_.row_of[slot_of[fragment]];
  if (row >= 0) here = log_weight(weights.of(row), weights.total);
}

double FastEx::block(const std::int64_t* fragments, std::size_t n, std::uint64_t stream) {
  {
    const Timed timed(told.proposals);
    drafts_.resize(n * rules_.tries);
    here_.resize(n);
    crew_->share(n, kAtOnce, [&](std::size_t worker, std::size_t k) {
      propose(fragments[k], stream, scratch_[worker], drafts_.data() + k * rules_.tries, here_[k]);
    });
  }
  const Timed timed(told.steps);
  double gain = 0.0;
  for (std::size_t k = 0; k < n; ++k) {
    gain += step(fragments[k], drafts_.data() + k * rules_.tries, here_[k], stream);
  }
  return gain;
}

void FastEx::fit(const std::int64_t* fragments, std::size_t n, double* out) {
  std::fill(out, out + kTemperatures, 0.0);
  Scratch& scratch = scratch_[0];
  std::size_t known = 0;
  std::vector<double> bound;
  for (std::size_t k = 0; k < n && hashed_.size(); ++k) {
    const std::int64_t row = hashed_.row_of[slot_of[fragments[k]]];
    if (row < 0) continue;
    ++known;
    bound_of(fragments[k], scratch);
    bound = scratch.bound;
    for (std::size_t t = 0; t < kTemperatures; ++t) {
      scratch.bound = bound;
      weigh(std::ldexp(1.0, -static_cast<int>(t)), hashed_.log_join.data(), hashed_.size(),
            scratch.bound.data(), scratch.weights);
      out[t] += libm.log(static_cast<double>(scratch.weights.of(row)) /
                         static_cast<double>(scratch.weights.total));
    }
  }
  for (std::size_t t = 0; t < kTemperatures && known; ++t) out[t] /= static_cast<double>(known);
}

double FastEx::step(std::size_t fragment, const Try* drafts, double here_drafted,
                    std::uint64_t stream) {
  const std::int64_t own = slot_of[fragment], here = alone(own) ? kNew : own;
  const double log_pi_here = log_pi(fragment, here);
  std::int64_t place;
  double log_pi_there, log_ratio;
  if (uniform(stream, fragment, kExploring) < kExplore) {
    place = by_prior(fragment, stream);
    if (place == here) return 0.0;
    log_pi_there = log_pi(fragment, place);
    log_ratio = log_pi_there - log_prior(fragment, place);
    log_ratio -= log_pi_here - log_prior(fragment, here);
  } else {
    bool asks = std::isnan(here_drafted);
    for (std::size_t j = 0; j < rules_.tries; ++j) asks = asks || drafts[j].slot == kOpen;
    if (asks) find_elsewhere(own);
    const std::size_t tries = rules_.tries;
    log_w_.resize(tries);
    log_pi_.resize(tries);
    taken_.assign(drafts, drafts + tries);
    for (std::size_t j = 0; j < tries; ++j) {
      if (taken_[j].slot == kOpen) {
        taken_[j] = opened(here, uniform(stream, fragment, kTry + 2 * j + 1));
      }
      std::size_t same = 0;
      while (same < j && taken_[same].slot != taken_[j].slot) ++same;
      if (taken_[j].slot == here) {
        log_pi_[j] = log_pi_here;
      } else {
        log_pi_[j] = same < j ? log_pi_[same] : log_pi(fragment, taken_[j].slot);
      }
      log_w_[j] = log_pi_[j] - taken_[j].log_q;
    }
    const double top = *std::max_element(log_w_.begin(), log_w_.end());
    std::size_t which = 0;
    if (top > kNever && tries > 1) {
      double sum = 0.0;
      for (double w : log_w_) sum += libm.exp(w - top);
      const double aim = uniform(stream, fragment, kChoice) * sum;
      double reached = 0.0;
      for (; which + 1 < tries; ++which) {
        reached += libm.exp(log_w_[which] - top);
        if (reached > aim) break;
      }
    }
    place = taken_[which].slot;
    if (place == here) return 0.0;
    log_pi_there = log_pi_[which];
    const double log_q = std::isnan(here_drafted) ? elsewhere_.log_q_of(here) : here_drafted;
    const double log_here = log_pi_here - log_q;
    if (tries == 1) {
      log_ratio = log_w_[0] - log_here;
    } else {
      const double most = std::max(top, log_here);
      double total = 0.0, others = libm.exp(log_here - most);
      for (std::size_t j = 0; j < tries; ++j) {
        const double weight = libm.exp(log_w_[j] - most);
        total += weight;
        if (j != which) others += weight;
      }
      log_ratio = total > 0.0 ? (others > 0.0 ? libm.log(total / others) : kInfinity) : kNever;
    }
  }
  ++told.proposed;
  if (log_ratio < 0.0 && uniform(stream, fragment, kAccept) >= libm.exp(log_ratio)) return 0.0;
  ++told.moved;
  take(fragment);
  put(fragment, place);
  return log_pi_there - log_pi_here;
}

double FastEx::Elsewhere::log_q_of(std::int64_t slot) const {
  for (const Try& one : places) {
    if (one.slot == slot) return one.log_q;
  }
  return kNever;
}

// log q of the places without a hash, for a fragment of a slot, which is not counted.
void FastEx::find_elsewhere(std::int64_t own) {
  std::vector<Try>& places = elsewhere_.places;
  places.clear();
  double total = 0.0;
  for (std::int64_t slot : unhashed_) {
    const std::int64_t size = sizes_[slot] - (slot == own);
    if (!size) continue;
    places.push_back(Try{slot, static_cast<double>(size)});
    total += static_cast<double>(size);
  }
  if (rules_.prior.log_new(clusters_ - alone(own)) > kNever) {
    places.push_back(Try{kNew, 1.0});
    total += 1.0;
  }
  const double share = hashed_.size() ? kElsewhere : 1.0;
  for (Try& one : places) one.log_q = libm.log(share * one.log_q / total);
}

FastEx::Try FastEx::opened(std::int64_t here, double u) const {
  const std::vector<Try>& places = elsewhere_.places;
  if (places.empty()) return Try{here, kInfinity};
  double sum = 0.0;
  for (const Try& one : places) sum += libm.exp(one.log_q);
  double aim = u * sum;
  for (const Try& one : places) {
    aim -= libm.exp(one.log_q);
    if (aim < 0.0) return one;
  }
  return places.back();
}

std::int64_t FastEx::by_prior(std::size_t fragment, std::uint64_t stream) const {
  const double others = static_cast<double>(slot_of.size() - 1);
  const double at = uniform(stream, fragment, kPick) * (others + rules_.prior.alpha);
  if (at < others) {
    const std::size_t other = static_cast<std::size_t>(at);
    return slot_of[other + (other >= fragment)];
  }
  if (!rules_.prior.components) return kNew;
  const double components = static_cast<double>(rules_.prior.components);
  std::int64_t component =
      static_cast<std::int64_t>(uniform(stream, fragment, kComponent) * components);
  const std::int64_t own = slot_of[fragment];
  for (std::size_t slot = 0; slot < sizes_.size(); ++slot) {
    const std::int64_t at_slot = static_cast<std::int64_t>(slot);
    if (!sizes_[slot] || (at_slot == own && alone(own))) continue;
    if (!component--) return at_slot;
  }
  return kNew;
}

double FastEx::log_prior(std::size_t fragment, std::int64_t place) const {
  const std::int64_t own = slot_of[fragment];
  if (place == kNew) return rules_.prior.log_new(clusters_ - alone(own));
  return rules_.prior.log_join(sizes_[place] - (place == own));
}

double FastEx::log_pi(std::size_t fragment, std::int64_t place) const {
  const double prior = log_prior(fragment, place);
  if (place == kNew) return prior + family_.told.alone[fragment];
  return prior + family_.log_predictive(fragment, place, place == slot_of[fragment]);
}

double FastEx::place(const std::int64_t* fragments, std::size_t n, std::uint64_t stream) {
  const Timed timed(told.steps);
  double gain = 0.0;
  Scratch& scratch = scratch_[0];
  std::vector<std::int64_t> places;
  for (std::size_t at = 0; at < n; ++at) {
    const std::size_t fragment = fragments[at];
    candidates(fragment, scratch, places);
    log_pi_.clear();
    double top = kNever, sum = 0.0, reached = 0.0;
    for (std::int64_t one : places) {
      log_pi_.push_back(log_pi(fragment, one));
      top = std::max(top, log_pi_.back());
    }
    for (double one : log_pi_) sum += libm.exp(one - top);
    const double aim = uniform(stream, fragment, kChoice) * sum;
    std::size_t which = 0;
    for (; which + 1 < places.size(); ++which) {
      reached += libm.exp(log_pi_[which] - top);
      if (reached > aim) break;
    }
    gain += log_pi_[which];
    const std::int64_t slot = put(fragment, places[which]);
    const std::int64_t size = sizes_[slot];
    if (size == 1) {
      open_row(slot);
      hashed_at_.push_back(0);
      set_error();
    }
    family_.remember(fragment, slot);
    const std::size_t row = hashed_.row_of[slot];
    if (size == 1 || static_cast<double>(size) >= kGrowth * hashed_at_[row]) {
      hashed_at_[row] = size;
      hash_row(row);
    }
  }
  return gain;
}

// A new cluster, and those that seem likeliest: to the family, or by the bound.
void FastEx::candidates(std::size_t fragment, Scratch& scratch,
                        std::vector<std::int64_t>& out) {
  const std::size_t k = hashed_.size();
  if (!family_.recall(fragment, kCandidates, out)) {
    out.clear();
    bound_of(fragment, scratch);
    std::vector<std::int32_t>& order = scratch.order;
    order.resize(k);
    for (std::size_t row = 0; row < k; ++row) {
      scratch.bound[row] += hashed_.log_join[row];
      order[row] = static_cast<std::int32_t>(row);
    }
    const std::size_t most = std::min(kCandidates, k);
    std::partial_sort(order.begin(), order.begin() + most, order.end(),
                      [&](std::int32_t one, std::int32_t other) {
                        const double a = scratch.bound[one], b = scratch.bound[other];
                        return a > b || (a == b && one < other);
                      });
    for (std::size_t row = 0; row < most; ++row) out.push_back(hashed_.slots[order[row]]);
  }
  if (rules_.prior.log_new(clusters_) > kNever) out.push_back(kNew);
}

}  // namespace kbforge
