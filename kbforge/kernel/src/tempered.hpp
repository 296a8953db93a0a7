// Another table's scores divided by a temperature (kbforge.models.tempering).
#pragma once

#include "table.hpp"

namespace kbforge {

// Holds no clusters of its own; the other table outlives it.
class TemperedTable : public Table {
 public:
  TemperedTable(Table& table, double temperature) : table_(table), temperature_(temperature) {}

  bool knows(const Record& x) const override { return table_.knows(x); }
  void log_predictive(const Record& x, const std::vector<Slot>& slots, double* out) override {
    table_.log_predictive(x, slots, out);
    for (std::size_t k = 0; k < slots.size(); ++k) out[k] /= temperature_;
  }
  Ahead ahead() const override { return table_.ahead(); }
  void set_workers(std::size_t workers) override { table_.set_workers(workers); }
  double temperature() const override { return temperature_; }
  void log_predictive_by(std::size_t worker, const Record& x, const std::vector<Slot>& slots,
                         double* out) override {
    table_.log_predictive_by(worker, x, slots, out);
  }
  std::size_t n_parts() const override { return table_.n_parts(); }
  void log_predictive_part(std::size_t part, const Record& x, std::size_t place,
                           const std::vector<Slot>& slots, double* out) override {
    table_.log_predictive_part(part, x, place, slots, out);
  }
  void log_predictive_unread(const Record& x, const std::vector<Slot>& slots,
                             double* out) override {
    table_.log_predictive_unread(x, slots, out);
  }
  double log_predictive_new(const Record& x) override {
    return table_.log_predictive_new(x) / temperature_;
  }
  void extend(const Record& x, const std::vector<std::int64_t>& parents,
              const std::vector<std::int64_t>& children) override {
    table_.extend(x, parents, children);
  }
  void release(const std::vector<std::int64_t>& slots) override { table_.release(slots); }

 private:
  Table& table_;
  const double temperature_;
};

}  // namespace kbforge
