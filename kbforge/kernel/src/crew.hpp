// Threads that share out tasks. Who does which changes no result.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace kbforge {

class Crew {
 public:
  // The caller is one of the workers.
  explicit Crew(std::size_t workers);
  ~Crew();
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  std::size_t workers() const { return threads_.size() + 1; }
  // Do tasks 0 to n - 1, some at a time, and return when all are done: task(worker, k).
  void share(std::size_t n, std::size_t at_once,
             const std::function<void(std::size_t, std::size_t)>& task);

 private:
  void wait_for_work(std::size_t worker);
  void work(std::size_t worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable begun_, ended_;
  const std::function<void(std::size_t, std::size_t)>* task_ = nullptr;
  std::size_t n_ = 0, at_once_ = 1, busy_ = 0, round_ = 0;
  std::atomic<std::size_t> next_{0};
  bool over_ = false;
};

// Do fixed parts of n things, each of so many but the last, on some threads: task(worker, first, end).
template <typename Task>
void share_parts(std::int64_t n, std::int64_t size, std::int64_t workers, const Task& task) {
  const std::int64_t parts = (n + size - 1) / size;
  Crew crew(static_cast<std::size_t>(std::max<std::int64_t>(1, std::min(workers, parts))));
  crew.share(static_cast<std::size_t>(parts), 1, [&](std::size_t worker, std::size_t part) {
    const std::int64_t first = static_cast<std::int64_t>(part) * size;
    task(worker, first, std::min(n, first + size));
  });
}

}  // namespace kbforge
